"""Area under the ROC curve, one class against the rest.

For one class it is the probability that a random row of the class is scored above a random other row, ties counting
half. With `M_i` the weight of all rows scored below row `i` plus half of those scored equally (itself included), and
`P` and `N` the weights of the class and of the rest, it is `(Σ_{i in class} w_i M_i - P²/2) / (P N)`: among themselves,
the rows of the class contribute `P²/2` in any order.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.bins import sum_by
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.views import View, class_view, sort_view
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray

Average = Literal["macro", "weighted"]


def _prepare_one(view: View) -> Statistic:
    ordered = sort_view(view)
    n_rows = len(ordered.score)
    positive = np.flatnonzero(ordered.hit)
    # The run of equal scores in which each positive row stands: where it starts, and where the next one starts.
    run = np.searchsorted(ordered.starts, positive, side="right") - 1
    start, stop = ordered.starts[run], np.append(ordered.starts, n_rows)[run + 1]
    rows = ordered.order[positive]

    def area(counts: AnyFloatArray) -> float:
        below = np.zeros(n_rows + 1)
        np.cumsum(counts[ordered.order], out=below[1:])
        own = counts[rows]
        total = float(own.sum())
        pairs = total * (float(below[-1]) - total)
        if pairs <= 0:
            return float("nan")
        return float((own @ (below[start] + below[stop]) - total**2) / 2 / pairs)

    return area


@scalar(upper=1.0, by_class=True)
def auroc(data: Sample, *, average: Average = "macro") -> Statistic:
    """Area under the ROC curve, one-vs-rest averaged over classes.

    Classes that do not occur have no curve and are left out of the average; with a single class observed the result
    is NaN.

    Parameters
    ----------
    average : {"macro", "weighted"}, default="macro"
        Every class alike, or by its frequency.

    Examples
    --------
    >>> from calibrant.metrics import auroc
    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    if average not in ("macro", "weighted"):
        raise ValueError(f"average must be 'macro' or 'weighted', got {average!r}")
    columns = [1] if data.n_classes == 2 else range(data.n_classes)
    areas = [_prepare_one(class_view(data, column)) for column in columns]

    def mean_area(counts: AnyFloatArray) -> float:
        values = np.array([area(counts) for area in areas])
        if average == "macro" or len(values) == 1:
            share = np.ones(len(values))
        else:
            share = sum_by(data.y, counts, data.n_classes)
        # A class that never or always occurs has no curve.
        known = np.isfinite(values)
        return float(values[known] @ share[known] / share[known].sum()) if known.any() else float("nan")

    return mean_area
