"""Pluto and Tasche's estimates against their definition, solved by quadrature and bisection, and correlated counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from calibrant.grades import pluto_tasche
from calibrant.grades.backtesting import case_tails

#: Gauss and Legendre's rule on each of sixteen parts of the factor's range.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
FACTOR = np.concatenate([middle + NODES / 2 for middle in np.arange(-7.5, 8.0)])
MASS = np.tile(WEIGHTS / 2, 16) * norm.pdf(FACTOR)


def given_factor(p: float, correlation: float) -> np.ndarray:
    """The probability of a case at each place of the factor."""
    return norm.cdf((norm.ppf(p) - np.sqrt(correlation) * FACTOR) / np.sqrt(1 - correlation))


def unlikely(p: float, n: float, d: float, correlation: float) -> float:
    """The probability of so few cases among the obligors of a grade and of all worse ones, by quadrature."""
    return float(MASS @ binom.cdf(d, n, given_factor(p, correlation)))


@pytest.mark.parametrize("correlation", [0.0, 0.12])
@pytest.mark.parametrize(
    ("cases", "level"), [((0, 0, 0), 0.5), ((0, 0, 0), 0.999), ((0, 2, 1), 0.9), ((1, 0, 3), 0.95)]
)
def test_estimates_solve_their_definition(correlation: float, cases: tuple[int, ...], level: float) -> None:
    found = pluto_tasche([100, 400, 300], cases, level=level, correlation=correlation)
    for grade, p in enumerate(found):
        n, d = sum((100, 400, 300)[grade:]), sum(cases[grade:])
        # A worse grade never gets less than a better one, whose bound may be the larger one if it has a case.
        if grade and p == found[grade - 1]:
            assert unlikely(p, n, d, correlation) < 1 - level
        else:
            assert unlikely(p, n, d, correlation) == pytest.approx(1 - level, rel=1e-6)


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
    q = given_factor(p, correlation)
    tails = [float(MASS @ tail) for tail in (binom.sf(d - 1, n, q), binom.cdf(d, n, q))]
    np.testing.assert_allclose(case_tails(d, n, p, correlation), tails, atol=1e-9)


def test_what_cannot_be_estimated_is_refused() -> None:
    for observations, observed in (([], None), ([10], [11]), ([10, 5], [1])):
        with pytest.raises(ValueError, match="each grade needs"):
            pluto_tasche(observations, observed)
    with pytest.raises(ValueError, match="correlation must be"):
        pluto_tasche([10], correlation=1.0)
    with pytest.raises(ValueError, match="level must lie"):
        pluto_tasche([10], level=1.0)
