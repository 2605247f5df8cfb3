"""Probabilities of grades with few cases or none, and counts of cases that depend on each other (Pluto and Tasche).

If cases of one year share a normal factor, as in Vasicek's model, a case of probability `p` has, given the factor `y`,
the probability `Φ((Φ⁻¹(p) - √ρ y) / √(1 - ρ))`, and the number of cases is binomial given `y`. Without correlation it
is binomial. The binomial tail is an incomplete beta function, which also holds between whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, ndtr, ndtri

from calibrant.confidence import check_level
from calibrant.typing import FloatArray

#: Places of the common factor and their masses: the trapezoidal rule, which is exact to rounding for smooth functions.
_FACTOR = np.linspace(-9.0, 9.0, 4001)
_MASS = np.exp(-0.5 * _FACTOR**2) / np.exp(-0.5 * _FACTOR**2).sum()


def check_correlation(correlation: float) -> float:
    """A correlation of the factors behind the cases, from 0 to below 1."""
    if not 0.0 <= correlation < 1.0:
        raise ValueError(f"correlation must be at least 0 and below 1, got {correlation!r}")
    return float(correlation)


def case_tails(count: float, total: float, p: float, correlation: float = 0.0) -> tuple[float, float]:
    """`P(X ≥ count)` and `P(X ≤ count)` for the number of cases among `total` of probability `p`.

    Examples
    --------
    >>> case_tails(1, 10, 0.5), [round(tail, 4) for tail in case_tails(1, 10, 0.5, 0.12)]
    ((0.9990234375, 0.0107421875), [0.9916, 0.0424])
    """
    given: Any = p
    if correlation > 0.0 and 0.0 < p < 1.0:
        given = ndtr((ndtri(p) - np.sqrt(correlation) * _FACTOR) / np.sqrt(1.0 - correlation))
    above = betainc(count, total - count + 1.0, given) if count > 0 else 1.0
    below = betaincc(count + 1.0, total - count, given) if count < total else 1.0
    upper, lower = (float(_MASS @ tail) if np.ndim(tail) else float(tail) for tail in (above, below))
    return upper, lower


def pluto_tasche(
    observations: ArrayLike, observed: ArrayLike | None = None, *, level: float = 0.9, correlation: float = 0.0
) -> FloatArray:
    """Most prudent estimates of the probabilities of grades with few cases or none (Pluto and Tasche 2005).

    The estimate of a grade is the upper confidence bound of the probability of this grade and all worse ones, pooled:
    if grades are in the right order, its probability is no larger than theirs. It is the `p` at which as few cases as
    were observed have probability `1 - level`.

    It misleads where the order of grades is wrong, and its size is mostly that of `level`, which the data do not tell.
    It grows fast with the correlation. An estimate below that of a better grade is raised to it.

    Parameters
    ----------
    observations : array-like of shape (m,)
        Observations of each grade, the best grade first.
    observed : array-like of shape (m,), default=None
        Cases among them; by default none.
    level : float, default=0.9
        Confidence level of the bounds.
    correlation : float, default=0.0
        Correlation of the normal variables behind the cases (asset correlation), such as 0.12.

    Returns
    -------
    ndarray of shape (m,)

    References
    ----------
    Pluto and Tasche. Estimating probabilities of default for low default portfolios. arXiv cond-mat/0411699 (2005).

    Examples
    --------
    Grades of 100, 400 and 300 obligors without a default:

    >>> from calibrant.grades import pluto_tasche
    >>> (100 * pluto_tasche([100, 400, 300])).round(2)
    array([0.29, 0.33, 0.76])
    >>> (100 * pluto_tasche([100, 400, 300], correlation=0.12)).round(2)
    array([0.86, 0.96, 1.89])
    """
    check_level(level), check_correlation(correlation)
    n = np.atleast_1d(np.asarray(observations, dtype=np.float64))
    d = np.zeros(len(n)) if observed is None else np.atleast_1d(np.asarray(observed, dtype=np.float64))
    if n.ndim != 1 or d.shape != n.shape or not len(n) or not np.all((d >= 0) & (d <= n)):
        raise ValueError("each grade needs a number of observations, and from 0 to so many cases")
    pooled = np.cumsum(n[::-1])[::-1], np.cumsum(d[::-1])[::-1]
    return np.maximum.accumulate([_upper_bound(*pair, level, correlation) for pair in zip(*pooled)])


def _upper_bound(total: float, count: float, level: float, correlation: float) -> float:
    if count >= total:
        return 1.0
    excess = lambda odds: case_tails(count, total, float(ndtr(odds)), correlation)[1] - (1.0 - level)  # noqa: E731
    return float(ndtr(brentq(excess, -30.0, 8.0, xtol=1e-13)))
