"""Calibration belt: a polynomial logistic recalibration of the log-odds with a simultaneous confidence region.

With `x = logit s`, `P(hit) = sigmoid(β_0 + β_1 x + ... + β_m x^m)`. The degree starts at one and grows while the
likelihood ratio of the next is significant. All curves inside the Wald region `(β - β̂)' I (β - β̂) ≤ χ²_{m+1}(level)`
make up the belt, `x'β̂ ± sqrt(χ² x' I⁻¹ x)` on the log-odds: where it leaves the diagonal, the predictions are off in
that direction, over the whole range at once (Finazzi et al. 2011; Nattino, Finazzi and Bertolini 2014, who invert
likelihood ratios instead of the quadratic). With groups the covariance is that of sums over groups.

The p-value is that of a smooth test: with polynomials `q_j` of the log-odds that are orthonormal under the weights
`s (1 - s)`, the scores `z_j = Σ q_j(x) (hit - s)` of calibrated predictions are uncorrelated with variance one. The
statistic is `z_0² + ... + z_m²`, where the degree `m` grows as that of the belt does. Labels are drawn with the choice
of the degree repeated (`calibrant.metrics.hypothesis`), so that it is paid for. The belt leaves the diagonal only where
this test rejects it at the belt's level: with few events, or few groups, the quadratic alone would do so too often.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, chdtri, expit, fdtri, logit

from calibrant.bins import sum_by
from calibrant.confidence import check_level
from calibrant.metrics.hypothesis import ViewResiduals, drawn_or_tail
from calibrant.metrics.result_types import HISTOGRAM_BINS, UNIT, CalibrationTest, ReliabilityCurve
from calibrant.metrics.scalars import public
from calibrant.metrics.slope import RIDGE
from calibrant.metrics.views import Kind, Shown, shown_view
from calibrant.sample import Sample
from calibrant.softmax.penalties import Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.newton import Newton
from calibrant.typing import AnyFloatArray, FloatArray, Label

#: Degrees that are tried; a higher one must pass a likelihood-ratio test at this level.
MOST_DEGREES = 4
SIGNIFICANT = 0.05
#: Places at which the belt is given.
POINTS = 101
#: Scores are kept this far from 0 and 1, so that a few certain ones do not decide the polynomial.
FLOOR = 1e-4
#: Standard deviations by which a single event may move the score of a power beyond the first.
LARGEST_LEVERAGE = 1.0
#: Observations times draws up to which labels are drawn for the p-value.
MOST_DRAWN = 20_000_000


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


def _test(data: Sample, shown: Shown, x: AnyFloatArray, most: int) -> CalibrationTest:
    """The smooth test of the diagonal against polynomials of up to `most` degrees."""
    score = np.asarray(shown.view.score, dtype=np.float64)
    root = np.sqrt(data.each * score * (1 - score))
    # Columns of Q are orthonormal under the weights; directions without weight have no score.
    _, triangle = np.linalg.qr(root[:, None] * _powers(x, most))
    size = np.abs(np.diag(triangle))
    known = int(np.argmin(np.append(size > 1e-7 * size.max(), False)))
    polynomials = np.linalg.solve(triangle[:known, :known].T, _powers(x, most).T[:known])
    # At the ends of the range a high power may be so large that one event decides: it has no χ² tail.
    steady = np.abs(polynomials).max(axis=1) <= LARGEST_LEVERAGE
    known = min(known, 2 + int(np.argmin(np.append(steady[2:], False))))
    polynomials = polynomials[:known]
    needed = float(chdtri(1, SIGNIFICANT))

    def statistic(residuals: AnyFloatArray) -> float:
        squares = (polynomials @ residuals) ** 2
        more = np.append(squares[2:] > needed, False)
        return float(squares[: 2 + int(np.argmin(more))].sum())

    residuals = ViewResiduals(data, shown.view)
    return drawn_or_tail(residuals, statistic, max(known, 1), name="belt", kind=shown.kind, most=MOST_DRAWN)


def _fit(x: AnyFloatArray, hit: AnyFloatArray, each: AnyFloatArray, most: int) -> tuple[int, FloatArray]:
    """The degree of the belt and its coefficients."""
    happened, total = float(each @ hit), float(each.sum())
    degree, beta = 0, np.array([float(logit((happened + 0.5) / (total + 1)))])
    if not 0 < happened < total:  # one outcome only leaves nothing to fit
        return degree, beta
    for candidate in range(1, most + 1):
        fitted = fit_polynomial(x, hit, each, candidate)
        drop = _deviance(_powers(x, degree) @ beta, hit, each) - _deviance(_powers(x, candidate) @ fitted, hit, each)
        if candidate > 1 and chdtrc(1, max(drop, 0.0)) > SIGNIFICANT:
            break
        degree, beta = candidate, fitted
    return degree, beta


@public
def calibration_belt(
    data: Sample, *, kind: Kind = "auto", pos_label: Label = None, level: float = 0.95
) -> ReliabilityCurve:
    """Calibration belt: where the whole curve of a polynomial recalibration lies with this confidence.

    The belt and its p-value hold if rows are independent, or groups if `groups` or `blocks` are given.

    Parameters
    ----------
    level : float, default=0.95
        Confidence level of the belt as a whole.

    References
    ----------
    G. Nattino, S. Finazzi and G. Bertolini. A new calibration test and a reappraisal of the calibration belt for the
    assessment of prediction models based on dichotomous outcomes. Statistics in Medicine 33(14), 2014.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=4000)
    >>> y = (rng.random(4000) < 1 / (1 + np.exp(-z))).astype(int)
    >>> belt = calibration_belt(y, 1 / (1 + np.exp(-2 * z)))  # too extreme
    >>> belt.degree, belt.test.p_value < 1e-6, bool(belt.high[-1] < belt.score[-1])
    (1, True, True)
    """
    check_level(level)
    shown = shown_view(data, kind, pos_label)
    score, hit = (np.asarray(part, dtype=np.float64) for part in shown.view)
    each, log_odds = data.each, logit(np.clip(score, FLOOR, 1 - FLOOR))
    # The middle and the width of the range keep powers well scaled.
    first, last = float(log_odds.min()), float(log_odds.max())
    centre, width = (first + last) / 2, max((last - first) / 2, 1e-9)
    x = (log_odds - centre) / width
    most = min(MOST_DEGREES, len(np.unique(x)) - 1)
    degree, beta = _fit(x, hit, each, most)
    design = _powers(x, degree)
    p = expit(design @ beta)
    information = (design * (each * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(degree + 1)
    covariance = np.linalg.inv(information)
    quantile = float(chdtri(degree + 1, 1 - level))
    if data.groups is not None:
        sums = data.group_sums(design * (each * (hit - p))[:, None]) @ covariance
        groups, free = data.n_groups, max(data.n_groups - degree - 1, 1)
        # The variance of independent rows is the least: few groups may agree by chance.
        covariance = np.where(np.trace(sums.T @ sums) > np.trace(covariance), sums.T @ sums, covariance)
        quantile = (degree + 1) * groups / free * float(fdtri(degree + 1, free, level))
    place = np.linspace(-1.0, 1.0, POINTS)
    rows = _powers(place, degree)
    curve, spread = rows @ beta, np.sqrt(quantile * np.einsum("ij,jk,ik->i", rows, covariance, rows))
    test = _test(data, shown, x, most)
    at, low, high = expit(centre + width * place), expit(curve - spread), expit(curve + spread)
    if test.p_value + level > 1:
        low, high = np.minimum(low, at), np.maximum(high, at)
    return ReliabilityCurve(
        maker="belt",
        lower=at,
        upper=at,
        score=at,
        frequency=expit(curve),
        weight=sum_by(np.rint((x + 1) / 2 * (POINTS - 1)).astype(np.intp), each, POINTS),
        at=at,
        low=low,
        high=high,
        level=level,
        error=float(each @ np.abs(p - score)) / data.total,
        histogram=UNIT.histogram(score, each, HISTOGRAM_BINS),
        kind=shown.kind,
        label=shown.label,
        test=test,
        degree=degree,
    )
