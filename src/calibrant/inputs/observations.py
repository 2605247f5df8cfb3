"""The input contract for what rows count for: weights, groups, and labels that are certain or shared among classes.

Weights count observations: a row without weight is none. Soft labels, a matrix of probabilities or votes with one
column per class, make several observations of a row: votes 3, 1, 1 count as five, probabilities as one. Arrays,
batches, partitions and tensors are checked here, so that a calibrator sees the same observations wherever its rows are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sized
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.inputs.labels import check_labels, encode, is_matrix, missing_labels
from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.rows import LEAST_ROWS, first_true
from calibrant.inputs.words import CALIBRATOR, CalibrationWarning, Words
from calibrant.sample import Sample, consecutive_blocks
from calibrant.typing import AnyArray, FloatArray, IntArray, Labels

#: The largest sum of weights: they count observations, and their squares must stay finite.
LARGEST_TOTAL = 1e100
#: The smallest: below it, shares of the sum are no longer accurate numbers.
SMALLEST_TOTAL = 1e-300


def check_sample_weight(sample_weight: object, n: int) -> FloatArray | None:
    """Weights as counts: finite, non-negative, one per row; `None` for equal weights of one."""
    if sample_weight is None:
        return None
    w = row_weights(sample_weight, n)
    check_total_weight(w, n)
    return unless_ones(w)


def row_weights(sample_weight: object, n: int, first_row: int = 0, name: str = "sample_weight") -> FloatArray:
    """Weights of `n` rows, finite and not negative; `first_row` is what errors count from."""
    try:
        w: FloatArray = np.asarray(to_numpy(sample_weight, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold one real number per row: {error}") from None
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, found {w.ndim} dimensions.")
    if w.shape[0] != n:
        raise ValueError(f"{name}.shape == {w.shape}, expected ({n},): one weight per row.")
    if (row := first_true(~(np.isfinite(w) & (w >= 0.0)))) is not None:
        raise ValueError(f"{name} holds {w[row]} at row {first_row + row}: weights are finite and not negative.")
    return w


def check_total_weight(weight: FloatArray, n: int) -> None:
    """Refuse finite weights whose sum is zero, too large or too small; warn if they sum to one."""
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total <= 0.0:
        raise ValueError("All sample weights are zero: no row is left to fit.")
    if total > LARGEST_TOTAL:
        raise ValueError(
            f"The sample weights sum to {total:.3g}, the largest is {float(weight.max()):.3g}: they are counts of "
            f"observations, and {LARGEST_TOTAL:g} is the most that can be handled. Scale them down."
        )
    if total < SMALLEST_TOTAL:
        raise ValueError(
            f"The sample weights sum to {total:.3g}: they are counts of observations, and {SMALLEST_TOTAL:g} is the "
            "least that can be handled. Scale them up."
        )
    if n >= LEAST_ROWS and 0.9 < total < 1.1:
        warnings.warn(
            f"The sample weights of {n} rows sum to {total:.3g}. They are counts of observations, not shares: with "
            "these, all data together count as a single observation. Multiply them by the number of rows.",
            CalibrationWarning,
            stacklevel=5,
        )


def effective_counts(weights: ArrayLike) -> FloatArray:
    """Importance weights scaled to counts: they sum to the effective number of observations, ``(Σw)² / Σw²``.

    Weights of this package count observations. Importance weights, such as inverse probabilities of being sampled, say
    something else: only their ratios matter, and uneven ones carry less information than there are rows. Scaled by
    this function they keep their ratios, and intervals and tests are about as wide and as cautious as they should be.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Importance weights, finite and not negative.

    Returns
    -------
    counts : ndarray of shape (n,)
        To be given as `sample_weight`.

    Examples
    --------
    >>> from calibrant import effective_counts
    >>> effective_counts([10.0, 10.0, 20.0]).round(3)
    array([0.667, 0.667, 1.333])
    """
    w = row_weights(weights, len(cast("Sized", weights)), name="weights")
    largest = float(w.max(initial=0.0))
    if largest <= 0.0:
        raise ValueError("All weights are zero: no row is left.")
    w = w / largest
    return np.asarray(w * (w.sum() / (w @ w)))


def check_groups(groups: object, blocks: int | None, n: int) -> IntArray | None:
    """A group number for each of `n` rows; `None` if every row is a group of its own."""
    if groups is None:
        return None if blocks is None or blocks == 1 else consecutive_blocks(n, blocks)
    if blocks is not None:
        raise ValueError("groups and blocks are two ways to say the same thing: give one of them.")
    values = to_numpy(groups, "groups")
    if values.shape != (n,):
        raise ValueError(f"groups has shape {values.shape}, expected ({n},): one group per row.")
    # Infinity, which cannot be a label, is a group.
    missing = values != values if values.dtype.kind in "fc" else missing_labels(values)
    if (row := first_true(missing)) is not None:
        raise ValueError(
            f"groups holds no value at row {row}: every row needs a group; an independent row needs its own."
        )
    found, numbers = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
    return None if len(found) == n else np.asarray(numbers, dtype=np.int64)


def repeated_rows(
    y: object,
    n: int,
    k: int,
    sample_weight: object = None,
    classes: Labels | None = None,
    words: Words = CALIBRATOR,
    *,
    first_row: int = 0,
) -> tuple[IntArray, AnyArray, FloatArray]:
    """The row, the label and the count of each entry of the matrix `y` (n, k) that is positive.

    Columns are those of the predictions, in their order; they are named by `classes`, by the columns of a data frame
    `y`, or by their numbers. Errors count rows from `first_row`.
    """
    name = words.labels
    votes = to_numpy(y, name)
    if votes.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} is a matrix of {votes.dtype}: numbers are expected, the share or votes of each class."
        )
    if votes.shape != (n, k):
        raise ValueError(
            f"{name} has shape {votes.shape}, expected ({n}, {k}): one row per prediction and one column per class. "
            f"Labels themselves have one dimension.{words.order}"
        )
    votes = votes.astype(np.float64)
    bad = ~(np.isfinite(votes) & (votes >= 0.0))
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} holds {votes[row, column]:g} at row {first_row + row}, column {column}: shares and votes are "
            "finite and not negative."
        )
    if sample_weight is not None:
        with np.errstate(over="ignore"):  # their sum is checked
            votes *= row_weights(sample_weight, n, first_row, words.weights)[:, None]
    if classes is None:
        classes = list(y.columns) if hasattr(y, "columns") else range(k)
    rows, columns = np.nonzero(votes)
    return rows, np.asarray(list(classes))[columns], votes[rows, columns]


def observations(
    y: object,
    shape: tuple[int, ...],
    sample_weight: object = None,
    classes: Labels | None = None,
    words: Words = CALIBRATOR,
    *,
    first_row: int = 0,
) -> tuple[IntArray | None, AnyArray, FloatArray | None, AnyArray | None]:
    """The observations that labels `y` and weights make of predictions of this shape; errors count from `first_row`.

    Returns the row of each observation in ascending order (`None`: every row is one), its label, its positive count
    (`None`: all one), and the categories of the labels, if these are categorical.
    """
    n = shape[0]
    if is_matrix(y):
        k = shape[1] if len(shape) == 2 and shape[1] > 1 else 2
        rows, labels, counts = repeated_rows(y, n, k, sample_weight, classes, words, first_row=first_row)
        return rows, labels, unless_ones(counts), None
    labels, categories = check_labels(y, n, words, first_row=first_row)
    if sample_weight is None:
        return None, labels, None, categories
    counts = row_weights(sample_weight, n, first_row, words.weights)
    if counts.all():
        return None, labels, unless_ones(counts), categories
    rows = np.flatnonzero(counts)
    return rows, labels[rows], unless_ones(counts[rows]), categories


def check_observations(n: int, counts: FloatArray | None) -> None:
    """Refuse a sample without observations, or with counts too large or small; warn if the counts are shares."""
    if n == 0 or counts is not None:
        check_total_weight(np.zeros(1) if n == 0 or counts is None else counts, n)


def encoded(sample: Sample, classes: AnyArray, order: NDArray[np.intp] | None) -> Sample:
    """A sample with labels as given, with column numbers instead, and its columns in the order of `classes`."""
    values = sample.values if order is None else np.ascontiguousarray(sample.values[:, order])
    return replace(sample, values=values, y=encode(sample.y, classes), classes=classes)


def unless_ones(counts: FloatArray) -> FloatArray | None:
    """Counts of rows; `None` if all are one."""
    return None if bool(np.all(counts == 1.0)) else counts
