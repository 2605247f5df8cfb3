"""Area under the ROC curve, one class against the rest.

For one class it is the probability that a random row of the class is scored above a random other row, ties counting
half: `Σ_runs P_r (N_{<r} + N_r / 2) / (P N)` over runs of equal scores with positive weight `P_r` and negative `N_r`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.metrics._inputs import FloatArray, Predictions, check_predictions
from calibrant.metrics._scalars import Statistic, scalar
from calibrant.metrics._views import View, class_view, sort_view

Average = Literal["macro", "weighted"]


def _prepare_one(view: View) -> Statistic:
    ordered = sort_view(view)

    def area(weight: FloatArray | None) -> float:
        moved = np.ones(len(ordered.hit)) if weight is None else weight[ordered.order]
        positive = np.add.reduceat(moved * ordered.hit, ordered.starts)
        negative = np.add.reduceat(moved * (1 - ordered.hit), ordered.starts)
        pairs = positive.sum() * negative.sum()
        if pairs <= 0:
            return float("nan")
        below = np.cumsum(negative) - negative / 2
        return float(positive @ below / pairs)

    return area


def _prepare_auroc(data: Predictions, *, average: Average = "macro") -> Statistic:
    if average not in ("macro", "weighted"):
        raise ValueError(f"average must be 'macro' or 'weighted', got {average!r}")
    columns = [1] if data.n_classes == 2 else range(data.n_classes)
    areas = [_prepare_one(class_view(data, column)) for column in columns]

    def mean_area(weight: FloatArray | None) -> float:
        values = np.array([area(weight) for area in areas])
        if average == "macro" or len(values) == 1:
            share = np.ones(len(values))
        else:
            share = np.bincount(data.y, weights=weight, minlength=data.n_classes).astype(np.float64)
        # A class that never or always occurs has no curve.
        known = np.isfinite(values)
        return float(values[known] @ share[known] / share[known].sum()) if known.any() else float("nan")

    return mean_area


@scalar("auroc", _prepare_auroc, upper=1.0, greater_is_better=True)
def auroc(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    average: Average = "macro",
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
) -> float:
    """Area under the ROC curve, one-vs-rest averaged over classes.

    Classes that do not occur have no curve and are left out of the average; with a single class observed the result
    is NaN.

    Parameters
    ----------
    y_true, y_prob, sample_weight, classes
        See `log_loss`.
    average : {"macro", "weighted"}, default "macro"
        Every class alike, or by its frequency.

    Examples
    --------
    >>> from calibrant.metrics import auroc
    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    data = check_predictions(y_true, y_prob, sample_weight, classes)
    return _prepare_auroc(data, average=average)(data.weight)
