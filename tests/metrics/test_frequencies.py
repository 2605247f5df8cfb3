"""Expected and observed counts against sums made by hand, and their p-values against a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import binom, kstest, norm

from calibrant.metrics import calibration_in_the_large, confidence_interval, positive_gap
from calibrant.metrics.frequencies import (
    binned_coins,
    class_frequencies,
    count_p_values,
    design_effects,
    gap_of_ratio,
)
from calibrant.sample import Sample
from tests.samples import sharpened


def test_counts_are_sums() -> None:
    p, y = sharpened(500, 4, 1.7)
    table = calibration_in_the_large(y, p)
    np.testing.assert_allclose(table.expected, p.sum(axis=0))
    np.testing.assert_array_equal(table.observed, np.bincount(y, minlength=4))
    np.testing.assert_allclose(table.ratio, table.expected / table.observed)
    assert np.all((table.low < table.ratio) & (table.ratio < table.high))
    assert table.total == 500
    assert list(table.to_dict()) == ["class", "expected", "observed", "ratio", "low", "high", "p_value"]


def test_weights_are_counts() -> None:
    p, y = sharpened(200, 3, 1.2)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = calibration_in_the_large(y, p, sample_weight=weight).to_dict()
    for name, column in calibration_in_the_large(y[rows], p[rows]).to_dict().items():
        np.testing.assert_allclose(weighted[name], column, err_msg=name)


def test_a_fraud_model_predicts_seventeen_times_too_many() -> None:
    y = np.repeat([0, 1], [9880, 120])
    table = calibration_in_the_large(y, np.full(10_000, 0.207))
    assert table.ratio[1] == pytest.approx(0.207 / 0.012)
    assert table.low[1] > 14
    assert table.p_value[1] < 1e-12
    assert positive_gap(y, np.full(10_000, 0.207)) == pytest.approx(0.195)
    assert confidence_interval("positive_gap", y, np.full(10_000, 0.207), n_resamples=50).low > 0.19


def test_a_class_that_never_occurs_has_a_finite_lower_end() -> None:
    table = calibration_in_the_large([0, 1] * 50, [[0.5, 0.4, 0.1]] * 100, classes=[0, 1, 2])
    assert table.ratio[2] == table.high[2] == np.inf
    assert 1 < table.low[2] < np.inf


def test_certain_predictions() -> None:
    table = calibration_in_the_large([0, 1], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], classes=[0, 1, 2])
    assert table.ratio.tolist() == [1, 1, 1]
    assert table.p_value.tolist() == [1, 1, 1]
    assert calibration_in_the_large([1, 1], [0.0, 1.0]).p_value.tolist() == [0, 0]


def test_p_values_are_uniform_on_calibrated_data() -> None:
    values = []
    for seed in range(200):
        p, y = sharpened(300, 3, 1.0, seed)
        values.append(calibration_in_the_large(y, p).p_value[0])
    assert kstest(values, "uniform").pvalue > 1e-3


def test_positive_gap_of_any_class() -> None:
    p, y = sharpened(100, 3, 1.5)
    for label in range(3):
        assert positive_gap(y, p, pos_label=label) == pytest.approx(p[:, label].mean() - np.mean(y == label))
    assert positive_gap(y, p) == positive_gap(y, p, pos_label=2)
    with pytest.raises(ValueError, match="no class is labelled 'x'; the classes are"):
        positive_gap(y, p, pos_label="x")


def test_a_count_and_its_complement_are_equally_surprising_with_groups() -> None:
    # Sure predictions of groups that err together: 36 misses of 200 where about 6 are expected.
    rng = np.random.default_rng(5)
    p = rng.uniform(0.95, 0.99, 200)
    group = np.repeat(np.arange(30), [7] * 20 + [6] * 10)
    y = np.ones(200, dtype=int)
    y[np.isin(group, [1, 5, 9, 14, 22])] = 0
    table = calibration_in_the_large(y, np.column_stack([1 - p, p]), groups=group)
    assert table.p_value[0] == pytest.approx(table.p_value[1])
    # A coin per group, of which 5 miss: the binomial tail; the design effect of few groups widens it a little.
    alone = 2 * binom.sf(4, 30, 1 - p.mean())
    assert alone / 5 < table.p_value[1] < 5 * alone


def test_parts_of_coins_are_those_of_a_binomial_with_a_fractional_number() -> None:
    p, effect = np.linspace(0.95, 0.99, 200), 7.0
    coins = binned_coins(np.column_stack([1 - p, p]), np.ones(200))
    found = count_p_values(coins, np.array([35.0, 165.0]), effect)
    trials, misses = 200 / effect, 35 / effect
    np.testing.assert_allclose(found, 2 * betainc(misses, trials - misses + 1, 1 - p.mean()), rtol=0.15)


def test_six_rows_do_not_prove_that_sure_predictions_are_right() -> None:
    p = np.array([1e-9, 1e-12, 1e-20, 1e-9, 1 - 1e-9, 1 - 1e-12])
    table = calibration_in_the_large([0, 0, 0, 0, 1, 1], p)
    assert table.ratio[1] == pytest.approx(1.0)
    # None of six rows misses: up to 39 % could (Clopper and Pearson, one-sided), and two cases then be one or four.
    share = 1 - 0.05 ** (1 / 6)
    assert table.low[1] < 2 / (2 + 4 * share)
    assert table.high[1] > 1 / (1 - share)


def test_coins_whose_complement_rounds_to_one_are_certain() -> None:
    # Ten coins of 1e-20 and ten of a half, of which two show: as if the first ten were not there.
    coins = np.array([[[10.0, 10.0], [10 * 1e-20, 5.0]]])
    np.testing.assert_allclose(count_p_values(coins, np.array([2.0])), 2 * binom.cdf(2, 10, 0.5))


def wilson_by_search(f: float, n: float, level: float) -> list[float]:
    """Frequencies from which `f` is just so many standard deviations away."""
    z = norm.ppf((1 + level) / 2)
    ends = [(0.0, f), (f, 1.0)]
    return [brentq(lambda o: (f - o) ** 2 - z**2 * o * (1 - o) / n, *pair, xtol=1e-14) for pair in ends]


# What is left to chance: that of the predictions, that which labels show, all, or one row that turns out otherwise.
@pytest.mark.parametrize(
    ("two", "rate"), [((0.1, 0.6), 0.1), ((0.05, 0.9), 0.1), ((0.1, 0.6), 0.9), ((0.001, 0.98), 0.0)]
)
@pytest.mark.parametrize("size", [1, 3])
def test_intervals_of_counts_are_wilsons_with_what_is_left_to_chance(
    two: tuple[float, float], rate: float, size: int
) -> None:
    rng = np.random.default_rng(6)
    p, each = np.resize(two, 24), rng.uniform(0.5, 1.5, 24)
    y = np.where(rng.random(24) < rate, p < 0.5, p > 0.5).astype(int)
    proba = np.column_stack([1 - p, p])
    data = Sample(proba, y, each, None if size == 1 else np.arange(24) // size)
    found, effects = class_frequencies(data, 0.9), design_effects(data)
    assert (effects.max() > 1) == (size > 1)
    coins = binned_coins(proba, each)
    for column, q in enumerate(proba.T):
        hit, expected = y == column, each @ q
        left = max(each @ (q * (1 - q)), each @ (hit - q) ** 2, 1.0)
        share = expected / each.sum()
        left = min(left / (each.sum() * share * (1 - share)), 1.0)
        ends = wilson_by_search(each @ hit / each.sum(), each.sum() / left / effects[column], 0.9)
        assert found.ratio[column] == pytest.approx(expected / (each @ hit))
        assert (found.high[column], found.low[column]) == pytest.approx([share / end for end in ends], rel=1e-9)
        gap = gap_of_ratio(found, column)
        gaps = [share - each @ hit / each.sum(), share - ends[1], share - ends[0]]
        assert (gap.value, gap.low, gap.high, gap.level) == pytest.approx((*gaps, 0.9), abs=1e-9)
        one = coins[column : column + 1], np.array([each @ hit])
        p_values = [count_p_values(*one, effect)[0] for effect in (1.0, effects[column])]
        assert found.p_value[column] == pytest.approx(max(p_values), rel=1e-12)


def test_a_class_that_is_neither_predicted_nor_seen_is_as_frequent_as_expected() -> None:
    table = calibration_in_the_large([0, 1], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], classes=[0, 1, 2])
    assert (table.ratio[2], table.low[2], table.p_value[2]) == (1, 0, 1)
    assert table.level == 0.95
