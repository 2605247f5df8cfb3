"""Calibration belts by their definition, with an independent fit on the log-odds themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.legendre import Legendre
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2, f

from calibrant.metrics import calibration_belt
from calibrant.metrics.slope import RIDGE

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.mark.parametrize("groups", [None, np.arange(60) // 2, np.arange(60) // 6, np.arange(60) // 20])
def test_a_belt_by_hand(groups: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    s = np.clip(expit(2 * rng.normal(size=60)), 0, 0.95)
    together = np.arange(60) if groups is None else groups  # rows of a group go together
    y = (rng.random(60)[together] < expit(0.4 * logit(s) - 0.8)).astype(int)
    s[0] = 0.0
    each = rng.uniform(0.5, 2, 60)
    belt = calibration_belt(y, s, sample_weight=each, groups=groups, level=0.9)
    assert (belt.degree, belt.level) == (1, 0.9)
    z = logit(np.maximum(s, 1e-4))
    middle, half = (z.max() + z.min()) / 2, (z.max() - z.min()) / 2
    design = np.column_stack([np.ones(60), (z - middle) / half])

    def loss(beta: np.ndarray) -> float:
        return float(each @ (np.logaddexp(0, design @ beta) - y * (design @ beta)) + RIDGE / 2 * beta @ beta)

    beta = minimize(loss, np.zeros(2), options={"gtol": 1e-8}).x
    p = expit(design @ beta)
    covariance = np.linalg.inv(design.T @ (design * (each * p * (1 - p))[:, None]) + RIDGE * np.eye(2))
    most = chi2.ppf(0.9, 2)
    if groups is not None:
        n = groups[-1] + 1
        between = np.zeros((2, 2))
        for group in range(n):
            rows = groups == group
            sums = covariance @ design[rows].T @ (each * (y - p))[rows]
            between += np.outer(sums, sums)
        if between.trace() > covariance.trace():
            covariance = between
        free = max(n - 2, 1)
        most = 2 * n / free * f.ppf(0.9, 2, free)
    place = np.linspace(-1, 1, 101)
    at = np.column_stack([np.ones(101), place])
    off = np.sqrt(most * np.einsum("ij,jk,ik->i", at, covariance, at))
    diagonal, low, high = expit(middle + half * place), expit(at @ beta - off), expit(at @ beta + off)
    if belt.test.p_value > 0.1:
        low, high = np.minimum(low, diagonal), np.maximum(high, diagonal)
    for found in (belt.at, belt.score, belt.lower, belt.upper):
        np.testing.assert_allclose(found, diagonal, rtol=1e-9)
    np.testing.assert_allclose([belt.frequency, belt.low, belt.high], [expit(at @ beta), low, high], rtol=1e-5)
    assert belt.error == pytest.approx(each @ np.abs(p - s) / each.sum(), rel=1e-6)
    nearest = np.abs(design[:, 1:] - place).argmin(axis=1)
    np.testing.assert_allclose(belt.weight, np.bincount(nearest, each, minlength=101))


def polynomials(s: np.ndarray, each: np.ndarray) -> list[np.ndarray]:
    """Of the log-odds, made orthonormal by Gram and Schmidt."""
    basis, weight = list[np.ndarray](), each * s * (1 - s)
    for power in range(6):
        q = logit(s) ** power
        for _ in range(2):
            for other in basis:
                q = q - (weight @ (q * other)) * other
        basis.append(q / np.sqrt(weight @ q**2))
    return basis


def bent(seed: int, bends: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequencies that leave the scores by a square, a cube, and higher powers, if there are any; and weights."""
    rng, n = np.random.default_rng(seed), 400 if len(bends) == 1 else 4000
    s = rng.uniform(0.2, 0.8, n)
    off = sum(bend * Legendre.basis(power)((s - 0.5) / 0.3) for power, bend in enumerate(bends, 2))
    return (rng.random(n) < s + off).astype(int), s, rng.uniform(0.5, 1.5, n)


@pytest.mark.parametrize(
    ("seed", "bends", "degree"),
    # Squares of 3.6, 4.0 and 5.8, where 3.84 is significant; one of 0.5 before one of 7.2; and five significant ones.
    [(27, [0.06], 1), (7, [0.06], 2), (11, [0.06], 2), (5, [0.06], 1), (0, [0.08, 0.08, 0.08, 0.08], 4)],
)
def test_powers_are_added_while_they_are_significant(seed: int, bends: list[float], degree: int) -> None:
    y, s, each = bent(seed, bends)
    belt = calibration_belt(y, s, sample_weight=each)
    squares = [float((each * (y - s)) @ q) ** 2 for q in polynomials(s, each)]
    assert belt.degree == degree
    assert degree < 4 or min(squares[2:]) > 4
    assert belt.test.statistic == pytest.approx(sum(squares[: degree + 1]), rel=1e-6)
    assert (belt.test.name, belt.test.kind) == ("belt", "binary")


def test_powers_in_which_one_event_decides_are_left_out() -> None:
    rng = np.random.default_rng(1)
    s = np.append(rng.uniform(0.3, 0.7, 60), 0.0005)
    y = np.append(rng.random(60) < 0.5 + 0.4 * ((s[:-1] - 0.5) / 0.2) ** 2, 1).astype(int)
    basis = polynomials(s, np.ones(61))
    squares = [float((y - s) @ q) ** 2 for q in basis]
    assert np.abs(basis[2]).max() > 1
    assert squares[2] > 3.85
    assert calibration_belt(y, s).test.statistic == pytest.approx(squares[0] + squares[1], rel=1e-6)


def test_certain_rows_have_no_part_in_the_test() -> None:
    y, s = np.array([0, 1, 0, 1, 1]), np.array([0.0, 1.0, 0.3, 0.3, 0.3])
    assert calibration_belt(y, s).test.statistic == pytest.approx((2 - 0.9) ** 2 / (3 * 0.21))
    # Beyond all draws the tail is that of the one score that tells anything.
    sure = calibration_belt([0, 1, *[1] * 60], [0.0, 1.0, *[0.3] * 60]).test
    assert sure.p_value == pytest.approx(chi2.sf(60 * 0.7 / 0.3, 1))
    test = calibration_belt([0, 1, 1], [0.0, 1.0, 1.0]).test
    assert (test.statistic, test.p_value) == (0.0, 1.0)


def test_one_event_is_enough_for_a_slope() -> None:
    y, s = np.arange(20) == 3, np.linspace(0.1, 0.5, 20)
    assert calibration_belt(y.astype(int), s).degree == 1
    assert calibration_belt(1 - y, 1 - s).degree == 1
