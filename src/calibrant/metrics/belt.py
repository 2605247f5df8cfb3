"""Calibration belt: a polynomial logistic recalibration of the log-odds with a simultaneous confidence region.

With `x = logit s`, `P(hit) = sigmoid(β_0 + β_1 x + ... + β_m x^m)`. The degree starts at one and grows while the
likelihood ratio of the next is significant. All curves inside the Wald region `(β - β̂)' I (β - β̂) ≤ χ²_{m+1}(level)`
make up the belt, `x'β̂ ± sqrt(χ² x' I⁻¹ x)` on the log-odds: where it leaves the diagonal, the predictions are off in
that direction, over the whole range at once (Finazzi et al. 2011; Nattino, Finazzi and Bertolini 2014, who invert
likelihood ratios instead of the quadratic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, chdtri, expit, logit
from sklearn.linear_model import LogisticRegression

from calibrant.metrics.inputs import Forecasts, check_level
from calibrant.metrics.reliability import score_histogram
from calibrant.metrics.scalars import public
from calibrant.metrics.slope import RIDGE
from calibrant.metrics.tabular import ScoredCurve
from calibrant.metrics.views import Kind, shown_view
from calibrant.typing import AnyFloatArray, FloatArray

#: Degrees that are tried; a higher one must pass a likelihood-ratio test at this level.
MOST_DEGREES = 4
SIGNIFICANT = 0.05
#: Places at which the belt is given.
POINTS = 101
#: Scores are kept this far from 0 and 1, so that a few certain ones do not decide the polynomial.
FLOOR = 1e-4


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
    p_value : float
        Likelihood-ratio test of the diagonal against the chosen polynomial; a little optimistic, since the degree was
        chosen on the same rows.
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
    p_value: float


def _powers(x: AnyFloatArray, degree: int) -> FloatArray:
    return np.vander(x.astype(np.float64), degree + 1, increasing=True)


def _deviance(z: AnyFloatArray, hit: AnyFloatArray, weight: AnyFloatArray) -> float:
    return 2 * float(weight @ (np.logaddexp(0, z) - hit * z))


def _fit(x: AnyFloatArray, hit: AnyFloatArray, weight: AnyFloatArray, degree: int) -> FloatArray:
    model = LogisticRegression(C=1 / RIDGE, fit_intercept=False, solver="newton-cholesky", tol=1e-8, max_iter=200)
    return np.asarray(model.fit(_powers(x, degree), hit, sample_weight=weight).coef_[0], dtype=np.float64)


@public
def calibration_belt(
    data: Forecasts, *, kind: Kind = "auto", label: Any = None, level: float = 0.95
) -> Callable[[AnyFloatArray | None], CalibrationBelt]:
    """Calibration belt: where the whole curve of a polynomial recalibration lies with this confidence.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, read as counts.
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

    def belt(weight: AnyFloatArray | None) -> CalibrationBelt:
        w = np.ones(len(hit)) if weight is None else weight
        happened = float(w @ hit)
        # One outcome only leaves nothing to fit; the middle and the width of the range keep powers well scaled.
        most = MOST_DEGREES if 0 < happened < w.sum() else 0
        low, high = float(log_odds.min()), float(log_odds.max())
        centre, width = (low + high) / 2, max((high - low) / 2, 1e-9)
        x = (log_odds - centre) / width
        most = min(most, len(np.unique(x)) - 1)
        degree, beta = 0, np.array([float(logit((happened + 0.5) / (w.sum() + 1)))])
        for candidate in range(1, most + 1):
            fitted = _fit(x, hit, w, candidate)
            drop = _deviance(_powers(x, degree) @ beta, hit, w) - _deviance(_powers(x, candidate) @ fitted, hit, w)
            if candidate > 1 and chdtrc(1, max(drop, 0.0)) > SIGNIFICANT:
                break
            degree, beta = candidate, fitted
        design = _powers(x, degree)
        z = design @ beta
        p = expit(z)
        information = (design * (w * p * (1 - p))[:, None]).T @ design + RIDGE * np.eye(degree + 1)
        at = np.linspace(-1.0, 1.0, POINTS)
        rows = _powers(at, degree)
        spread = np.sqrt(np.einsum("ij,ij->i", rows, np.linalg.solve(information, rows.T).T))
        spread *= float(np.sqrt(chdtri(degree + 1, 1 - level)))
        drop = _deviance(log_odds, hit, w) - _deviance(z, hit, w)
        return CalibrationBelt(
            score=expit(centre + width * at),
            frequency=expit(rows @ beta),
            low=expit(rows @ beta - spread),
            high=expit(rows @ beta + spread),
            degree=degree,
            p_value=float(chdtrc(degree + 1, max(drop, 0.0))),
            histogram=score_histogram(score, weight),
            kind=shown.kind,
            label=shown.label,
            level=level,
        )

    return belt
