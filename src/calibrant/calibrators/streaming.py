"""Fits to rows that come in parts: a first pass finds out what there is, later ones compute with it.

The first pass checks every row, counts rows, labels and weights, and keeps a uniform sample in memory: each row of a
batch is given a random number, and the rows with the smallest ones stay. Methods that need all
rows at once are fitted to this sample; the others start from it and take their curvature from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.inputs.batches import BatchReader, Reservoir, SeenLabels
from calibrant.inputs.labels import distinct, encode, warn_of_missing_information, warn_of_order
from calibrant.inputs.observations import check_observations, unless_ones
from calibrant.sample import Sample, Size
from calibrant.softmax.rows.batch_rows import watched
from calibrant.softmax.rows.row_source import Extent
from calibrant.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: Bytes of a float64, and matrices of the sample's size that a fit of matrix scaling holds.
_BYTES, _MATRICES = 8, 6
#: Share of the memory for the sample, as `fit_batches` documents; the rest is for batches.
_SAMPLE_SHARE = 0.25


def rows_in_memory(memory_mb: float, n_columns: int) -> int:
    """How many rows the sample may have.

    Examples
    --------
    >>> rows_in_memory(512, 10)
    279620
    """
    return max(256, int(_SAMPLE_SHARE * memory_mb * 2**20 / (_BYTES * _MATRICES * max(n_columns, 2))))


class Facts(NamedTuple):
    """What is known of a part of the rows without looking at it again."""

    n_rows: int
    n_given: int
    labels: AnyArray
    counts: FloatArray
    first: FloatArray
    all_equal: bool


def facts_of(sample: Sample) -> Facts:
    """The distinct labels of some rows with their counts, the first prediction, and whether all are like it."""
    seen, first = distinct(sample.y), sample.x[0].copy()
    counts = np.bincount(encode(sample.y, seen), sample.counts, minlength=len(seen)).astype(np.float64)
    return Facts(sample.n_rows, sample.size.rows, seen, counts, first, bool(np.all(sample.x == first)))


class Findings:
    """What is known of all rows, put together from the facts of their parts.

    Attributes
    ----------
    n_rows, total_weight : rows to compute with, and the sum of their weights.
    n_given : rows of the input: one with votes for several classes is computed with once for each.
    n_classes : columns of the log-probabilities.
    """

    n_classes: int

    def __init__(self) -> None:
        self.n_rows = self.n_given = 0
        self._seen = SeenLabels()
        self._counts: dict[Any, float] = {}
        self._first: FloatArray | None = None
        self._all_equal = True

    def add(self, facts: Facts, place: str | Callable[[Any], str]) -> None:
        """Add a part of the rows; `place` says where it is, or is a function that says where in it a label is."""
        self._seen.add(facts.labels, place)
        for label, count in zip(facts.labels.tolist(), facts.counts.tolist(), strict=True):
            self._counts[label] = self._counts.get(label, 0.0) + count
        if self._first is None:
            self._first, self.n_classes = facts.first, len(facts.first)
        self._all_equal &= facts.all_equal and np.array_equal(facts.first, self._first)
        self.n_rows += facts.n_rows
        self.n_given += facts.n_given

    @property
    def total_weight(self) -> float:
        return sum(self._counts.values())

    def describe(
        self, calibrator: Calibrator, n_given: int, names: list[object] | None, categories: AnyArray | None
    ) -> Extent:
        """Check that something can be learned, and give a calibrator its classes with their counts."""
        check_observations(self.n_rows, np.array([self.total_weight]))
        labels = self._seen.labels
        with self._seen.named():
            calibrator._take_names(labels, self.n_classes, n_given, names, categories)
        classes = calibrator.classes_.tolist()
        calibrator.class_counts_ = np.array([self._counts.get(label, 0.0) for label in classes])
        weighted = self.total_weight != self.n_rows
        calibrator.fitted_to_ = str(Size(self.n_given, self.total_weight if weighted else None))
        warn_of_order(calibrator.classes_)
        only = labels[0] if len(labels) == 1 else None
        warn_of_missing_information(self.n_rows, only, self._all_equal)
        return Extent(self.n_rows, self.total_weight, calibrator.class_counts_)


def survey(reader: BatchReader, memory_mb: float, seed: int) -> tuple[Findings, Sample]:
    """The first pass: what there is, and a uniform sample of it, all rows if they are few."""
    found, reservoir = Findings(), None
    for part in watched(reader.read(), "first pass"):
        found.add(facts_of(part), reader.place_of)
        if reservoir is None:
            reservoir = Reservoir(rows_in_memory(memory_mb, found.n_classes), seed)
        rows = np.arange(found.n_rows - part.n_rows, found.n_rows) if part.rows is None else part.rows
        reservoir.add([part.x, part.y, part.each, rows])
    check_observations(found.n_rows, None)
    assert reservoir is not None
    x, labels, counts, rows = reservoir.take()
    source = None if found.n_given == found.n_rows else rows
    return found, Sample(x, labels, unless_ones(counts), logs=True, rows=source)


def fit_to_sample(calibrator: Calibrator, sample: Sample, n_rows: int) -> None:
    """Fit to a uniform sample of `n_rows` rows, for methods that need theirs in memory, or to all if they are few."""
    calibrator.batches_ = {"rows": n_rows, "rows_used": sample.size.rows, "passes": 1}
    calibrator.class_counts_, calibrator.fitted_to_ = sample.class_counts, str(sample)
    calibrator._fit(sample.with_values(np.asarray(sample.x, order=calibrator._order)))
