"""Tests that have names: statistics by their published formulas, p-values by scipy, estimates by statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant.inputs.samples import check_sample
from calibrant.metrics import (
    calibration_in_the_large,
    calibration_slope,
    calibration_test,
    cox_calibration,
    expected_observed_ratio,
    hosmer_lemeshow,
    spiegelhalter,
    split_likelihood_ratio,
)
from calibrant.random_numbers import generator
from tests.needs import needs
from tests.samples import draw_labels

from .conftest import Flatten

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def cancer() -> Data:
    """Out-of-fold predictions for 569 tumours from one measurement."""
    X, y = load_breast_cancer(return_X_y=True)
    return y, cross_val_predict(LogisticRegression(max_iter=5000), X[:, 1:2], y, method="predict_proba")[:, 1]


@pytest.fixture(scope="module")
def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return y, cross_val_predict(GaussianNB(var_smoothing=0.1), X, y, method="predict_proba")


def deciles(score: np.ndarray, n_bins: int = 10) -> list[np.ndarray]:
    """Rows of groups of equal size, no two equal scores being parted here."""
    return np.array_split(np.argsort(score, kind="stable"), n_bins)


def test_hosmer_lemeshow_by_its_formula(cancer: Data) -> None:
    y, p = cancer
    coarse = np.repeat(np.arange(1, 11) / 10.5, 50)
    labels = np.random.default_rng(1).random(500) < coarse
    expected = 0.0
    for rows in deciles(coarse):
        o, e, n = labels[rows].sum(), coarse[rows].sum(), len(rows)
        expected += (o - e) ** 2 / (e * (1 - e / n))
    found = hosmer_lemeshow(labels, coarse)
    assert found.statistic == pytest.approx(expected, rel=1e-10)
    uniform = hosmer_lemeshow(y, p, strategy="uniform", n_bins=5)
    by_hand = 0.0
    for bin_ in range(5):
        rows = (p > bin_ / 5) & (p <= (bin_ + 1) / 5)
        for outcome, score in ((y, p), (1 - y, 1 - p)):
            by_hand += (outcome[rows].sum() - score[rows].sum()) ** 2 / max(score[rows].sum(), 1e-300)
    assert uniform.statistic == pytest.approx(by_hand, rel=1e-10)


def test_hosmer_lemeshow_of_many_rows_has_a_chi_square_tail_for_predictions_of_others() -> None:
    rng = np.random.default_rng(4)
    p = rng.uniform(0.05, 0.95, 40_000)
    y = rng.random(40_000) < p
    found = hosmer_lemeshow(y, p)
    assert found.n_resamples == 0
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, 10), rel=1e-10)
    few = hosmer_lemeshow(y[:2000], p[:2000])
    assert few.n_resamples > 0
    assert few.p_value == pytest.approx(stats.chi2.sf(few.statistic, 10), abs=0.1)


def test_hosmer_lemeshow_of_many_classes_is_fagerlands(digits: Data) -> None:
    y, p = digits
    p = (0.9 * p + 0.01).round(6)
    p /= p.sum(axis=1, keepdims=True)
    score, outcome, expected = 1 - p[:, 0], np.eye(10)[y], 0.0
    order = np.sort(score)
    starts = np.searchsorted(order, order) * 10 // len(y)  # a run of equals is in the group where it starts
    for group in range(10):
        rows = np.isin(score, order[starts == group])
        e = p[rows].sum(axis=0)
        if not rows.any():  # more than a tenth of the rows have one score
            continue
        expected += np.sum((outcome[rows].sum(axis=0) - e) ** 2 / e)
    assert hosmer_lemeshow(y, p).statistic == pytest.approx(expected, rel=1e-9)


def test_groups_of_three_classes_are_fixed_ranges_of_what_is_not_the_first() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([4, 2, 2], 300)  # some of the ten ranges are empty
    y, weight = rng.integers(0, 3, 300), rng.integers(1, 4, 300) * 100.0
    group = np.ceil(10 * (1 - p[:, 0])).astype(int)
    by_hand = 0.0
    for rows in (group == one for one in np.unique(group)):
        expected = weight[rows] @ p[rows]
        by_hand += float(np.sum((weight[rows] @ np.eye(3)[y[rows]] - expected) ** 2 / expected))
    found = hosmer_lemeshow(y, p, strategy="uniform", sample_weight=weight)
    assert found[2:] == ("hosmer_lemeshow", "all classes", 0)
    assert found.statistic == pytest.approx(by_hand, rel=1e-9)
    # So many observations that the tail is that of two degrees of freedom for each group with rows.
    assert found.p_value == pytest.approx(stats.chi2.sf(by_hand, 2 * len(np.unique(group))), rel=1e-6)
    assert len(np.unique(group)) < 10


@pytest.mark.parametrize(("expected", "draws"), [(4.9, 399), (5.0, 0)])
def test_counts_below_five_are_judged_by_drawn_labels(expected: float, draws: int) -> None:
    found = hosmer_lemeshow([0, 1], [expected / 2**15] * 2, n_bins=1, sample_weight=[2**15 - 5.0, 5.0])
    assert found.statistic == pytest.approx((5 - expected) ** 2 / expected / (1 - expected / 2**15), abs=1e-9)
    assert found[2:] == ("hosmer_lemeshow", "binary", draws)


def test_a_label_makes_it_one_class_against_the_rest(digits: Data) -> None:
    y, p = digits[0][:400], digits[1][:400]
    for test in (hosmer_lemeshow, spiegelhalter, split_likelihood_ratio):
        assert test(y, p, pos_label=3).statistic == pytest.approx(test(y == 3, p[:, 3]).statistic, rel=1e-9)
    assert cox_calibration(y, p, pos_label=3).slope.value == pytest.approx(calibration_slope(y == 3, p[:, 3]), rel=1e-6)
    with pytest.raises(ValueError, match="no class is labelled 'x'"):
        spiegelhalter(y, p, pos_label="x")


def test_impossible_events_are_rejected() -> None:
    y, p = np.repeat([0, 1], 50), np.repeat([0.0, 0.5], 50)
    y[0] = 1
    assert hosmer_lemeshow(y, p).statistic == np.inf
    assert hosmer_lemeshow(y, p).p_value <= 0.0025
    assert split_likelihood_ratio(y, p).p_value < 1e-3
    certain = spiegelhalter([0, 1, 1, 0], [0.0, 1.0, 1.0, 1.0])
    assert certain.statistic == np.inf
    assert certain.p_value <= 0.0025
    assert spiegelhalter([0, 1], [0.0, 1.0]) == (0.0, 1.0, "spiegelhalter", "binary", 399)


def test_spiegelhalter_by_its_formula(cancer: Data, digits: Data) -> None:
    y, p = cancer
    z = np.sum((y - p) * (1 - 2 * p)) / np.sqrt(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))
    found = spiegelhalter(y, p)
    assert found.statistic == pytest.approx(z, rel=1e-10)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.1)
    y, p = digits
    # The Brier score of a row if class j happens, its mean and its variance under the predictions.
    score = np.sum(p**2, axis=1, keepdims=True) - 2 * p + 1
    mean = np.sum(p * score, axis=1)
    variance = np.sum(p * (score - mean[:, None]) ** 2, axis=1)
    z = np.sum(score[np.arange(len(y)), y] - mean) / np.sqrt(variance.sum())
    assert spiegelhalter(y, p).statistic == pytest.approx(z, rel=1e-9)


def test_spiegelhalter_of_many_rows_has_a_normal_tail() -> None:
    rng = np.random.default_rng(4)
    p = rng.random(40_000)
    y = rng.random(40_000) < p
    found = spiegelhalter(y, p)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(found.statistic)), rel=1e-9)


def test_cox_is_a_logistic_regression_on_log_odds(cancer: Data) -> None:
    sm = needs("statsmodels.api")
    y, p = cancer
    odds = np.log(p / (1 - p))
    family = sm.families.Binomial()
    slope = sm.GLM(y, sm.add_constant(odds), family=family).fit(tol=1e-14)
    large = sm.GLM(y, np.ones(len(y)), offset=odds, family=family).fit(tol=1e-14)
    found = cox_calibration(y, p)
    # The slope has a ridge of 1e-3 nats, so that it is finite for separable data.
    assert found.slope.value == pytest.approx(slope.params[1], abs=2e-4)
    assert found.intercepts[1].value == pytest.approx(large.params[0], abs=1e-8)
    # Score intervals are not Wald's, but close to them with 569 rows.
    assert (found.slope.low, found.slope.high) == pytest.approx(slope.conf_int()[1], abs=0.03)
    assert (found.intercepts[1].low, found.intercepts[1].high) == pytest.approx(large.conf_int()[0], abs=0.02)
    assert found.test.statistic == pytest.approx(calibration_test(y, p, "score").statistic, rel=1e-9)
    score = sm.GLM(y, sm.add_constant(odds), family=family).score_test([0.0, 1.0], k_constraints=2, observed=False)
    assert found.test.statistic == pytest.approx(np.ravel(score[0])[0], rel=1e-8)


def test_cox_of_one_prediction_in_closed_form() -> None:
    for n in (30, 99):
        y, p = np.repeat([0, 1], [100 - n, n]), np.full(100, 0.2)
        given = {"level": 0.9, "classes": [0, 1]}
        shift, ratio = cox_calibration(y, p, **given).intercepts[1], expected_observed_ratio(y, p, **given)
        for found, share in ((shift.value, n / 100), (shift.low, 0.2 / ratio.high), (shift.high, 0.2 / ratio.low)):
            assert found == pytest.approx(logit(share) - logit(0.2), abs=1e-9)
        assert shift.level == ratio.level == 0.9
    certain = cox_calibration([1] * 20, [0.1] * 20, classes=[0, 1]).intercepts[1]
    assert certain.value == certain.high == np.inf
    assert 0 < certain.low < np.inf


@pytest.mark.parametrize("k", [2, 3])
def test_the_joint_test_of_cox_has_as_many_degrees_of_freedom_as_classes(k: int) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(k), 12)
    found = cox_calibration(np.arange(12) % k, p, sample_weight=np.full(12, 3000.0), classes=range(k)).test
    assert found[2:] == ("cox_calibration", "binary" if k == 2 else "all classes", 0)
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, k), rel=1e-9)


def test_cox_of_many_classes_has_an_intercept_of_each(digits: Data) -> None:
    y, p = digits
    found = cox_calibration(y, p)
    assert list(found.intercepts) == list(range(10))
    assert found.slope.value == pytest.approx(calibration_slope(y, p))
    for j, shift in found.intercepts.items():
        q = np.clip(p[:, j], 1e-15, 1 - 1e-15)
        odds = np.log(q / (1 - q)) + shift.value
        assert np.sum(1 / (1 + np.exp(-odds))) == pytest.approx(np.sum(y == j), abs=1e-6)
        assert shift.low <= shift.value <= shift.high


def test_the_intercept_of_a_class_that_never_occurs_is_infinite() -> None:
    found = cox_calibration([0] * 20, [0.1] * 20, classes=[0, 1])
    assert found.intercepts[1].value == found.intercepts[1].low == -np.inf
    assert np.isfinite(found.intercepts[1].high)


def test_expected_to_observed_is_that_of_the_frequencies(digits: Data) -> None:
    y, p = digits
    table = calibration_in_the_large(y, p)
    found = expected_observed_ratio(y, p, pos_label=4)
    assert (found.value, found.low, found.high) == (table.ratio[4], table.low[4], table.high[4])
    assert found.value == pytest.approx(p[:, 4].sum() / np.sum(y == 4))
    assert expected_observed_ratio(y, p).value == table.ratio[9]
    none = expected_observed_ratio([0] * 20, [0.1] * 20, classes=[0, 1])
    assert none.value == none.high == np.inf


def test_an_e_value_is_a_likelihood_ratio(multiclass: Data) -> None:
    """With a map that ignores the labels, every half's e-value is the product of its likelihood ratios."""
    y, p = multiclass
    y, p = y[:40], p[:40]
    flat = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    gain = np.log(flat / p)[np.arange(40), y]
    found = split_likelihood_ratio(y, p, method=Flatten(), n_splits=1, sample_weight=np.ones(40))
    fold = check_sample(y, p).folds(2, generator(0), stratified=False)
    expected = np.mean([np.exp(gain[fold == half].sum()) for half in (0, 1)])
    assert found.statistic == pytest.approx(expected, rel=1e-9)
    assert found.p_value == pytest.approx(min(1.0, 1.0 / expected), rel=1e-9)


def test_e_values_of_groups_are_products_of_means(multiclass: Data) -> None:
    rng = np.random.default_rng(0)
    y, p, weight, groups = multiclass[0][:40], multiclass[1][:40], rng.integers(1, 4, 40), rng.integers(3, 15, 40)
    flat = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    ratio = (flat / p)[np.arange(40), y]
    found = split_likelihood_ratio(y, p, method=Flatten(), n_splits=1, groups=groups, sample_weight=weight)
    fold = check_sample(y, p, weight, groups=groups).folds(2, generator(0), stratified=False)
    products = [1.0, 1.0]
    for group in np.unique(groups):
        rows = groups == group
        products[fold[rows][0]] *= np.average(ratio[rows], weights=weight[rows])
    assert found.statistic == pytest.approx(np.mean(products), rel=1e-9)
    assert found[2:] == ("split_likelihood_ratio", "all classes", 0)


def test_no_evidence_is_a_p_value_of_one_and_much_is_a_finite_number(multiclass: Data) -> None:
    y, p = multiclass[0][:40], multiclass[1][:40] ** 8
    wrong = split_likelihood_ratio(y, p / p.sum(axis=1, keepdims=True), method=Flatten(), sample_weight=[1e3] * 40)
    assert 1e300 < wrong.statistic < np.inf
    assert wrong.p_value == 0.0
    right = split_likelihood_ratio([0, 1] * 10, [0.01, 0.99] * 10, method=Flatten())
    assert right.statistic < 0.5
    assert right.p_value == 1.0


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_an_e_value_of_groups_of_predictions_by_its_definition(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies of one half, pulled towards the predictions, correct the other half, and the other way round."""
    monkeypatch.setattr("calibrant.metrics.named_tests._PRIORS", (3.0,))
    rng = np.random.default_rng(5)
    p, y = rng.dirichlet(np.ones(3), 24), rng.integers(0, 3, 24)
    weight = rng.integers(1, 4, 24).astype(float)
    found = hosmer_lemeshow(y, p, e_test=True, n_bins=2, strategy=strategy, sample_weight=weight, random_state=7)
    assert found[2:] == ("hosmer_lemeshow e-test", "all classes", 0)
    fold = check_sample(y, p, weight).folds(2, generator(7), stratified=False)
    score, evidence = 1 - p[:, 0], []
    for half in (0, 1):
        fitted, judged = np.flatnonzero(fold != half), np.flatnonzero(fold == half)
        edge = 0.5
        if strategy == "quantile":  # the scores between which half of the observations are reached
            order = fitted[np.argsort(score[fitted])]
            before = np.cumsum(weight[order]) - weight[order]
            first = int(np.argmax(before >= weight[fitted].sum() / 2))
            edge = (score[order[first - 1]] + score[order[first]]) / 2
        factors = []
        for rows in (fitted[score[fitted] <= edge], fitted[score[fitted] > edge]):
            n, hits = weight[rows].sum(), weight[rows] @ np.eye(3)[y[rows]]
            factors.append((n * hits / (weight[rows] @ p[rows]) + 3.0) / (n + 3.0))
        moved = p[judged] * np.array(factors)[(score[judged] > edge).astype(int)]
        after = moved[np.arange(len(judged)), y[judged]] / moved.sum(axis=1)
        evidence.append(np.prod((after / p[judged, y[judged]]) ** weight[judged]))
    assert found.statistic == pytest.approx(np.mean(evidence), rel=1e-9)


def test_e_values_are_at_most_one_in_the_mean() -> None:
    """Over all labels of six rows, weighed by their probability, for a map that is fitted to them."""
    p = np.array([0.2, 0.5, 0.7, 0.3, 0.6, 0.8])
    total = 0.0
    for number in range(64):
        y = (number >> np.arange(6)) & 1
        found = hosmer_lemeshow(y, p, n_bins=2, e_test=True, classes=[0, 1], groups=np.arange(6))
        total += float(np.prod(np.where(y == 1, p, 1 - p))) * found.statistic
    assert total == pytest.approx(1.0, abs=1e-9)


def test_e_tests_find_what_is_wrong_and_only_that(digits: Data) -> None:
    y, p = digits
    assert split_likelihood_ratio(y, p).p_value < 1e-10
    assert hosmer_lemeshow(y == 3, p[:, 3], e_test=True).p_value < 0.01
    rng = np.random.default_rng(0)
    drawn = draw_labels(p / p.sum(axis=1, keepdims=True), rng)
    assert split_likelihood_ratio(drawn, p).p_value > 0.05
    assert hosmer_lemeshow(drawn, p, e_test=True).p_value > 0.05


def test_six_rows_and_one_class_are_no_evidence() -> None:
    y, p = [0, 1, 0, 1, 1, 0], [0.2, 0.6, 0.3, 0.7, 0.5, 0.4]
    for test in (hosmer_lemeshow, spiegelhalter):
        assert test(y, p).p_value > 0.2
        assert test([0] * 6, [0.1] * 6, classes=[0, 1]).p_value > 0.2
    assert split_likelihood_ratio([0] * 6, [0.1] * 6, classes=[0, 1]).p_value > 0.2
    with pytest.raises(ValueError, match="n_splits must be positive"):
        split_likelihood_ratio(y, p, n_splits=0)
