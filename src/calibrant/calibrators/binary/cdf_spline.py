"""CDF-spline calibration: the derivative of the cumulative calibration error.

With the rows sorted by prediction, ``D(q) = ∫₀^q (y - p)`` over the share q of rows is smoothed by a least-squares
natural cubic spline on a few equidistant knots. Its derivative is the calibration error at that quantile, which is
added to the prediction.
"""

from __future__ import annotations

from numbers import Integral
from typing import Annotated

import numpy as np

from calibrant.calibrators.binary.binning import group_scores
from calibrant.calibrators.binary.natural_spline import second_derivatives
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.sklearn_private import Interval
from calibrant.steps import Clip, Complement, Line, Step
from calibrant.steps.lines import evaluate_spline, local_coefficients
from calibrant.typing import FloatArray


class CDFSplineCalibrator(BinaryMethod):
    """Calibration by a spline of the cumulative calibration error.

    Parameters
    ----------
    n_knots : int, default=6
        Number of equidistant knots; fewer if there are fewer than two rows for each.

    Attributes
    ----------
    thresholds_, values_ : ndarray
        Predictions and their calibrated values, interpolated linearly between, then clipped to [0, 1] (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

    References
    ----------
    K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley. Calibration of neural networks
    using splines. ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import CDFSplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random(5000)
    >>> calibrator = CDFSplineCalibrator().fit(P, rng.random(5000) < P**2)
    >>> calibrator.predict_proba([0.6])[:, 1].round(1)
    array([0.4])
    """

    n_knots: Annotated[int, Interval(Integral, 3, None, closed="left")] = 6

    def _fit_binary(self, sample: Sample) -> None:
        grouped = group_scores(positive_probability(sample.x), sample.y, sample.counts)
        w, total = grouped.weight, float(grouped.weight.sum())
        self.thresholds_ = grouped.score
        if total <= 1.0:  # a quantile needs two rows
            self.values_ = grouped.score
            return
        # Rows of equal prediction have no order among themselves: their labels are spread evenly over their ranks, of
        # which a few stand for all. With as many as there are rows they are the ranks, with fewer their spread is that
        # of the ranks, so that weights equal repetition.
        points = np.minimum(np.ceil(w), 2.0 + np.floor(w / total * (4.0 * self.n_knots))).astype(np.int64)
        group = np.repeat(np.arange(len(w)), points)
        first = np.cumsum(points) - points
        place = np.arange(len(group)) - first[group] - 0.5 * (points - 1)[group]
        width = np.sqrt(np.maximum(w - 1.0, 0.0)) * np.sqrt((w + 1.0) / np.maximum(points * points - 1.0, 1.0))
        offset = place * width[group]
        error = grouped.positive / w - grouped.score
        before, cumulated = np.cumsum(w) - w, np.cumsum(w * error) - w * error
        quantile = np.clip(((before + 0.5 * (w - 1.0))[group] + offset) / (total - 1.0), 0.0, 1.0)
        target = (cumulated[group] + (0.5 * (w + 1.0)[group] + offset) * error[group]) / total
        knots = np.linspace(0.0, 1.0, min(self.n_knots, max(2, len(group) // 2)))
        curvature_map = second_derivatives(knots, np.eye(len(knots)))
        values = _least_squares(quantile, target, (w / points)[group], knots, curvature_map)
        slope = evaluate_spline(quantile, knots, values, curvature_map @ values, derivative=True)
        self.values_ = grouped.score + np.add.reduceat(slope, first) / points

    def _check_binary_state(self, state: StateCheck) -> None:
        thresholds = state.array("thresholds_", None, increasing=True)
        state.require(len(thresholds), "thresholds_ is empty")
        state.array("values_", len(thresholds))

    def _binary_steps(self) -> list[Step]:
        return [POSITIVE, Line(self.thresholds_, self.values_), Clip(0.0, 1.0), Complement()]


def _least_squares(
    x: FloatArray, target: FloatArray, weight: FloatArray, knots: FloatArray, curvature_map: FloatArray
) -> FloatArray:
    """Knot values of the natural spline closest to `target`, for sorted `x`."""
    n_knots = len(knots)
    interval, c = local_coefficients(x, knots)
    root = np.sqrt(weight)
    local = np.vstack([c, target]) * root
    gram = np.zeros((n_knots, n_knots))
    right = np.zeros(n_knots)
    bounds = np.searchsorted(interval, np.arange(n_knots))
    for j in range(n_knots - 1):
        rows = slice(bounds[j], bounds[j + 1])
        basis = np.zeros((4, n_knots))  # the local coordinates in terms of all knot values
        basis[0, j] = basis[1, j + 1] = 1.0
        basis[2:] = curvature_map[j : j + 2]
        design = local[:4, rows]
        gram += basis.T @ (design @ design.T) @ basis
        right += basis.T @ (design @ local[4, rows])
    return np.asarray(np.linalg.lstsq(gram, right, rcond=1e-12)[0], dtype=np.float64)
