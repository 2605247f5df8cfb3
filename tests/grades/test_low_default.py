"""Pluto and Tasche's estimates against their definition, solved by quadrature and bisection, and correlated counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from calibrant.grades import pluto_tasche
from calibrant.grades.backtesting import case_tails

#: Gauss and Legendre's rule on each of sixteen parts of the factor's range.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
FACTOR = np.concatenate([middle + NODES / 2 for middle in np.arange(-7.5, 8.0)])


def unlikely(p: float, n: float, d: float, correlation: float) -> float:
    """The probability of so few cases among the obligors of a grade and of all worse ones, by quadrature."""
    q = norm.cdf((norm.ppf(p) - np.sqrt(correlation) * FACTOR) / np.sqrt(1 - correlation))
    return float(np.tile(WEIGHTS / 2, 16) @ (norm.pdf(FACTOR) * binom.cdf(d, n, q)))


@pytest.mark.parametrize("correlation", [0.0, 0.12])
@pytest.mark.parametrize(
    ("cases", "level"), [((0, 0, 0), 0.5), ((0, 0, 0), 0.999), ((0, 2, 1), 0.9), ((1, 0, 3), 0.95)]
)
def test_estimates_solve_their_definition(correlation: float, cases: tuple[int, ...], level: float) -> None:
    found = pluto_tasche([100, 400, 300], cases, level=level, correlation=correlation)
    alone = []
    for grade in range(3):
        n, d = sum((100, 400, 300)[grade:]), sum(cases[grade:])
        alone.append(brentq(lambda p, n=n, d=d: unlikely(p, n, d, correlation) - (1 - level), 1e-7, 0.5, xtol=1e-12))
    # A worse grade never gets less than a better one: with a case in the best grade its bound may be the larger one.
    np.testing.assert_allclose(found, np.maximum.accumulate(alone), rtol=1e-5)


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    found = pluto_tasche([50, 60, 70.5], [1, 0, 4.5], level=0.8)
    pooled = [(180.5, 5.5), (130.5, 4.5), (70.5, 4.5)]
    np.testing.assert_allclose(found, [beta.ppf(0.8, d + 1, n - d) for n, d in pooled], rtol=1e-10)
    assert pluto_tasche([3], [3]).tolist() == [1.0]


def test_estimates_never_fall_from_a_grade_to_the_next() -> None:
    found = pluto_tasche([100, 400, 2000], [0, 30, 0])
    assert np.all(np.diff(found) >= 0)
    assert found[2] == found[1]


@pytest.mark.parametrize(
    ("d", "n", "p", "correlation"), [(0, 300, 0.01, 0.12), (35, 9810, 0.0334, 0.15), (9, 9, 0.6, 0.5)]
)
def test_correlated_tails_like_quadrature(d: int, n: int, p: float, correlation: float) -> None:
    def given(y: float) -> float:
        return float(norm.cdf((norm.ppf(p) - np.sqrt(correlation) * y) / np.sqrt(1 - correlation)))

    def integral(tail: Callable[[float], float]) -> float:
        parts = pairwise(np.linspace(-8, 8, 33))
        return sum(quad(lambda y: norm.pdf(y) * tail(given(y)), a, b, epsabs=1e-13)[0] for a, b in parts)

    above, below = integral(lambda q: binom.sf(d - 1, n, q)), integral(lambda q: binom.cdf(d, n, q))
    np.testing.assert_allclose(case_tails(d, n, p, correlation), (above, below), atol=1e-9)


def test_what_cannot_be_estimated_is_refused() -> None:
    for observations, observed in (([], None), ([10], [11]), ([10, 5], [1])):
        with pytest.raises(ValueError, match="each grade needs"):
            pluto_tasche(observations, observed)
    with pytest.raises(ValueError, match="correlation must be"):
        pluto_tasche([10], correlation=1.0)
    with pytest.raises(ValueError, match="level must lie"):
        pluto_tasche([10], level=1.0)
