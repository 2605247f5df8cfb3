"""Labels and weights of some rows as observations: rows without weight are none, soft labels make several of a row.

Arrays, batches, partitions and tensors check their labels here, so that a calibrator sees the same observations
wherever its rows are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import check_labels
from calibrant.inputs.soft_labels import is_matrix, repeated_rows
from calibrant.inputs.weights import check_counts, check_total_weight, row_weights
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.typing import FloatArray, IntArray


class Observations(NamedTuple):
    """What was observed of some rows.

    Attributes
    ----------
    rows : the row of each observation, in ascending order; `None`: every row is one.
    labels : their labels.
    weight : their positive weights; `None`: all one.
    categories : the categories of the labels, if these are categorical.
    """

    rows: IntArray | None
    labels: NDArray[Any]
    weight: FloatArray | None
    categories: NDArray[Any] | None = None


def observations(
    y: Any,
    shape: tuple[int, ...],
    sample_weight: Any = None,
    classes: Any = None,
    words: Words = CALIBRATOR,
    *,
    first_row: int = 0,
) -> Observations:
    """The observations that labels `y` and weights make of predictions of this shape; errors count from `first_row`.

    Examples
    --------
    >>> observations([0, 1, 1], (3, 2), [1.0, 0.0, 2.0])[:3]
    (array([0, 2]), array([0, 1]), array([1., 2.]))
    >>> observations([[3, 1], [0, 2]], (2, 2))[:3]
    (array([0, 0, 1]), array([0, 1, 1]), array([3., 1., 2.]))
    """
    n = shape[0]
    if is_matrix(y):
        k = shape[1] if len(shape) == 2 and shape[1] > 1 else 2
        rows, labels, weight = repeated_rows(y, n, k, sample_weight, classes, words, first_row=first_row)
        return Observations(rows, labels, _unless_ones(weight))
    labels, categories = check_labels(y, n, words, first_row=first_row)
    if sample_weight is None:
        return Observations(None, labels, None, categories)
    weight = row_weights(sample_weight, n, first_row, words.weights)
    if weight.all():
        return Observations(None, labels, _unless_ones(weight), categories)
    rows = np.flatnonzero(weight)
    return Observations(rows, labels[rows], _unless_ones(weight[rows]), categories)


def check_observations(n: int, weight: FloatArray | None) -> None:
    """Raise an error if there are none, or if their weights cannot be computed with; warn if these are no counts."""
    total = check_total_weight(np.zeros(1) if n == 0 else np.ones(1) if weight is None else weight)
    if weight is not None:
        check_counts(total, n)


def _unless_ones(weight: FloatArray) -> FloatArray | None:
    return None if bool(np.all(weight == 1.0)) else weight
