"""The classifier with costs: scikit-learn's own checks, and thresholds of scikit-learn on top of ours."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from calibrant import CalibratedClassifier, CostSensitiveClassifier, DecisionRule
from calibrant.decisions import decision_cost


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """On small data several threads of BLAS only wait for one another."""
    with threadpool_limits(1):
        yield


class MostProbable(CostSensitiveClassifier):
    """Costs for any number of classes, as the checks need them: all errors cost the same."""

    def fit(self, X, y, **fit_params):
        k = len(np.unique(np.asarray(y)))
        self.costs = 1 - np.eye(max(k, 2))
        try:
            return super().fit(X, y, **fit_params)
        finally:
            self.costs = None


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MostProbable(LogisticRegression(max_iter=20))])
def test_conformance(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return train_test_split(X, y, random_state=0, stratify=y)


def test_decisions_are_the_rules(cancer):
    X, fresh, y, truth = cancer
    model = CostSensitiveClassifier(CalibratedClassifier(GaussianNB(), "ts"), false_positive=20, false_negative=1)
    model.fit(X, y)
    np.testing.assert_array_equal(model.predict(fresh), model.predict_proba(fresh)[:, 1] > 20 / 21)
    rule = model.rule_
    assert decision_cost(truth, model.predict_proba(fresh), rule).value == np.mean(
        np.where(model.predict(fresh) == 1, 20 * (truth == 0), truth == 1)
    )


def test_actions_and_names_of_classes(cancer):
    X, fresh, y, _ = cancer
    names = np.array(["malignant", "benign"])
    rule = DecisionRule(
        {"benign": {"malignant": 20}, "malignant": {"benign": 1}, "ask": 0.4}, classes=["malignant", "benign"]
    )
    model = CostSensitiveClassifier(GaussianNB(), rule).fit(X, names[y])
    assert model.rule_.classes == ["benign", "malignant"]
    p = model.predict_proba(fresh)[:, 1]
    expected = np.where(p < 0.02, "benign", np.where(1 - p < 0.4, "malignant", "ask"))
    np.testing.assert_array_equal(model.predict(fresh), expected)
    with pytest.raises(ValueError, match="'ask' is not a class, so actions have no accuracy"):
        model.score(fresh, expected)


def test_thresholds_of_scikit_learn_work_on_top(cancer):
    X, fresh, y, _ = cancer
    model = CalibratedClassifier(GaussianNB(), "ts")
    fixed = FixedThresholdClassifier(model, threshold=0.2, response_method="predict_proba").fit(X, y)
    np.testing.assert_array_equal(fixed.predict(fresh), model.fit(X, y).predict_proba(fresh)[:, 1] >= 0.2)
    tuned = TunedThresholdClassifierCV(model, cv=3).fit(X, y)
    assert 0 <= tuned.best_threshold_ <= 1


def test_wrong_costs_fail_in_fit(cancer):
    X, _, y, _ = cancer
    with pytest.raises(ValueError, match="costs for 3 classes, there are 2"):
        CostSensitiveClassifier(GaussianNB(), 1 - np.eye(3)).fit(X, y)
    with pytest.raises(ValueError, match="either costs, or false_positive"):
        CostSensitiveClassifier(GaussianNB()).fit(X, y)
