"""Integrated calibration index: how far a smooth curve of the outcomes lies from the predictions.

The curve is a local polynomial regression of outcomes on scores (loess, Cleveland 1979). Its value at a score `s` is
that of the polynomial with the least squares over the nearest `span` of all observations, with tricube weights
`(1 - (d/h)³)³` of the distance `d`, where `h` is the distance of the farthest of them. With `e_i` the distance between
curve and prediction, ICI is the mean of the `e_i`, E50 and E90 are quantiles of them and Emax is the largest (Austin
and Steyerberg 2019).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.bins import quantile_index, sum_by
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.views import Kind, View, sort_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

#: Different scores up to which the curve is computed at each; more are gathered in so many cells of equal mass, which
#: changes the index of 5000 rows by less than 2e-4 (tests/metrics/test_named_measures.py).
MOST_CELLS = 200
#: Where the scores near a point are too few for a polynomial, this share of their mass makes it a mean.
_RIDGE = 1e-11


class LocalRegression:
    """The curve at scores in ascending order, for any mass and any sum of outcomes at each."""

    def __init__(self, score: FloatArray, span: float, degree: int) -> None:
        self.offset = score[None, :] - score[:, None]
        distance = np.abs(self.offset)
        self.order = np.argsort(distance, axis=1, kind="stable")
        self.sorted = np.take_along_axis(distance, self.order, axis=1)
        self.span, self.degree = span, degree

    def curve(self, mass: FloatArray, hits: FloatArray) -> FloatArray:
        """Values at all scores."""
        # Of n observations the nearest floor(n span) count, as in R.
        wanted = max(np.floor(mass.sum() * self.span + 1e-5), min(1.0, mass.sum()))
        reached = np.cumsum(mass[self.order], axis=1)
        last = np.minimum((reached < wanted * (1 - 1e-12)).sum(axis=1), len(mass) - 1)
        h = np.maximum(self.sorted[np.arange(len(mass)), last], 1e-300)[:, None]
        # Scores beyond h have no weight; where most rows have one score, h is zero and only that score counts.
        u, size = np.clip(self.offset / h, -1.0, 1.0), self.degree + 1
        weight = (1.0 - np.abs(u) ** 3) ** 3
        moments, targets = np.empty((len(mass), 2 * size - 1)), np.empty((len(mass), size))
        for power in range(2 * size - 1):
            moments[:, power] = weight @ mass
            if power < size:
                targets[:, power] = weight @ hits
            weight *= u
        place = np.arange(size)
        normal = moments[:, place[:, None] + place[None, :]]
        normal[:, place[1:], place[1:]] += _RIDGE * moments[:, :1]
        return np.asarray(np.linalg.solve(normal, targets[:, :, None])[:, 0, 0])


def _prepare(view: View, each: AnyFloatArray, span: float, degree: int, quantile: float | None) -> Statistic:
    ordered = sort_view(view)
    if len(ordered.starts) > MOST_CELLS:
        sorted_cell = np.unique(quantile_index(ordered.starts, MOST_CELLS, each[ordered.order]), return_inverse=True)[1]
    else:
        sorted_cell = np.repeat(np.arange(len(ordered.starts)), np.diff(np.append(ordered.starts, len(each))))
    cell = np.empty(len(each), dtype=np.intp)
    cell[ordered.order] = sorted_cell
    n_cells = int(sorted_cell[-1]) + 1
    score = sum_by(cell, each * view.score, n_cells) / sum_by(cell, each, n_cells)
    regression = LocalRegression(score, span, degree)

    def index(counts: AnyFloatArray) -> float:
        mass = sum_by(cell, counts, n_cells)
        error = np.abs(regression.curve(mass, sum_by(cell, counts * view.hit, n_cells)) - score)
        if quantile is None:
            return float(mass @ error / mass.sum())
        place = np.argsort(error)[mass[np.argsort(error)] > 0]
        reached = np.cumsum(mass[place])
        return float(error[place[min(np.searchsorted(reached, quantile * reached[-1] * (1 - 1e-12)), len(place) - 1)]])

    return index


@scalar(upper=1.0, plug_in_bias=True)
def integrated_calibration_index(
    data: Sample,
    *,
    kind: Kind = "auto",
    quantile: float | None = None,
    span: float = 0.75,
    degree: Literal[0, 1, 2] = 2,
) -> Statistic:
    """Integrated calibration index (ICI): mean distance between predictions and a smooth curve of the outcomes.

    `quantile=0.5`, `0.9` and `1` give E50, E90 and Emax (Austin and Steyerberg 2019; Harrell's `val.prob` calls the
    mean Eavg and smooths with `degree=1`). The curve follows chance as well as miscalibration, so the index of
    calibrated predictions is not zero; where few rows lie, at the ends, it says little, and Emax is read there.

    Parameters
    ----------
    quantile : float, optional
        A quantile of the distances instead of their mean: the smallest that this share of observations does not exceed.
    span : float, default=0.75
        Share of the observations that a point of the curve rests on.
    degree : {0, 1, 2}, default=2
        Degree of the local polynomials; R's `loess` has 2, `lowess` 1.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import integrated_calibration_index
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = rng.random(2000) < p**2
    >>> round(integrated_calibration_index(y, p), 2), round(integrated_calibration_index(y, p, quantile=0.9), 2)
    (0.17, 0.26)
    """
    if not 0 < span <= 1:
        raise ValueError(f"span must lie in (0, 1], got {span!r}")
    if degree not in (0, 1, 2):
        raise ValueError(f"degree must be 0, 1 or 2, got {degree!r}")
    if quantile is not None and not 0 < quantile <= 1:
        raise ValueError(f"quantile must lie in (0, 1], got {quantile!r}")
    return view_statistic(data, kind, lambda view: _prepare(view, data.each, span, degree, quantile))
