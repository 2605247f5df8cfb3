"""What every metric is handed: validated probabilities, column numbers of the labels, weights.

The contract is that of the calibrators, whose functions do the naming of columns; here probabilities stay as they
are (no logarithm, no copy of a large table) and plain column numbers as labels take a short cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.inputs.labels import check_labels, encode, name_columns
from calibrant.inputs.predictions import as_matrix, rounding_of, to_probabilities
from calibrant.inputs.soft_labels import is_matrix, repeated_rows
from calibrant.inputs.weights import check_sample_weight
from calibrant.inputs.words import METRIC
from calibrant.typing import AnyFloatArray, AnyIntArray


def check_level(level: Any) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


@dataclass(frozen=True)
class Forecasts:
    """Validated predictions: rows of `proba` sum to one, `y` holds column numbers, zero weights are gone.

    `rows` are the rows of the input that these come from, if they are not all of them once, in their order.
    """

    proba: AnyFloatArray
    y: AnyIntArray
    weight: AnyFloatArray | None
    classes: NDArray[Any]
    rows: AnyIntArray | None = None

    @property
    def n_rows(self) -> int:
        return int(self.proba.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.proba.shape[1])

    @cached_property
    def true_proba(self) -> AnyFloatArray:
        """Probability given to the observed class."""
        return self._entries(self.y)

    @cached_property
    def top(self) -> AnyIntArray:
        """Predicted class: the first of the largest probabilities."""
        return self.proba.argmax(axis=1)

    @cached_property
    def confidence(self) -> AnyFloatArray:
        """Probability of the predicted class."""
        return self._entries(self.top)

    def take(self, rows: NDArray[Any]) -> Forecasts:
        """Some of the rows, by number or by a mask."""
        weight = None if self.weight is None else self.weight[rows]
        return Forecasts(self.proba[rows], self.y[rows], weight, self.classes)

    def _entries(self, column: AnyIntArray) -> AnyFloatArray:
        # Flat indices are several times faster than a pair of index arrays.
        return self.proba.ravel()[np.arange(self.n_rows) * self.n_classes + column].astype(np.float64)


def check_predictions(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | NDArray[Any] | None = None,
) -> Forecasts:
    """Validate labels, probabilities and weights; `classes` names the columns of `y_prob` in their order."""
    if y_true is None:
        raise ValueError("y_true is None: labels are needed.")
    array, names = as_matrix(y_prob, METRIC)
    rows = None
    if is_matrix(y_true):
        k = array.shape[1] if array.ndim == 2 and array.shape[1] > 1 else 2
        rows, y_true, sample_weight = repeated_rows(y_true, len(array), k, sample_weight, classes, METRIC)
        array = array[rows]
    labels, categories = _labels(y_true, len(array))
    proba = to_probabilities(array, rounding=rounding_of(y_prob), words=METRIC)
    y, named, order = _columns(labels, proba.shape[1], classes, names if array.ndim == 2 else None, categories)
    if order is not None:
        proba = np.ascontiguousarray(proba[:, order])
    weight = check_sample_weight(sample_weight, len(y))
    data = Forecasts(proba, y, weight, named, rows)
    if weight is None or weight.all():
        return data
    kept = np.flatnonzero(weight)
    return replace(data.take(kept), rows=kept if rows is None else rows[kept])


def _labels(y_true: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
    # The general check sorts the labels to tell their type; integers need none of it.
    if isinstance(y_true, np.ndarray) and y_true.dtype.kind in "iu" and y_true.shape == (n_rows,):
        return y_true, None
    return check_labels(y_true, n_rows, METRIC)


def _columns(
    labels: NDArray[Any],
    n_columns: int,
    classes: Sequence[Any] | NDArray[Any] | None,
    names: list[Any] | None,
    categories: NDArray[Any] | None,
) -> tuple[AnyIntArray, NDArray[Any], NDArray[np.intp] | None]:
    plain = classes is None and names is None and categories is None and labels.dtype.kind in "iu"
    if plain and labels.max() < n_columns and labels.min() == 0:
        return labels.astype(np.intp, copy=False), np.arange(n_columns), None
    named, order = name_columns(labels, n_columns, classes=classes, names=names, categories=categories, words=METRIC)
    return encode(labels, named), named, order
