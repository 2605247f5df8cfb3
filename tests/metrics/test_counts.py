"""The test of a count against convolutions written out, scipy's binomial distribution, and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.metrics import calibration_in_the_large
from calibrant.metrics.frequencies import N_BINS, binned_coins, count_p_values, design_effect, design_effects
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


def test_a_bin_is_an_eighth_of_an_octave() -> None:
    small = np.outer(2.0 ** -np.arange(2, 15), 1 + np.arange(8) / 8).ravel()
    small = np.append(small, 0.5)
    p = np.append(small, 1 - small)
    p[-1] = np.nextafter(0.5, 1)
    coins = binned_coins(np.column_stack([p, p[::-1]]), 2 * np.ones(len(p)))
    assert coins.shape == (2, 2, N_BINS)
    np.testing.assert_array_equal(coins[:, 0], 2.0)  # every bin holds one of them
    np.testing.assert_allclose(coins[0, 1], 2 * np.sort(p), rtol=1e-15)
    tiny = binned_coins(np.array([[0.0], [1e-9], [1 - 1e-9], [1.0]]), np.ones(4))[0, 0]
    assert (tiny[0], tiny[-1]) == (2, 2)


def test_bins_change_the_variance_by_at_most_what_is_said() -> None:
    # The worst case: half of the coins at either end of the bin that is widest for its variance.
    p = np.repeat([0.25, 0.28124], 50)
    number, sums = binned_coins(p[:, None], np.ones(100))[0]
    binned, exact = sums.sum() - np.sum(sums[number > 0] ** 2 / number[number > 0]), np.sum(p * (1 - p))
    assert np.count_nonzero(number) == 1
    assert 0.0012 < binned / exact - 1 < 0.0013


def upper_tails(number: np.ndarray, p: np.ndarray) -> np.ndarray:
    """`P(S >= s)` for s = 0, 1, ...: of whole numbers of coins, and of one more that shows as often as is left."""
    whole = np.floor(number)
    frequency = convolved(np.append(np.repeat(p, whole.astype(int)), p * (number - whole)))
    return np.append(np.cumsum(frequency[::-1])[::-1], 0).astype(float)


def p_value_by_hand(number: np.ndarray, p: np.ndarray, count: float, effect: float = 1.0) -> float:
    number, count = number / effect, count / effect
    number, count = number[p < 1], count - number[p == 1].sum()
    p = p[p < 1]
    number, p = number[p > 0], p[p > 0]
    if count < number @ p:
        count, p = number.sum() - count, 1 - p
    tails, below = upper_tails(number, p), int(np.floor(count + 1e-9))
    tails[: int(number @ p) + 1] = 1  # what is expected or less is no surprise at all
    tail = tails[below] if below >= 0 else 1.0
    if effect > 1 and count - below > 1e-9:
        above = min(below + 1, int(np.ceil(number).sum()))
        tail = tail ** (1 - (count - below)) * tails[above] ** (count - below)
    return min(1.0, 2 * tail)


@pytest.mark.parametrize("effect", [1.0, 1.25, 3.0])
def test_fractional_numbers_of_coins_by_convolution(effect: float) -> None:
    number, p = np.array([9.3, 12.0, 7.6, 1.5, 2.0]), np.array([0.1, 0.35, 0.8, 1.0, 0.0])
    coins = np.stack([number, number * p])[None]
    counts = np.append(np.arange(0, 28.5, 1.5), [12.25, 12.75, 13.25, number @ p])
    found = [count_p_values(coins, np.array([count]), effect)[0] for count in counts]
    np.testing.assert_allclose(found, [p_value_by_hand(number, p, count, effect) for count in counts], rtol=1e-7)


def test_sums_of_weights_that_are_not_quite_whole_are_whole() -> None:
    # Ten coins, of which eight or two show, from weights of 0.1: sums that end in ...99.
    number, eight = np.sum([0.1] * 100), sum([0.1] * 80)
    assert number < 10
    assert eight < 8
    coins = np.array([[[number], [0.5 * number]]])
    for count in (eight, sum([0.1] * 20)):
        assert count_p_values(coins, np.array([count]))[0] == pytest.approx(2 * binom.sf(7, 10, 0.5), rel=1e-6)
    # Of a million, too: the next number would have a tail that is 0.7 % larger.
    many = np.array([[[1e6 - 1e-5], [0.5e6]]])
    expected = 2 * binom.sf(501_999, 10**6, 0.5)
    assert count_p_values(many, np.array([502_000 - 1e-5]))[0] == pytest.approx(expected, rel=2e-3)


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


def design_effects_by_hand(data: Sample) -> list[float]:
    """With a loop over groups, as the docstrings say it."""
    assert data.groups is not None
    groups = [data.groups == group for group in np.unique(data.groups)]
    sizes = np.array([data.each[rows].sum() for rows in groups])
    largest = (sizes**2).sum() / sizes.sum()  # rows of a group all agree
    found = []
    for column, p in enumerate(data.proba.T):
        variance, residual = p * (1 - p), (data.y == column) - p
        residual = residual - variance * (data.each @ residual) / (data.each @ variance)
        squares = np.array([(data.each[rows] @ residual[rows]) ** 2 for rows in groups])
        seen = data.each @ (data.y == column)
        groups_that_tell = min(
            squares.sum() ** 2 / (squares**2).sum(),
            2 * min(seen, data.total - seen, data.each @ np.minimum(p, 1 - p)) / largest,
        )
        effect = squares.sum() / (data.each @ residual**2)
        pulled = (4 * largest + groups_that_tell * effect) / (4 + groups_that_tell)
        found.append(float(np.clip(pulled, 1, largest)))
    return found


@pytest.mark.parametrize("rate", [0.9, 0.1, 0.001])
@pytest.mark.parametrize("alike", [0.9, 0.2])
def test_design_effects_by_hand(rate: float, alike: float) -> None:
    rng = np.random.default_rng(4)
    groups = np.sort(rng.integers(0, 12, 60))
    p = rate * rng.dirichlet(np.ones(3), 60) + (1 - rate) * np.array([0.0, 0.2, 0.8])
    risk = np.where(rng.random(60) < alike, rng.random(12)[groups], rng.random(60))
    y = (p.cumsum(axis=1) < risk[:, None]).sum(axis=1)
    data = Sample(p, y, rng.uniform(0.5, 2.5, 60), groups)
    expected = design_effects_by_hand(data)
    assert max(expected) > 1
    np.testing.assert_allclose(design_effects(data), expected, rtol=1e-12)
    mostly = Sample(np.full((60, 2), 0.5), np.minimum(np.arange(60), 1), data.counts, groups)  # one row is not of 1
    np.testing.assert_allclose(design_effects(mostly), design_effects_by_hand(mostly), rtol=1e-12)


def test_a_design_effect_is_at_least_one_and_at_most_that_of_copies() -> None:
    data = grouped(np.full(10, 0.5), np.zeros(10), 2)
    for variance, effect in ((0.2, 1.0), (0.07, (4 * 2 + 10 * 0.1 / 0.07) / 14), (0.0, 2.0)):
        assert design_effect(data, np.full(10, 0.1), variance) == pytest.approx(effect)
    some = Sample(data.proba[:5], data.y[:5], groups=np.array([0, 0, 1, 2, 3]))
    assert design_effect(some, np.ones(4), 0.1) == pytest.approx((4 + 1 + 1 + 1) / 5)
    light = Sample(data.proba, data.y, np.full(20, 0.1), data.groups)
    np.testing.assert_array_equal(design_effects(light), 1.0)


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
