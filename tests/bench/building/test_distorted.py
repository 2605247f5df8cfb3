"""Models that are miscalibrated as in practice, each by its own trait, and the suite that is made of them."""

import numpy as np
import pytest

from calibrant.bench.building.catalogue import BINARY
from calibrant.bench.building.models import DISTORTED, eight_bit_logits, eight_bit_softmax, two_decimals
from calibrant.bench.building.suites import SUITES, list_datasets
from tests.needs import needs


@pytest.fixture(scope="module")
def rare():
    """Two overlapping classes, one row in twenty of the second."""
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.05).astype(np.int64)
    return rng.normal(size=(2000, 4)) + 0.7 * y[:, None], y


def predicted(name, X, y, n_classes=2):
    model = DISTORTED[name]
    if model.needs:
        needs(model.needs)
    half = len(y) // 2
    predict = model.fit(X[:half], y[:half], X[half:], y[half:], n_classes, model.default, 0)
    p = predict(X[half:])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)
    return p, y[half:]


@pytest.mark.parametrize("name", ["LR-balanced", "RF-resampled", "LGBM-weighted"])
def test_balancing_predicts_rare_classes_too_often(name, rare):
    p, y = predicted(name, *rare)
    assert p[:, 1].mean() > 1.5 * y.mean()


def test_logistic_regression_with_balanced_classes_expects_half(rare):
    # With an intercept that is not penalised, the weighted mean prediction is the weighted frequency: one half.
    X, y = rare
    model = DISTORTED["LR-balanced"]
    p = model.fit(X, y, X, y, 2, model.default, 0)(X)[:, 1]
    weight = 1.0 / np.bincount(y)[y]
    assert np.average(p, weights=weight) == pytest.approx(0.5, abs=1e-3)


def test_smoothed_labels_move_the_mean_towards_uniform(rare):
    X, _ = rare
    y = np.arange(len(X)) % 10 // 7 + (X[:, 0] > 1)
    model = DISTORTED["LR-smoothed"]
    p = model.fit(X, y, X, y, 3, model.default, 0)(X)
    expected = 0.9 * np.bincount(y, minlength=3) / len(y) + 0.1 / 3
    np.testing.assert_allclose(p.mean(axis=0), expected, atol=1e-3)


def test_naive_bayes_counts_evidence_twice():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, size=4000)
    one = rng.normal(size=(4000, 1)) + y[:, None]
    once, _ = predicted("NB", one, y)
    twice, _ = predicted("NB", np.hstack([one, one]), y)
    log_odds = [np.log(p[:, 1] / p[:, 0]) for p in (once, twice)]
    np.testing.assert_allclose(log_odds[1], 2 * log_odds[0], atol=0.1)


@pytest.mark.parametrize(("name", "steps"), [("KNN", 10), ("BAG5", 5)])
def test_votes_come_in_steps_with_exact_zeros(name, steps, rare):
    p, _ = predicted(name, *rare)
    np.testing.assert_allclose(steps * p, np.round(steps * p), atol=1e-9)
    assert (p == 0).any()


def test_scores_of_support_vectors_for_two_and_more_classes(rare):
    X, y = rare
    assert predicted("SVM", X, y)[0].shape == (1000, 2)
    assert predicted("SVM", X, y + (X[:, 0] > 1), 3)[0].shape == (1000, 3)


def test_what_storing_leaves_of_predictions():
    p = np.random.default_rng(2).dirichlet(np.ones(4), size=200)
    assert set(np.round(100 * two_decimals(p), 9).ravel()) <= set(range(101))
    assert set(np.round(255 * eight_bit_softmax(p), 9).ravel()) <= set(range(256))
    q = eight_bit_logits(p)
    logits = np.log(q / q[:, :1]) / 0.125
    np.testing.assert_allclose(logits, np.round(logits), atol=1e-6)
    # Half a step of two logits is all that is lost.
    assert np.abs(np.log(q / q[:, :1]) - np.log(p / p[:, :1])).max() <= 0.125 + 1e-9


def test_a_third_of_the_suite_is_unseen_for_good():
    suite = SUITES["distorted"]
    unseen = suite.part("unseen")
    assert unseen == ["bird_strikes", "gss_occupation", "storms", "callback", "caravan", "health_insurance", "smoker"]
    assert sorted([*suite.part("open"), *unseen]) == sorted(suite.part("all"))
    assert sum(name in BINARY for name in unseen) == 4
    assert list_datasets("standard", "unseen") == []
    assert (len(list_datasets("distorted")), len(list_datasets("distorted", "unseen"))) == (15, 7)
