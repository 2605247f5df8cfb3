"""Answers to questions with any number of options: the output of a language model instead of a matrix of predictions.

Rows are padded to the largest number of options; the log-probability of an option that a question does not have is
``-inf``. A stated confidence in an answer is a question with two options: the answer is wrong, or right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.inputs.observations import check_groups, check_sample_weight
from calibrant.sample import Sample
from calibrant.simplex import log_softmax
from calibrant.typing import AnyArray, FloatArray

#: Log-probabilities this far below the best are raised to it, so that only absent options are ``-inf``.
_LOWEST = -1e4
#: What the two options of a stated confidence are called.
WRONG_RIGHT = ("wrong", "right")


@dataclass(frozen=True, eq=False)
class Answers:
    """Log-probabilities of the options of each question, and which option is right.

    `calibrant.read_answers` reads them from a file, `Answers.from_lists` takes lists of different lengths.

    Attributes
    ----------
    sample : Sample
        Log-probabilities (n, k), normalised over the options of each question and ``-inf`` for options that it does not
        have; the number of the right option, from 0, or -1 if it is not known; counts and groups.
    lengths : ndarray of shape (n, k) or None
        The number of characters of each option.
    stated : bool
        Whether these are confidences that a model stated, or scores of a judge: the options are "wrong" and "right".
    notes : tuple of str
        What was assumed when a file was read, and what was left out.

    Examples
    --------
    >>> from calibrant import Answers
    >>> answers = Answers.from_lists([[-1.0, -2.0], [-0.5, -3.0, -3.0]], [0, 2])
    >>> answers.n_options.tolist(), answers.sample.proba.round(2).tolist()
    ([2, 3], [[0.73, 0.27, 0.0], [0.86, 0.07, 0.07]])
    """

    sample: Sample
    lengths: FloatArray | None = None
    stated: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def from_lists(
        cls,
        logprobs: Sequence[Sequence[float]],
        y: ArrayLike | None = None,
        *,
        lengths: Sequence[Sequence[float]] | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Answers:
        """Check lists of log-probabilities, one list for each question, and pad them.

        Parameters
        ----------
        logprobs : sequence of sequences of float
            Log-probabilities, or any logits, of the options of each question.
        y : sequence of int, default=None
            The number of the right option, from 0.
        lengths : sequence of sequences of float, default=None
            The length of each option.
        sample_weight, groups : array-like of shape (n,), default=None
            Counts, and which questions belong together, such as those on one document.
        """
        rows = [check_options(f"row {i}", options) for i, options in enumerate(logprobs)]
        if not rows:
            raise ValueError("there are no questions")
        right = np.full(len(rows), -1) if y is None else np.asarray(y)
        if right.shape != (len(rows),) or right.dtype.kind not in "iu":
            raise ValueError(f"y should hold {len(rows)} whole numbers: the right option of each question, from 0")
        for i, options in enumerate(rows if y is not None else []):
            check_answer(f"row {i}", int(right[i]), len(options))
        if lengths is not None and [len(row) for row in lengths] != [len(row) for row in rows]:
            raise ValueError("lengths should hold one number for each option of each question")
        values, together = log_softmax(_padded(rows, -np.inf)), check_groups(groups, None, len(rows))
        counts, k = check_sample_weight(sample_weight, len(rows)), values.shape[1]
        sample = Sample(values, right.astype(np.int64), counts, together, np.arange(k), logs=True)
        made = cls(sample, None if lengths is None else _padded(lengths, 0.0))
        return made if counts is None or counts.all() else made.take(np.flatnonzero(counts))

    @property
    def present(self) -> AnyArray:
        """Which options there are, a boolean array of shape (n, k)."""
        return self.sample.values > -np.inf

    @property
    def n_options(self) -> AnyArray:
        """The number of options of each question."""
        return self.present.sum(axis=1)

    @property
    def correct(self) -> Sample:
        """How sure the model was of its answer, and whether it was right: a sample of the classes wrong and right."""
        return self.sample if self.stated else correct_sample(self.sample)

    def take(self, rows: AnyArray) -> Answers:
        """Some of the questions, by number or by a mask."""
        lengths = None if self.lengths is None else self.lengths[rows]
        return replace(self, sample=self.sample.take(rows), lengths=lengths)


def correct_sample(sample: Sample) -> Sample:
    """Whether the most probable option is right, and its probability, as a sample of the classes wrong and right."""
    confidence = np.clip(sample.confidence, 0.0, 1.0)
    right = (sample.top == sample.y).astype(np.int64)
    pair = sample.with_values(np.column_stack([1.0 - confidence, confidence]), logs=False, y=right)
    return replace(pair, classes=np.array(WRONG_RIGHT))


def check_answer(where: str, right: int, n_options: int) -> int:
    """The number of an option that there is."""
    if not 0 <= right < n_options:
        raise ValueError(f"{where}: the answer {right} is not one of the {n_options} options, 0 to {n_options - 1}")
    return right


def check_options(where: str, values: Sequence[Any]) -> FloatArray:
    """The log-probabilities of the options of a question, or an error that says where and why not."""
    if len(values) < 2:
        raise ValueError(f"{where}: {len(values)} option{'' if len(values) == 1 else 's'}, at least two are needed")
    for option, value in enumerate(values):
        if isinstance(value, (bool, str, list, dict)) or value is None or not value < np.inf:
            raise ValueError(f"{where}: {str(value)[:40]} for option {option} is not a log-probability")
    logprobs = np.asarray(values, dtype=np.float64)
    if logprobs.max() == -np.inf:
        raise ValueError(f"{where}: all log-probabilities are -inf")
    return np.maximum(logprobs, logprobs.max() + _LOWEST)


def _padded(rows: Sequence[Sequence[float] | FloatArray], fill: float) -> FloatArray:
    out = np.full((len(rows), max(map(len, rows))), fill)
    for line, row in zip(out, rows):
        line[: len(row)] = row
    return out
