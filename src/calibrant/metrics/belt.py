"""Calibration belt: a polynomial logistic recalibration of the log-odds with a simultaneous confidence region.

With `x = logit s`, `P(hit) = sigmoid(β_0 + β_1 x + ... + β_m x^m)`. The degree starts at one and grows while the
likelihood ratio of the next is significant. All curves inside the Wald region `(β - β̂)' I (β - β̂) ≤ χ²_{m+1}(level)`
make up the belt, `x'β̂ ± sqrt(χ² x' I⁻¹ x)` on the log-odds: where it leaves the diagonal, the predictions are off in
that direction, over the whole range at once (Finazzi et al. 2011; Nattino, Finazzi and Bertolini 2014, who invert
likelihood ratios instead of the quadratic). With groups the covariance is that of sums over groups.

The p-value is that of a smooth test: with polynomials `q_j` of the log-odds that are orthonormal under the weights
`s (1 - s)`, the scores `z_j = Σ q_j(x) (hit - s)` of calibrated predictions are uncorrelated with variance one. The
statistic is `z_0² + ... + z_m²`, where the degree `m` grows as that of the belt does. Labels are drawn with the choice
of the degree repeated (`calibrant.metrics.null`), so that it is paid for. The belt leaves the diagonal only where this
test rejects it at the belt's level: with few events, or few groups, the quadratic alone would do so too often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, chdtri, expit, fdtri, logit

from calibrant.metrics.null import ViewResiduals, null_p_value
from calibrant.metrics.reliability import score_histogram
from calibrant.metrics.scalars import public
from calibrant.metrics.slope import RIDGE
from calibrant.metrics.tabular import ScoredCurve, check_level
from calibrant.metrics.views import Kind, View, shown_view
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.newton import Newton
from calibrant.typing import AnyFloatArray, FloatArray

#: Degrees that are tried; a higher one must pass a likelihood-ratio test at this level.
MOST_DEGREES = 4
SIGNIFICANT = 0.05
#: Places at which the belt is given.
POINTS = 101
#: Scores are kept this far from 0 and 1, so that a few certain ones do not decide the polynomial.
FLOOR = 1e-4
#: Labels are drawn so often while observations times draws are few enough, else the tail is that of χ².
DRAWS, MOST_DRAWN = 399, 20_000_000


@dataclass(frozen=True)
class CalibrationBelt(ScoredCurve):
    """Polynomial recalibration of one binary view with its simultaneous region.

    Attributes
    ----------
    score : ndarray
        Scores at which the belt is given, ascending, equally spaced in log-odds.
    frequency, low, high : ndarray
        Fitted frequency of the event and the two edges of the belt.
    degree : int
        Of the polynomial in the log-odds.
    statistic, p_value : float
        Smooth test of the diagonal against polynomials, with the choice of the degree accounted for; valid if rows,
        or groups where they are given, are independent.
    histogram : ndarray
        Weight of the scores in bins of equal width from 0 to 1.
    kind, label, level
        As in `ReliabilityTable`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_belt
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> belt = calibration_belt(y, p)
    >>> belt.p_value < 0.001, sorted(belt.to_dict())
    (True, ['frequency', 'high', 'low', 'score'])
    """

    degree: int
    statistic: float
    p_value: float


def _powers(x: AnyFloatArray, degree: int) -> FloatArray:
    return np.vander(x.astype(np.float64), degree + 1, increasing=True)


def _deviance(z: AnyFloatArray, hit: AnyFloatArray, weight: AnyFloatArray) -> float:
    return 2 * float(weight @ (np.logaddexp(0, z) - hit * z))


def fit_polynomial(x: AnyFloatArray, hit: AnyFloatArray, each: AnyFloatArray, degree: int) -> FloatArray:
    problem = ArrayProblem(
        hit.astype(np.int64),
        np.zeros((2, len(x))),
        shared=_powers(x, degree).T,
        weight=np.asarray(each, dtype=np.float64),
        first_free=1,
    )
    ridge = Ridge(np.full((1, degree + 1), RIDGE / (2 * each.sum())))
    return Newton().minimise(problem, ridge, tol=1e-14, max_iter=200).theta[0]


def _tested(data: Sample, view: View, x: AnyFloatArray, most: int) -> tuple[float, float]:
    """The statistic of the smooth test, and its p-value."""
    score = np.asarray(view.score, dtype=np.float64)
    root = np.sqrt(data.each * score * (1 - score))
    # Columns of Q are orthonormal under the weights; directions without weight have no score.
    _, triangle = np.linalg.qr(root[:, None] * _powers(x, most))
    size = np.abs(np.diag(triangle))
    known = int(np.argmin(np.append(size > 1e-7 * max(size.max(), 1e-300), False)))
    polynomials = np.linalg.solve(triangle[:known, :known].T, _powers(x, most).T[:known])
    needed = float(chdtri(1, SIGNIFICANT))

    def statistic(residuals: AnyFloatArray) -> float:
        squares = (polynomials @ residuals) ** 2
        more = np.append(squares[2:] > needed, False)
        return float(squares[: 2 + int(np.argmin(more))].sum())

    residuals = ViewResiduals(data, view)
    value = statistic(residuals.observed)
    tail = float(chdtrc(max(known, 1), value))
    if data.groups is None and data.total * DRAWS > MOST_DRAWN:
        return value, tail
    p_value = null_p_value(residuals, statistic, DRAWS, generator(0))[1]
    # Beyond all draws the tail is that of the highest degree, if it says less.
    return value, p_value if p_value > 1 / (1 + DRAWS) or data.groups is not None else min(p_value, tail)


@public
def calibration_belt(
    data: Sample, *, kind: Kind = "auto", label: Any = None, level: float = 0.95
) -> Callable[[AnyFloatArray], CalibrationBelt]:
    """Calibration belt: where the whole curve of a polynomial recalibration lies with this confidence.

    The belt and its p-value hold if rows are independent, or groups if `groups` or `blocks` are given.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label"}, default="auto"
        Which scores: the second class's of two, or the predicted class's. "auto" is binary for two classes and
        top-label for more.
    label : object, optional
        Judge this class against the rest instead.
    level : float, default=0.95
        Confidence level of the belt as a whole.

    References
    ----------
    G. Nattino, S. Finazzi and G. Bertolini. A new calibration test and a reappraisal of the calibration belt for the
    assessment of prediction models based on dichotomous outcomes. Statistics in Medicine 33(14), 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_belt
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=4000)
    >>> y = (rng.random(4000) < 1 / (1 + np.exp(-z))).astype(int)
    >>> belt = calibration_belt(y, 1 / (1 + np.exp(-2 * z)))  # too extreme
    >>> belt.degree, belt.p_value < 1e-6, bool(belt.high[-1] < belt.score[-1])
    (1, True, True)
    """
    shown = shown_view(data, kind, label)
    score, hit = (np.asarray(part, dtype=np.float64) for part in shown.view)
    check_level(level)
    log_odds = logit(np.clip(score, FLOOR, 1 - FLOOR))

    def belt(w: AnyFloatArray) -> CalibrationBelt:
        sample = data.with_counts(w)
        happened = float(w @ hit)
        # One outcome only leaves nothing to fit; the middle and the width of the range keep powers well scaled.
        most = MOST_DEGREES if 0 < happened < w.sum() else 0
        low, high = float(log_odds.min()), float(log_odds.max())
        centre, width = (low + high) / 2, max((high - low) / 2, 1e-9)
        x = (log_odds - centre) / width
        most = min(most, len(np.unique(x)) - 1)
        degree, beta = 0, np.array([float(logit((happened + 0.5) / (w.sum() + 1)))])
        for candidate in range(1, most + 1):
            fitted = fit_polynomial(x, hit, w, candidate)
            drop = _deviance(_powers(x, degree) @ beta, hit, w) - _deviance(_powers(x, candidate) @ fitted, hit, w)
            if candidate > 1 and chdtrc(1, max(drop, 0.0)) > SIGNIFICANT:
                break
            degree, beta = candidate, fitted
        design = _powers(x, degree)
        p = expit(design @ beta)
        information = (design * (w * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(degree + 1)
        covariance = np.linalg.inv(information)
        quantile = float(chdtri(degree + 1, 1 - level))
        if data.groups is not None:
            sums = sample.group_sums(design * (w * (hit - p))[:, None]) @ covariance
            groups, free = sample.n_groups, max(sample.n_groups - degree - 1, 1)
            # The variance of independent rows is the least: few groups may agree by chance.
            covariance = np.where(np.trace(sums.T @ sums) > np.trace(covariance), sums.T @ sums, covariance)
            quantile = (degree + 1) * groups / free * float(fdtri(degree + 1, free, level))
        at = np.linspace(-1.0, 1.0, POINTS)
        rows = _powers(at, degree)
        spread = np.sqrt(quantile * np.einsum("ij,jk,ik->i", rows, covariance, rows))
        statistic, p_value = _tested(sample, shown.view, x, min(MOST_DEGREES, len(np.unique(x)) - 1))
        place, curve = expit(centre + width * at), rows @ beta
        low, high = expit(curve - spread), expit(curve + spread)
        if p_value > 1 - level:
            low, high = np.minimum(low, place), np.maximum(high, place)
        return CalibrationBelt(
            score=place,
            frequency=expit(curve),
            low=low,
            high=high,
            degree=degree,
            statistic=statistic,
            p_value=p_value,
            histogram=score_histogram(score, w),
            kind=shown.kind,
            label=shown.label,
            level=level,
        )

    return belt
