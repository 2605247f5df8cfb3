"""Boosted trees as calibrators: they start from the predictions and leave good ones alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from calibrant import get_calibrator
from tests.needs import needs
from tests.samples import mean_log_loss, sharpened

pytestmark = pytest.mark.trees
NAMES = ["lightgbm", "xgboost", "catboost"]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_trees_mend_what_is_wrong(name, k):
    needs(name)
    p, y = sharpened(1000, k, power=3.0)
    test, labels = sharpened(1000, k, seed=5, power=3.0)
    q = get_calibrator(name).fit(p, y).predict_proba(test)
    best = mean_log_loss(test ** (1 / 3) / (test ** (1 / 3)).sum(axis=1, keepdims=True), labels)
    before = mean_log_loss(test, labels)
    assert mean_log_loss(q, labels) < before - 0.7 * (before - best)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_no_trees_are_the_predictions(name, k):
    needs(name)
    p, y = sharpened(40, k, power=1.0)
    calibrator = get_calibrator(name, learning_rate=1e-6, max_rounds=1).fit(p, y)
    u = 1.0 / 41.0
    np.testing.assert_allclose(calibrator.predict_proba(p), (1 - u) * p + u / k, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_named_with_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    p, y = sharpened(40, 2)
    with pytest.raises(ImportError, match=r"\[trees\]"):
        get_calibrator(name).fit(p, y)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_boosting_stops_by_the_log_loss_of_the_rows_held_out(name, k, monkeypatch):
    needs(name)
    calibrator, seen = get_calibrator(name, max_rounds=5, n_folds=2), []
    train = type(calibrator)._train

    def spy(self, rows, held_out, k):
        model = train(self, rows, held_out, k)
        seen.append((model, held_out))
        return model

    monkeypatch.setattr(type(calibrator), "_train", spy)
    p, y = sharpened(120, k, power=3.0)
    calibrator.fit(p, y, np.linspace(0.5, 2.0, 120))
    for model, (features, logits, labels, weight) in seen:
        if name == "lightgbm":
            (best,) = model.best_score["valid_0"].values()
        elif name == "xgboost":
            best = model.best_score
        else:
            (best,) = model[0].get_best_score()["validation"].values()
        z = calibrator._boosted(model, features, logits)
        losses = np.logaddexp.reduce(z, axis=1) - z[np.arange(len(labels)), labels]
        assert best == pytest.approx(np.average(losses, weights=weight), rel=1e-4)
