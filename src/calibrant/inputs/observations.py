"""Labels and weights of some rows as observations: rows without weight are none, soft labels make several of a row.

Arrays, batches, partitions and tensors check their labels here, so that a calibrator sees the same observations
wherever its rows are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import check_labels, encode, is_matrix
from calibrant.inputs.soft_labels import repeated_rows
from calibrant.inputs.weights import check_counts, check_total_weight, row_weights
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.sample import Sample
from calibrant.typing import FloatArray, IntArray


def observations(
    y: Any,
    shape: tuple[int, ...],
    sample_weight: Any = None,
    classes: Any = None,
    words: Words = CALIBRATOR,
    *,
    first_row: int = 0,
) -> tuple[IntArray | None, NDArray[Any], FloatArray | None, NDArray[Any] | None]:
    """What labels `y` and weights say of predictions of this shape; errors count rows from `first_row`.

    Returns the row of each observation in ascending order (`None`: every row is one), its label, its positive count
    (`None`: all one), and the categories of the labels, if these are categorical.

    >>> observations([0, 1, 1], (3, 2), [1.0, 0.0, 2.0])[:3]
    (array([0, 2]), array([0, 1]), array([1., 2.]))
    >>> observations([[3, 1], [0, 2]], (2, 2))[:3]
    (array([0, 0, 1]), array([0, 1, 1]), array([3., 1., 2.]))
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
    """Raise an error if there are none, or if their counts cannot be computed with; warn if these are shares."""
    if n == 0 or counts is not None:
        check_counts(check_total_weight(np.zeros(1) if n == 0 or counts is None else counts), n)


def encoded(sample: Sample, classes: NDArray[Any], order: NDArray[np.intp] | None) -> Sample:
    """A sample with labels as given, with column numbers instead, and its columns in the order of `classes`."""
    values = sample.values if order is None else np.ascontiguousarray(sample.values[:, order])
    return replace(sample, values=values, y=encode(sample.y, classes), classes=classes)


def unless_ones(counts: FloatArray) -> FloatArray | None:
    """Counts of rows; `None` if all are one."""
    return None if bool(np.all(counts == 1.0)) else counts
