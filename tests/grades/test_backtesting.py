"""Backtests of grades against SciPy and statsmodels, on tumours and on made-up portfolios; counts, groups and words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest, chi2_contingency
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant import MasterScale
from calibrant.grades.backtesting import equal_rates, rate_interval, rate_tests
from calibrant.inputs.samples import check_sample
from tests.needs import needs

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def cancer() -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    p = cross_val_predict(GaussianNB(), X, y, method="predict_proba")[:, 1]
    return y, np.clip(p, 1e-6, 1 - 1e-6)  # closer to 1 the order of summing a mean decides


@pytest.fixture(scope="module")
def portfolio() -> Data:
    """Probabilities of default as banks have them, calibrated."""
    rng = np.random.default_rng(3)
    p = rng.beta(0.6, 20, 4000)
    return (rng.random(4000) < p).astype(int), p


def test_tests_of_each_grade_like_scipy_and_statsmodels(cancer: Data) -> None:
    y, p = cancer
    scale = MasterScale.from_quantiles(p, 5)
    proportion = needs("statsmodels.stats.proportion")
    for alternative in ("greater", "less", "two-sided"):
        found = scale.backtest(y, p, alternative=alternative)
        for g in range(len(scale)):
            rows = scale.index(p) == g
            n, d, pd = int(rows.sum()), int(y[rows].sum()), p[rows].mean()
            assert (found.observations[g], found.observed[g]) == (n, d)
            assert found.probability[g] == pytest.approx(pd)
            tails = {side: binomtest(d, n, pd, alternative=side).pvalue for side in ("greater", "less")}
            tails["two-sided"] = min(1.0, 2 * min(tails.values()))  # binomtest sums likelihoods that are smaller
            assert found.binomial[g] == pytest.approx(tails[alternative], abs=1e-10)
            share = beta.cdf(pd, d + 0.5, n - d + 0.5)
            wanted = {"greater": share, "less": 1 - share, "two-sided": 2 * min(share, 1 - share)}
            assert found.jeffreys[g] == pytest.approx(wanted[alternative], abs=1e-10)
            ends = proportion.proportion_confint(d, n, 0.05, method="beta")
            np.testing.assert_allclose((found.low[g], found.high[g]), ends, atol=1e-10)
    everyone = binomtest(int(y.sum()), len(y), p.mean(), alternative="greater").pvalue
    assert scale.backtest(y, p).total["binomial"] == pytest.approx(everyone, abs=1e-9)


def test_hosmer_lemeshow_over_grades_by_its_formula(portfolio: Data) -> None:
    y, p = portfolio
    scale = MasterScale([0.005, 0.02, 0.06], probabilities=[0.002, 0.012, 0.035, 0.1])
    found = scale.backtest(y, p)
    n, d, pd = found.observations, found.observed, scale.probabilities
    assert found.hosmer_lemeshow.statistic == pytest.approx(np.sum((d - n * pd) ** 2 / (n * pd * (1 - pd))))
    np.testing.assert_allclose(found.probability, pd)
    np.testing.assert_allclose(scale.backtest(y, p, against="predictions").expected.sum(), p.sum())


def test_equal_rates_like_the_chi_squared_test_of_a_table() -> None:
    y = np.repeat([0, 1, 0, 1], [14_800, 200, 9_850, 150])
    second = np.repeat([False, True], [15_000, 10_000])
    data = check_sample(y, np.full(len(y), 0.1))
    table = [[14_800, 200], [9_850, 150]]
    assert equal_rates(data, second) == pytest.approx(chi2_contingency(table, correction=False).pvalue, abs=1e-10)
    few = check_sample([0, 0, 0, 1, 1, 1], [0.1] * 6)
    halves = np.array([0, 0, 0, 1, 1, 1], dtype=bool)
    assert equal_rates(few, halves) == pytest.approx(2 / 64, abs=0.03)  # all or none of three at a rate of one half
    assert equal_rates(check_sample([0, 0], [0.1, 0.2], classes=[0, 1]), np.array([False, True])) == 1.0
    assert np.isnan(equal_rates(few, np.zeros(6, dtype=bool)))


def test_homogeneity_and_order_are_seen() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.4, 6000)
    scale = MasterScale([0.2])
    y = (rng.random(6000) < p).astype(int)
    found = scale.backtest(y, p)
    assert found.homogeneity.max() < 1e-4  # twice the cases in the upper half of both grades
    assert "Rates differ inside a grade: 1, 2." in found.summary()
    assert found.next_grade[0] < 1e-4
    assert np.isnan(found.next_grade[1])
    assert not found.inversions
    turned = scale.backtest((rng.random(6000) < 0.4 - p).astype(int), p)
    assert turned.inversions == [("1", "2")]
    assert "The worse grade has the lower rate: 1 and 2." in turned.summary()
    flat = scale.backtest((rng.random(6000) < 0.2).astype(int), p)
    assert "Not enough evidence that these neighbours differ: 1 and 2." in flat.summary()


def test_weights_repeat_rows_and_groups_count_once(portfolio: Data) -> None:
    y, p = portfolio[0][:400], portfolio[1][:400]
    scale = MasterScale([0.01, 0.05], probabilities=[0.005, 0.02, 0.08])
    weight = np.random.default_rng(0).integers(0, 3, 400)
    weighed = scale.backtest(y, p, sample_weight=weight, classes=[0, 1])
    repeated = scale.backtest(np.repeat(y, weight), np.repeat(p, weight), classes=[0, 1])
    for name in ("observations", "observed", "binomial", "jeffreys", "low", "high"):
        np.testing.assert_allclose(getattr(weighed, name), getattr(repeated, name), err_msg=name)
    copies = np.repeat(np.arange(400), 10)
    plain, grouped = (scale.backtest(y[copies], p[copies], groups=groups) for groups in (None, copies))
    once = scale.backtest(y, p)
    assert np.all(grouped.binomial >= plain.binomial)
    assert np.all(grouped.high - grouped.low > 2 * (plain.high - plain.low))
    np.testing.assert_allclose(grouped.high, once.high, atol=0.02)


def test_one_class_of_many() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.3, 2, 4], 900)
    y = np.array(["x", "y", "z"])[(p.cumsum(axis=1) < rng.random((900, 1))).sum(axis=1)]
    scale = MasterScale([0.05, 0.2])
    found, pair = scale.backtest(y, p, pos_label="x"), scale.backtest(y == "x", p[:, 0])
    np.testing.assert_allclose(found.binomial, pair.binomial)
    assert found.label == "x"


def test_lights_and_words() -> None:
    scale = MasterScale([0.01], ["A", "B"], [0.005, 0.02])
    p = np.repeat([0.005, 0.02], [1000, 1000])

    def told(first: int, second: int, **options: object) -> tuple:
        y = np.zeros(2000, dtype=int)
        y[:first], y[1000 : 1000 + second] = 1, 1
        found = scale.backtest(y, p, **options)
        return found.light, found.summary(), found.table()

    light, words, table = told(5, 20)
    assert light == ("green", "green")
    assert words.startswith("2 grades with 2,000 observations: 25 cases expected, 25 observed (binomial p = 0.")
    assert (
        "All grades are green: not enough evidence of more cases than expected, which does not prove them right."
        in words
    )
    assert "yellow or red with probability 5.0% at most, and some of 2 with 10%; red with 1.0%." in words
    assert table[1][:6] == ["A", "0.50%", "1,000", "5", "5", "0.50%"]
    light, words, _ = told(10, 40)
    assert light == ("yellow", "red")
    assert "Red: B (20 expected, 40 observed).\nYellow: A (5 expected, 10 observed)." in words
    assert told(10, 40, correlation=0.12)[0] == ("green", "green")
    assert told(0, 0)[0] == ("green", "green")
    assert told(0, 0, alternative="less")[0] == ("red", "red")
    assert "Lights look for fewer cases than expected." in told(0, 0, alternative="less")[1]
    assert "Lights look for more or fewer cases than expected." in told(0, 0, alternative="two-sided")[1]


def test_an_empty_grade_says_nothing() -> None:
    found = MasterScale([0.01], probabilities=[0.005, 0.1]).backtest([0, 0, 0, 0, 0, 1], [0.1] * 6)
    assert found.light == ("", "green")
    assert found.summary().startswith("1 grade with 6 observations: 0.6 cases expected, 1 observed")
    assert found.table()[1][3:] == ["0", "0", "", "", "", "", ""]
    assert found.to_dict()["light"].tolist() == ["", "green"]
    assert found.low_default(level=0.5)[0] == pytest.approx(beta.ppf(0.5, 2, 5))


def test_design_effects_make_tests_no_sharper() -> None:
    plain, grouped = rate_tests(12, 400, 0.01, "greater"), rate_tests(12, 400, 0.01, "greater", effect=4.0)
    assert grouped[0] > plain[0]
    assert grouped[1] > plain[1]
    assert rate_interval(0, 10, 0.95)[0] == 0.0
    assert rate_interval(10, 10, 0.95)[1] == 1.0


def test_levels_of_the_two_tests_are_those_of_the_documentation() -> None:
    """Exact sizes at a nominal 5 %, over a part of the probabilities of the page."""
    found = []
    for n in (50, 200, 1000):
        for pd in np.geomspace(3e-4, 0.3, 40):
            d = np.flatnonzero(binom.pmf(np.arange(n + 1), n, pd) > 1e-12)
            rejected = np.array([rate_tests(float(count), n, pd, "greater") for count in d]) <= 0.05
            found.append((n * pd, *(binom.pmf(d, n, pd) @ rejected)))
    expected, exact, jeffreys = np.array(found).T
    assert exact.max() <= 0.05
    assert 0.14 < jeffreys.max() < 0.163
    assert jeffreys[expected > 5].max() < 0.073
    assert 0.045 < jeffreys.mean() < 0.06
