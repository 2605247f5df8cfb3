"""Ranks and tests against SciPy, scikit-posthocs, Demšar's printed tables and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")

from calibrant.bench.study.statistics import (  # noqa: E402
    critical_difference,
    dataset_ranks,
    equal_mass_groups,
    friedman,
    holm,
    mean_interval,
    nemenyi,
    quantiles,
    rank_methods,
    signed_rank_p,
    wilcoxon_holm,
)


def losses(n=20, k=5, seed=0, decimals=12):
    rng = np.random.default_rng(seed)
    return pd.DataFrame((rng.normal(size=(n, k)) + np.arange(k) / 4).round(decimals), columns=list("abcdefgh")[:k])


@pytest.mark.parametrize("decimals", [12, 0])
@pytest.mark.parametrize(("n", "k"), [(20, 5), (6, 3), (50, 8)])
def test_friedman_equals_scipy(n, k, decimals):
    table = losses(n, k, decimals=decimals)
    ours = friedman(dataset_ranks(table))
    theirs = stats.friedmanchisquare(*table.to_numpy().T)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-8)


def test_friedman_of_total_ties_and_too_little():
    assert friedman(dataset_ranks(pd.DataFrame(np.ones((4, 3))))).p_value == 1.0
    assert np.isnan(friedman(dataset_ranks(losses(1, 3))).p_value)
    assert np.isnan(friedman(dataset_ranks(losses(5, 1))).statistic)


@pytest.mark.parametrize("decimals", [12, 0])
def test_nemenyi_equals_scikit_posthocs(decimals):
    posthocs = needs("scikit_posthocs")
    table = losses(15, 6, decimals=decimals)
    theirs = posthocs.posthoc_nemenyi_friedman(table.to_numpy())
    np.testing.assert_allclose(nemenyi(dataset_ranks(table)).to_numpy(), theirs.to_numpy(), atol=1e-9)


# q_0.05 and q_0.10 of Demšar (2006), table 5(a), for 2 to 10 methods.
Q05 = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
Q10 = [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]


@pytest.mark.parametrize(("alpha", "table"), [(0.05, Q05), (0.10, Q10)])
def test_critical_difference_equals_printed_table(alpha, table):
    for k, q in enumerate(table, start=2):
        expected = q * np.sqrt(k * (k + 1) / (6 * 30))
        assert critical_difference(k, 30, alpha) == pytest.approx(expected, rel=6e-4)


def test_critical_difference_and_nemenyi_agree():
    ranks = dataset_ranks(losses(25, 4))
    matrix = nemenyi(ranks)
    mean = ranks.mean()
    for alpha in (0.01, 0.05, 0.2):
        difference = critical_difference(4, 25, alpha)
        for a, b in itertools.combinations(mean.index, 2):
            assert (abs(mean[a] - mean[b]) > difference) == (matrix.loc[a, b] < alpha)


def test_alpha_outside_unit_interval():
    with pytest.raises(ValueError, match="alpha must lie"):
        critical_difference(3, 10, 1.5)


def test_ranks_put_infinity_last_and_share_ties():
    ranks = dataset_ranks(pd.DataFrame({"a": [np.inf], "b": [np.inf], "c": [0.1]}))
    assert ranks.values.tolist() == [[2.5, 2.5, 1.0]]
    with pytest.raises(ValueError, match="drop incomplete"):
        dataset_ranks(pd.DataFrame({"a": [np.nan], "b": [1.0]}))


def brute_force_signed_rank(difference):
    ranks = stats.rankdata(np.abs(difference))
    observed = abs(ranks[difference > 0].sum() - ranks.sum() / 2)
    signs = np.array(list(itertools.product([0, 1], repeat=len(difference))))
    return float((np.abs(signs @ ranks - ranks.sum() / 2) >= observed - 1e-9).mean())


def test_signed_rank_equals_enumeration():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 9))
    assert signed_rank_p(a, b) == pytest.approx(brute_force_signed_rank(a - b))


def test_signed_rank_with_infinite_losses():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 8))
    a, b = np.append(a, [np.inf, np.inf]), np.append(b, [np.inf, 0.0])
    # The tie of two infinities drops out; the one infinite difference has the largest rank.
    difference = np.append(a[:8] - b[:8], 1e9)
    assert signed_rank_p(a, b) == pytest.approx(brute_force_signed_rank(difference))


def test_wilcoxon_holm_is_symmetric_and_holm():
    table = losses(30, 4)
    matrix = wilcoxon_holm(table)
    pairs = list(itertools.combinations(table.columns, 2))
    raw = np.array([stats.wilcoxon(table[a], table[b], method="approx").pvalue for a, b in pairs])
    order = np.argsort(raw)
    running = 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, raw[i] * (len(raw) - place)))
        assert matrix.loc[pairs[i]] == pytest.approx(running)
        assert matrix.loc[pairs[i][::-1]] == pytest.approx(running)


def test_holm_is_never_below_raw_nor_above_bonferroni():
    raw = np.random.default_rng(0).uniform(size=12) ** 3
    adjusted = holm(raw)
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1.0, 12 * raw) + 1e-15).all()


def test_equal_mass_groups_are_optimal():
    rng = np.random.default_rng(4)
    for _ in range(30):
        values = rng.integers(2, 9, size=20)
        group = equal_mass_groups(values, 4)
        distinct = np.unique(values)
        best = min(
            sum(len(np.flatnonzero((values >= lo) & (values < hi))) ** 2 for lo, hi in itertools.pairwise(edges))
            for cuts in itertools.combinations(distinct[1:], min(4, len(distinct)) - 1)
            for edges in [(distinct[0], *cuts, 100)]
        )
        assert sum(np.bincount(group) ** 2) == best
        assert all(len(set(group[values == v])) == 1 for v in distinct)
        assert (np.diff(group[np.argsort(values)]) >= 0).all()


def test_equal_mass_groups_without_ties_differ_by_one():
    assert sorted(np.bincount(equal_mass_groups(np.random.default_rng(0).permutation(65), 4))) == [
        16,
        16,
        16,
        17,
    ]


def test_mean_interval_by_hand():
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    assert mean == 2.0
    assert high - mean == pytest.approx(1.959964 / np.sqrt(3), rel=1e-6)
    assert mean - low == pytest.approx(high - mean)
    assert np.isnan(mean_interval(np.array([]))[0])
    # Two values suffice: their standard deviation is √2, so that the interval reaches 1.96 in both directions.
    assert mean_interval(np.array([1.0, 3.0])) == pytest.approx((2.0, 2.0 - 1.959964, 2.0 + 1.959964), rel=1e-6)
    assert np.isnan(mean_interval(np.array([1.0]))[1:]).all()
    assert mean_interval(np.array([1.0, np.inf]))[0] == np.inf


def test_ranks_leave_out_gaps_and_say_so():
    names = ["benchmark", "dataset", "model", "fold"]
    index = pd.MultiIndex.from_tuples([("b", dataset, "m", "0") for dataset in "xy"], names=names)
    nan = float("nan")
    table = pd.DataFrame({"none": [0.5, 0.6], "ts": [0.4, nan], "sms": [0.3, 0.2], "ms": [nan, nan]}, index=index)
    found = rank_methods(table)
    assert found.mean_ranks.to_dict() == {"sms": 1.0, "ts": 2.0, "none": 3.0}
    assert found.notes == (
        "ms finished no dataset and is not ranked",
        "ranks use 1 of 2 datasets, where all ranked methods finished; datasets with gaps by method: ts (1)",
    )


def test_holm_quantiles_and_groups_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == [0.03, 0.06, 0.06]
    assert quantiles(np.array([0.0, 1.0, np.inf]), [0.25, 1.0]) == [0.0, np.inf]
    assert quantiles(np.array([1.0, 2.0]), [0.5]) == [1.5]
    assert equal_mass_groups(np.array([3, 3, 3, 5, 5, 9, 9, 30]), 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
