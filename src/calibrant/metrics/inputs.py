"""What every metric is handed: validated probabilities, column numbers of the labels, weights.

The contract is that of the calibrators, whose functions do the naming of columns; here probabilities stay as they
are (no logarithm, no copy of a large table) and plain column numbers as labels take a short cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.inputs.labels import check_labels, check_sample_weight, encode, name_columns
from calibrant.inputs.predictions import ROUNDING, as_matrix

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]

# Messages of the calibrators speak of `X` and `y`.
OUR_WORDS = (
    ("of X", "of y_prob"),
    ("X has", "y_prob has"),
    ("X holds", "y_prob holds"),
    ("y has", "y_true has"),
    ("y holds", "y_true holds"),
)


@dataclass(frozen=True)
class Forecasts:
    """Validated predictions: rows of `proba` sum to one, `y` holds column numbers, zero weights are gone."""

    proba: FloatArray
    y: IntArray
    weight: FloatArray | None
    classes: NDArray[Any]

    @property
    def n_rows(self) -> int:
        return int(self.proba.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.proba.shape[1])

    @cached_property
    def true_proba(self) -> FloatArray:
        """Probability given to the observed class."""
        return self._entries(self.y)

    @cached_property
    def top(self) -> IntArray:
        """Predicted class: the first of the largest probabilities."""
        return self.proba.argmax(axis=1)

    @cached_property
    def confidence(self) -> FloatArray:
        """Probability of the predicted class."""
        return self._entries(self.top)

    def _entries(self, column: IntArray) -> FloatArray:
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
    try:
        array, names = as_matrix(y_prob)
        labels, categories = _labels(y_true, len(array))
        proba = _probabilities(array)
        y, named, order = _columns(labels, proba.shape[1], classes, names if array.ndim == 2 else None, categories)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(_in_our_words(str(error))) from error
    if order is not None:
        proba = np.ascontiguousarray(proba[:, order])
    weight = check_sample_weight(sample_weight, len(y))
    if weight is not None and not weight.all():
        kept = weight > 0
        proba, y, weight = proba[kept], y[kept], weight[kept]
    return Forecasts(proba, y, weight, named)


def _in_our_words(message: str) -> str:
    """Messages of the calibrators in the words of the metrics' arguments."""
    for theirs, ours in OUR_WORDS:
        message = message.replace(theirs, ours)
    if message.startswith(("Unknown label type", "y should be a 1d array")):
        message += " Labels come first and probabilities second."
    return message


def _labels(y_true: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
    # The general check sorts the labels to tell their type; integers need none of it.
    if isinstance(y_true, np.ndarray) and y_true.dtype.kind in "iu" and y_true.shape == (n_rows,):
        return y_true, None
    return check_labels(y_true, n_rows)


def _columns(
    labels: NDArray[Any],
    n_columns: int,
    classes: Sequence[Any] | NDArray[Any] | None,
    names: list[Any] | None,
    categories: NDArray[Any] | None,
) -> tuple[IntArray, NDArray[Any], NDArray[np.intp] | None]:
    plain = classes is None and names is None and categories is None and labels.dtype.kind in "iu"
    if plain and labels.max() < n_columns and labels.min() == 0:
        return labels.astype(np.intp, copy=False), np.arange(n_columns), None
    named, order = name_columns(labels, n_columns, classes=classes, names=names, categories=categories)
    return encode(labels, named), named, order


def _probabilities(array: NDArray[Any]) -> FloatArray:
    """Probabilities as (n, k) floats whose rows sum to one; one column means the second of two classes."""
    single = array.ndim == 1 or array.shape[1] == 1
    kept = array.dtype == np.float32 and not single
    proba: FloatArray = array if kept else array.astype(np.float64, copy=False)
    if not (float(proba.min()) >= 0 and float(proba.max()) <= 1 + ROUNDING):
        _raise_bad_probability(proba)
    if single:
        positive = np.minimum(proba.ravel(), 1.0)
        return np.column_stack([1 - positive, positive])
    sums = proba @ np.ones(proba.shape[1], dtype=proba.dtype)
    off = np.abs(sums - 1)
    worst = float(off.max())
    if worst > ROUNDING:
        row = int(np.argmax(off > ROUNDING))
        raise ValueError(f"Row {row} of y_prob sums to {float(sums[row]):.6g}, not to 1: normalise the rows first.")
    # Below the square root of the precision a row is as exact as its type allows: leave the numbers as given.
    return proba / sums[:, None] if worst > np.sqrt(np.finfo(proba.dtype).eps) else proba


def _raise_bad_probability(proba: FloatArray) -> None:
    bad = ~((proba >= 0) & (proba <= 1 + ROUNDING))
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    where = f"row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "")
    raise ValueError(
        f"y_prob holds {proba[place]} at {where}: probabilities are finite and lie between 0 and 1 "
        "(logits go through a softmax first)."
    )
