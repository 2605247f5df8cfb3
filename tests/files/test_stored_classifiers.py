"""Calibrators of classifiers in files: one that all folds share is one map, for every reader."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant import runtime
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.inputs.words import RequestError
from calibrant.steps.map_documents import canonical, checksum
from calibrant.workflows.loading import load_calibrator


class ScaledDecisions(LogisticRegression):
    """A classifier whose decision values are `factor` times too large."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def decision_function(self, X):
        return self.factor * super().decision_function(X)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calibrator.json"


def rows(n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.array(["ant", "bee", "cat"])[rng.integers(3, size=n)]


@pytest.mark.parametrize(("factor", "ensemble"), [(1.0, "auto"), (1000.0, False)])
def test_one_calibrator_of_all_folds_is_one_map(path, ensemble, factor):
    X, y = rows()
    model = calibrant.CalibratedClassifier(ScaledDecisions(factor), "sigmoid", cv=3, ensemble=ensemble).fit(X, y)
    calibrant.save(model, path)
    document = json.loads(path.read_text())
    assert [type(item) for item in document["map"]] == [dict] + [int] * (len(model.estimators_) - 1)
    assert document["version"] == (2 if len(model.estimators_) > 1 else 1)
    fitted = runtime.load(path)
    # the mean over classifiers of the map of their own decision values
    by_hand = np.mean([fitted.predict_proba(one.decision_function(X)) for one in model.estimators_], axis=0)
    assert_allclose(by_hand, model.predict_proba(X), rtol=0, atol=1e-12)
    scope: dict[str, object] = {}
    exec(calibrant.export(model, to="python"), scope)
    row = model.estimators_[0].decision_function(X)[0]
    assert_allclose(scope["calibrate"](row.tolist()), fitted.predict_proba([row])[0], rtol=0, atol=1e-12)
    loaded, expected = calibrant.load(path), model.predict_proba(X)
    assert len(loaded) == len(model.estimators_)
    model.calibrators_ = loaded
    assert_array_equal(model.predict_proba(X), expected)
    if factor == 1.0:
        assert load_calibrator(path).classes_.tolist() == ["ant", "bee", "cat"]
    else:
        with pytest.raises(RequestError, match=r"scaled first, which this command cannot do: use calibrant\.runtime"):
            load_calibrator(path)


def test_adapted_folds_stay_one_map(path):
    X, y = rows()
    model = calibrant.CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y)
    calibrant.save(calibrant.adapt(model, prior=[0.2, 0.3, 0.5]), path)
    assert [type(item) for item in json.loads(path.read_text())["map"]] == [dict, int, int]


def test_calibrators_of_their_own_are_no_single_map(path):
    X, y = rows()
    model = calibrant.CalibratedClassifier(GaussianNB(), "ts", cv=3, ensemble=True).fit(X, y)
    with pytest.raises(ValueError, match="has 3 calibrators, one for each fold, not a single map"):
        calibrant.export(model, to="python")
    calibrant.save(model, path)
    assert json.loads(path.read_text())["version"] == 1  # nothing is shared: the first version can read it
    with pytest.raises(AttributeError, match=r"calibrators of a CalibratedClassifier, one for each of its 3 folds\."):
        calibrant.load(path).predict_proba(X)
    with pytest.raises(runtime.FileError, match="3 different calibrators of a CalibratedClassifier"):
        runtime.load(path)
    with pytest.raises(RequestError, match=r"holds the 3 calibrators .* ensemble='auto' or ensemble=False"):
        load_calibrator(path)


@pytest.mark.parametrize("number", [1, 7, -1, True, 0.0])
def test_numbers_of_folds_that_lead_nowhere_are_damage(path, number):
    X, y = rows()
    calibrant.save(calibrant.CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y), path)
    document = json.loads(path.read_text())
    document["content"][1] = number
    document["sha256"] = checksum(canonical(document["content"]))
    path.write_text(json.dumps(document))
    with pytest.raises(CalibratorFileError, match="damaged"):
        calibrant.load(path)
