"""The test of a count against convolutions written out, scipy's binomial distribution, and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.metrics import calibration_in_the_large
from calibrant.metrics.frequencies import binned_coins, count_p_values, design_effects
from calibrant.random_numbers import LabelSampler
from calibrant.sample import Sample


def convolved(p: np.ndarray) -> np.ndarray:
    """Frequencies of a sum of coins, one coin after the other."""
    found = np.ones(1, dtype=np.longdouble)
    for q in p:
        found = np.append(found * (1 - q), 0) + np.append(0, found * q)
    return found


def two_sided(frequency: np.ndarray) -> np.ndarray:
    upper, lower = np.cumsum(frequency[::-1])[::-1], np.cumsum(frequency)
    return np.minimum(1, 2 * np.minimum(upper, lower)).astype(float)


@pytest.mark.parametrize("n", [1, 7, 60, 800])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 80.0), (0.1, 0.1)])
def test_p_values_of_unequal_coins(n: int, a: float, b: float) -> None:
    p = np.random.default_rng(0).beta(a, b, n)
    expected = two_sided(convolved(p))
    coins = binned_coins(p[:, None], np.ones(n))
    far = np.flatnonzero(expected > 1e-12)
    found = np.array([count_p_values(coins, np.array([float(count)]))[0] for count in far])
    seen = expected[far] > 1e-6
    np.testing.assert_allclose(found[seen], expected[far][seen], rtol=0.01)
    np.testing.assert_allclose(found, expected[far], rtol=0.02)


@pytest.mark.parametrize(("n", "p"), [(20, 0.5), (400, 0.006), (3000, 0.02), (100_000, 0.3), (10**7, 1e-4)])
def test_p_values_of_equal_coins_are_binomial(n: int, p: float) -> None:
    coins = binned_coins(np.full((1, 1), p), np.array([float(n)]))
    counts = np.unique(np.floor(n * p + np.linspace(-8, 8, 41) * np.sqrt(n * p * (1 - p))).clip(0, n))
    found = np.array([count_p_values(coins, np.array([count]))[0] for count in counts])
    expected = np.minimum(1, 2 * np.minimum(binom.sf(counts - 1, n, p), binom.cdf(counts, n, p)))
    seen = expected > 1e-200
    np.testing.assert_allclose(found[seen], expected[seen], rtol=2e-3)


def test_certain_coins_and_impossible_counts() -> None:
    coins = binned_coins(np.array([[0.0], [1.0], [1.0], [0.5]]), np.ones(4))
    assert [count_p_values(coins, np.array([float(c)]))[0] for c in range(5)] == [0, 0, 1, 1, 0]


def test_fractions_are_rounded_towards_what_was_expected() -> None:
    coins = binned_coins(np.full((1, 1), 0.5), np.array([10.0]))
    nine, more = (count_p_values(coins, np.array([count]))[0] for count in (9.0, 9.7))
    assert nine == more == pytest.approx(22 / 1024)
    # Two coins, and one that shows with 0.3 of the probability.
    few = binned_coins(np.full((1, 1), 0.5), np.array([2.3]))
    assert count_p_values(few, np.array([2.0]))[0] == pytest.approx(2 * (0.25 + 0.5 * 0.15))
    assert count_p_values(few, np.array([2.3]))[0] == pytest.approx(0.65)


def test_rare_classes_are_called_off_no_more_often_than_the_level_says() -> None:
    rng = np.random.default_rng(1)
    p = 0.012 * rng.random(400)
    frequency = convolved(p)
    coins = binned_coins(p[:, None], np.ones(400))
    values = np.array([count_p_values(coins, np.array([float(c)]))[0] for c in range(30)])
    for level in (0.05, 0.01, 0.001):  # the exact probability of rejecting
        assert float(frequency[:30][values <= level].sum()) <= level


def grouped(p: np.ndarray, hit: np.ndarray, size: int) -> Sample:
    groups = np.repeat(np.arange(len(p)), size)
    return Sample(np.column_stack([1 - p, p])[groups], hit.astype(int)[groups], groups=groups)


def test_design_effects() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(400)
    copies = design_effects(grouped(p, rng.random(400) < p, 10))
    np.testing.assert_allclose(copies, 10.0, rtol=0.01)
    p = rng.random(4000)
    proba, y = np.column_stack([1 - p, p]), (rng.random(4000) < p).astype(int)
    np.testing.assert_allclose(design_effects(Sample(proba, y, groups=np.arange(4000) // 10)), 1.15, atol=0.25)
    np.testing.assert_array_equal(design_effects(Sample(proba, y)), 1.0)
    # No group shows an event: there is no telling, so the largest effect counts.
    none = grouped(np.full(30, 0.01), np.zeros(30), 10)
    np.testing.assert_allclose(design_effects(none), 10.0)


def test_design_effects_of_certain_predictions() -> None:
    """Nothing is left to chance, so that nothing tells how much groups depend: the largest effect counts."""
    certain = grouped(np.repeat([0.0, 1.0], 15), np.repeat([0, 1], 15), 10)
    np.testing.assert_allclose(design_effects(certain), 10.0)


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_counts_of_dependent_groups(rate: float) -> None:
    rng = np.random.default_rng(3)
    groups, rejected, missed, runs = np.repeat(np.arange(60), 10), 0, 0, 100
    for _ in range(runs):
        p = 2 * rate * rng.random(60)
        y = (rng.random(60) < p).astype(int)
        table = calibration_in_the_large(y[groups], p[groups], groups=groups, classes=[0, 1])
        rejected += table.p_value[1] <= 0.05
        missed += not table.low[1] <= 1 <= table.high[1]
    assert max(rejected, missed) / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_labels_of_large_counts_are_drawn_as_numbers_with_the_same_distribution() -> None:
    p = np.array([[0.2, 0.5, 0.3], [0.01, 0.99, 0.0], [0.4, 0.3, 0.3]])
    counts = np.array([60_000.0, 40_000.0, 20_000.5])
    large, rng, draws = Sample(p, np.zeros(3, dtype=int), counts), np.random.default_rng(0), 4000
    found = np.zeros((draws, 3, 3))
    for draw in found:
        rows, y, number = large.draw_labels(rng)
        assert number is not None
        assert len(number) <= 9
        draw[rows, y] = number
    assert set(found.sum(axis=2)[:, 2]) == {20_000.0, 20_001.0}
    np.testing.assert_array_equal(found.sum(axis=2)[:, :2], np.tile(counts[:2], (draws, 1)))
    variance = counts[:, None] * p * (1 - p)
    error = np.sqrt(variance / draws)
    assert np.all(np.abs(found.mean(axis=0) - counts[:, None] * p) <= 4 * error)
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=4 * np.sqrt(2 / draws), atol=1e-9)
    between = np.cov(found[:, 0, 0], found[:, 0, 1])[0, 1]
    np.testing.assert_allclose(between, -counts[0] * p[0, 0] * p[0, 1], rtol=0.15)


@pytest.mark.parametrize(("n", "count"), [(3, 30.0), (3, 30_000.0), (2500, 90.0)])
def test_labels_of_other_counts_are_drawn_one_by_one(n: int, count: float) -> None:
    p = np.random.default_rng(1).dirichlet(np.ones(3), n)
    rows, y, number = Sample(p, np.zeros(n, dtype=int), np.full(n, count)).draw_labels(np.random.default_rng(2))
    assert number is None
    repeated = np.repeat(np.arange(n), int(count))
    np.testing.assert_array_equal(rows, repeated)
    np.testing.assert_array_equal(y, LabelSampler(p).draw(np.random.default_rng(2), repeated))
