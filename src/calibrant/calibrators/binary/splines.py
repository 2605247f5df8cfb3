"""Spline calibration, and natural cubic splines by their values at the knots: straight outside.

Between knots ξ_j and ξ_j+1 a spline is a combination of its values f_j, f_j+1 and second derivatives m_j, m_j+1;
the second derivatives are a linear map of all values (a tridiagonal system). Every point thus has four local
coefficients, whatever the number of knots.

- `SplineCalibrator` is a logistic regression on a spline of the log-odds. The ridge penalty ``λ/K Σ β²`` acts on the
  coefficients β of the truncated power basis (intercept, slope and the jumps of the third derivative at the inner
  knots); λ is chosen by cross-validation. Pseudo-observations along the diagonal, worth a few rows in all, pull the map
  towards the identity where there are no data.
- `CDFSplineCalibrator` takes the derivative of the cumulative calibration error: with the rows sorted by prediction,
  ``D(q) = ∫₀^q (y - p)`` over the share q of rows is smoothed by a least-squares spline on a few equidistant knots. Its
  derivative is the calibration error at that quantile, which is added to the prediction.
"""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from calibrant.calibrators.binary.binning import group_scores
from calibrant.calibrators.binary.logistic_fit import sigmoid
from calibrant.calibrators.lifting import POSITIVE, BinaryMethod, positive_probability
from calibrant.calibrators.parameters import Array, AtLeastTwo, Positive, strengths_to_try
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.sklearn_private import Interval
from calibrant.softmax.solvers.searches import damped_newton
from calibrant.steps import Clip, Complement, Line, Log, LogOdds, Sigmoid, Spline, Step
from calibrant.steps.lines import evaluate_spline, local_coefficients
from calibrant.typing import FloatArray, IntArray


def second_derivatives(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Second derivatives at the knots of the splines with these values, (K,) or (K, columns)."""
    m = np.zeros(values.shape)
    if len(knots) < 3:
        return m
    h = np.diff(knots)
    bands = np.zeros((3, len(knots) - 2))
    bands[0, 1:] = h[1:-1] / 6.0
    bands[1] = (h[:-1] + h[1:]) / 3.0
    bands[2, :-1] = h[1:-1] / 6.0
    slope = np.diff(values, axis=0) / (h if values.ndim == 1 else h[:, None])
    m[1:-1] = solve_banded((1, 1), bands, np.diff(slope, axis=0))
    return m


def check_spline(state: StateCheck, knots: str) -> None:
    """Check a spline in a fitted state, its knots under the name `knots`."""
    n_knots = len(state.array(knots, None, increasing=True))
    state.require(n_knots >= 2, f"{knots} should be at least two")
    state.array("values_", n_knots)
    state.array("curvature_", n_knots)


#: Log-odds of the probability 1e-16: predictions beyond are taken as 0 and 1.
_SATURATED = float(np.log(1e16))

#: Strengths that are tried.
_LAMBDAS = np.logspace(-4.0, 4.0, 17)

#: A fold number no row has: nothing is left out.
_NO_FOLD = -2


class SplineCalibrator(BinaryMethod):
    """Spline calibration.

    Parameters
    ----------
    n_knots : int, default=30
        Number of knots among the predictions, in equal steps of their ranks; nine more stand at the probabilities
        0.1 to 0.9.
    lambdas : sequence of float, default=None
        Penalties to choose from, by default 17 from 1e-4 to 1e4.
    n_folds : int, default=5
        Number of cross-validation folds, to which the rows are dealt in the order of their predictions.
    prior_weight : float, default=20.0
        How many rows the pseudo-observations along the diagonal count as.

    Attributes
    ----------
    lambda_ : float
        The penalty chosen (two classes).
    limit_ : float
        Log-odds are clipped to plus and minus this (two classes).
    knots_, values_, curvature_ : ndarray
        The spline: calibrated log-odds and their second derivatives at the knots (two classes).

    References
    ----------
    B. Lucena. Spline-based probability calibration. arXiv:1809.07751, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators import SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random(5000)
    >>> calibrator = SplineCalibrator().fit(P, rng.random(5000) < P**2)
    >>> calibrator.predict_proba([0.6])[:, 1].round(1)
    array([0.4])
    """

    n_knots: AtLeastTwo = 30
    lambdas: Array | None = None
    n_folds: AtLeastTwo = 5
    prior_weight: Positive = 20.0

    def _fit_binary(self, sample: Sample) -> None:
        odds = sample.x[:, 1] - sample.x[:, 0]
        prior, prior_mass = _diagonal()
        inner = np.abs(odds[np.abs(odds) < _SATURATED])
        # Predictions of exactly 0 and 1 stand a little outside of all others.
        self.limit_ = max(float(prior.max()), float(inner.max(initial=0.0))) + float(np.log(2.0))
        odds, labels, mass, fold = _folded(np.clip(odds, -self.limit_, self.limit_), sample, self.n_folds)
        self.knots_ = _knots(odds, self.n_knots)
        problem = _Problem(
            self.knots_,
            np.concatenate([odds, prior]),
            np.concatenate([labels, sigmoid(prior)]),
            np.concatenate([mass, prior_mass * float(self.prior_weight)]),
            np.concatenate([fold, np.full(len(prior), -1)]),
        )
        lambdas = strengths_to_try(self, "lambdas", _LAMBDAS)
        beta = np.zeros(len(self.knots_))
        beta[1] = 1.0  # the identity
        path = []
        for penalty in lambdas:
            beta = problem.fit(penalty, _NO_FOLD, beta)
            path.append(beta)
        best = int(np.argmin(problem.cross_validate(lambdas, self.n_folds, path)))
        self.lambda_ = lambdas[best]
        basis, curvature = power_basis(self.knots_)
        self.values_, self.curvature_ = basis @ path[best], curvature @ path[best]

    def _check_binary_state(self, state: StateCheck) -> None:
        state.number("limit_", low=0.0)
        check_spline(state, "knots_")
        state.information("lambda_")

    def _binary_steps(self) -> list[Step]:
        spline = Spline(self.knots_, self.values_, self.curvature_)
        return [Log(), LogOdds(), Clip(-self.limit_, self.limit_), spline, Sigmoid()]


class _Problem:
    """Penalised mean log loss as a function of the coefficients of the truncated power basis."""

    def __init__(
        self, knots: FloatArray, odds: FloatArray, target: FloatArray, weight: FloatArray, fold: NDArray[np.intp]
    ) -> None:
        order = np.argsort(odds)
        interval, coefficients = local_coefficients(odds[order], knots)
        self.n_intervals = len(knots) - 1
        self.rows = (interval, coefficients, target[order].astype(np.float64), weight[order], fold[order])
        self.parts = {_NO_FOLD: self._part(np.arange(len(odds)))}
        basis, curvature = power_basis(knots)
        # The values and second derivatives at both ends of every interval, (intervals, 4, coefficients).
        self.extend = np.stack([basis[:-1], basis[1:], curvature[:-1], curvature[1:]], axis=1)
        self.hessian = np.empty((self.n_intervals, 4, 4))
        self.gradient = np.empty((self.n_intervals, 4))

    def _part(self, rows: NDArray[np.intp]) -> tuple[Any, ...]:
        """Some of the rows, as the kernels want them."""
        interval, coefficients, target, weight, _ = self.rows
        starts = np.searchsorted(interval[rows], np.arange(self.n_intervals + 1)).astype(np.int64)
        return starts, np.ascontiguousarray(coefficients[:, rows]), target[rows], weight[rows]

    def fit(self, strength: float, left_out: int, start: FloatArray, *, tolerance: float = 1e-9) -> FloatArray:
        """Newton's method from the coefficients `start`, on the rows outside one fold.

        Stops after the step whose decrement falls below `tolerance`: its error is of the order of the square.
        """
        rows = self.parts[left_out]
        total = float(rows[3].sum())
        end = damped_newton(
            lambda beta: self._derivatives(beta, strength, rows, total),
            start,
            enough=lambda at: 2.0 * at.decrement <= tolerance,
        )
        return end.theta + end.step if end.converged else end.theta

    def cross_validate(self, lambdas: list[float], n_folds: int, path: list[FloatArray]) -> FloatArray:
        """Log loss over all rows for each strength, each fold predicted by the fit to the others."""
        losses = np.zeros(len(lambdas))
        fold = self.rows[4]
        for left_out in range(n_folds):
            self.parts[left_out] = self._part(np.flatnonzero(fold != left_out))
            held_out = self._part(np.flatnonzero(fold == left_out))
            for i, (strength, start) in enumerate(zip(lambdas, path)):
                beta = self.fit(strength, left_out, start, tolerance=1e-6)
                losses[i] += _log_loss(held_out, self.extend @ beta)
            del self.parts[left_out]
        return losses

    def _derivatives(
        self, beta: FloatArray, strength: float, part: tuple[Any, ...], total: float
    ) -> tuple[float, FloatArray, FloatArray]:
        from calibrant.calibrators.binary.binary_kernels import spline_logistic

        ridge = strength / len(beta)
        arguments = (*part, self.extend @ beta, self.hessian, self.gradient)
        loss = spline_logistic(*arguments)
        gradient = np.einsum("jak,ja->k", self.extend, self.gradient) / total + 2.0 * ridge * beta
        rows = self.extend.reshape(-1, len(beta))
        hessian = rows.T @ (self.hessian @ self.extend).reshape(rows.shape) / total
        hessian[np.diag_indices(len(beta))] += 2.0 * ridge
        return loss / total + ridge * float(beta @ beta), gradient, hessian


def _log_loss(part: tuple[Any, ...], extended: FloatArray) -> float:
    """Log loss of a spline's log-odds, for rows as in `spline_logistic`; asked for too rarely to be compiled."""
    starts, coefficients, target, weight = part
    z = np.einsum("ai,ia->i", coefficients, np.repeat(extended, np.diff(starts), axis=0))
    return float(weight @ (np.logaddexp(0.0, z) - target * z))


def power_basis(knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values and second derivatives at the knots (rows) of 1, x and the truncated cubics (columns)."""
    last = knots[-1]
    distance = np.maximum(knots[:, None] - knots[None, :-1], 0.0)
    width = last - knots[:-1]
    cubic, curvature = distance**3 / width, 6.0 * distance / width
    ones, zeros = np.ones(len(knots)), np.zeros(len(knots))
    basis = np.column_stack([ones, knots, cubic[:, :-1] - cubic[:, -1:]])
    return basis, np.column_stack([zeros, zeros, curvature[:, :-1] - curvature[:, -1:]])


def _folded(odds: FloatArray, sample: Sample, n_folds: int) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """Log-odds, labels, counts and folds of rows sorted by prediction, dealt to the folds in turn, one count each.

    Equal rows are merged and their count is split where it reaches more than one fold, so that weights equal
    repetition and ties do not share a fold. Groups of rows stay together instead.
    """
    order = np.lexsort((sample.y, odds))
    odds, labels = odds[order], sample.y[order]
    if sample.groups is not None:
        return odds, labels, sample.each[order], sample.folds(n_folds, 0)[order]
    first = np.flatnonzero(np.concatenate([[True], (odds[1:] != odds[:-1]) | (labels[1:] != labels[:-1])]))
    mass = np.add.reduceat(sample.each[order], first)
    end = np.cumsum(mass)
    fold = np.arange(n_folds)

    def dealt(position: FloatArray) -> FloatArray:
        """How much each fold was dealt up to here, (groups, folds)."""
        rounds = np.floor(position / n_folds)
        return rounds[:, None] + np.clip((position - n_folds * rounds)[:, None] - fold, 0.0, 1.0)

    share = dealt(end) - dealt(end - mass)
    group, fold = np.nonzero(share > 1e-12 * min(float(end[-1]), 1.0))
    index = first[group]
    return odds[index], labels[index], share[group, fold], fold


def _knots(odds: FloatArray, n_knots: int) -> FloatArray:
    """Distinct predictions at equal steps of rank, the log-odds of 0.1 ... 0.9, none closer than a thousandth."""
    distinct = odds[np.concatenate([[True], odds[1:] != odds[:-1]])]
    if len(distinct) > n_knots:
        distinct = distinct[np.round(np.linspace(0, len(distinct) - 1, n_knots)).astype(np.int64)]
    tenths = np.arange(1, 10) / 10.0
    knots = np.unique(np.concatenate([distinct, np.log(tenths / (1.0 - tenths))]))
    gap = 1e-3 * (knots[-1] - knots[0])
    kept = [float(knots[0])]
    for knot in knots[1:].tolist():
        if knot - kept[-1] > gap:
            kept.append(knot)
    return np.array(kept)


def _diagonal() -> tuple[FloatArray, FloatArray]:
    """Log-odds of the pseudo-observations, dense next to 0 and 1, and their shares."""
    outer = 10.0 ** np.linspace(-8.0, -2.0, 19)[:-1]
    inner = np.arange(1, 100) / 100.0
    middle = np.log(inner / (1.0 - inner))
    tail = np.log(outer / (1.0 - outer))
    mass = np.concatenate([np.full(18, 1.0 / 18.0), np.ones(99), np.full(18, 1.0 / 18.0)])
    return np.concatenate([tail, middle, -tail[::-1]]), mass / mass.sum()


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

    References
    ----------
    K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley. Calibration of neural networks
    using splines. ICLR 2021.

    Examples
    --------
    >>> from calibrant.calibrators import CDFSplineCalibrator
    >>> calibrator = CDFSplineCalibrator().fit([0.1, 0.4, 0.6, 0.9] * 5, [0, 0, 0, 1] * 5)
    >>> calibrator.predict_proba([0.6])[:, 1].round(2)
    array([0.14])
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
