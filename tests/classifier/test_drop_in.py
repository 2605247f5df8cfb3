"""scikit-learn's tests of `CalibratedClassifierCV`, run as installed with `CalibratedClassifier` in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GroupKFold, LeaveOneOut
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.fixes import parse_version

from calibrant import CalibratedClassifier, calibrator_info

INTERPOLATION = "interpolates between probabilities, not between decision values"
PREFIT = "cv='prefit', which scikit-learn 1.8 removed, is explained instead"
#: The tests that fail, with the reason: the difference is meant (docs/use.md lists them).
DIFFERENT_ON_PURPOSE = {
    # scikit-learn 1.9: 110 of 113 pass.
    "test_calibration_ensemble_false[isotonic-calibrator1]": INTERPOLATION,
    "test_calibration_ensemble_false[temperature-calibrator2]": "temperature scaling is smoothed",
    "test_calibration_less_classes[True]": "a class that a fold has not seen keeps a positive probability",
    "test_calibration_ensemble_false[isotonic]": INTERPOLATION,  # its name before 1.8
}
# With prefit, 77 of 82 pass in scikit-learn 1.6 and 76 of 85 in 1.7.
if parse_version(sklearn.__version__) < parse_version("1.8"):
    of_prefit = ["test_calibration_prefit[csr_matrix]", "test_calibration_prefit[csr_array]"]
    of_prefit += [f"test_float32_predict_proba[{m}-{w}]" for m in ("sigmoid", "isotonic") for w in (True, False)]
    DIFFERENT_ON_PURPOSE |= dict.fromkeys([*of_prefit, "test_calibration_attributes[clf1-prefit]"], PREFIT)


@pytest.mark.sklearn_suite
def test_the_tests_of_scikit_learn(tmp_path):
    here = Path(__file__)
    (tmp_path / "pytest.ini").write_text("[pytest]\njunit_family = xunit2\n")  # none of this project's settings
    path = os.pathsep.join([str(here.parents[2]), os.environ.get("PYTHONPATH", "")])
    options = ["--pyargs", "sklearn.tests.test_calibration", "-p", "tests.classifier.substitution"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "--junit-xml=result.xml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (tmp_path / "result.xml").exists(), run.stdout + run.stderr
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "result.xml").iter("testcase")}
    ran = {name for name, case in cases.items() if case.find("skipped") is None}
    failed = {name for name in ran if len(cases[name])}
    assert failed == set(DIFFERENT_ON_PURPOSE) & ran, run.stdout[-5000:]
    assert len(ran) > 60  # of older versions, too; 113 of 1.9


def data(n=300, k=2):
    return make_classification(n, 6, n_informative=4, n_classes=k, class_sep=0.6, random_state=0)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("estimator", [LinearSVC(random_state=0), LogisticRegression(), GaussianNB()], ids=str)
def test_sigmoid_of_two_classes_is_theirs(estimator, ensemble):
    X, y = data()
    ours = CalibratedClassifier(estimator, method="sigmoid", ensemble=ensemble).fit(X, y)
    theirs = CalibratedClassifierCV(estimator, method="sigmoid", ensemble=ensemble).fit(X, y)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)  # of their solver


def test_large_decision_values():
    X, y = data(600)
    svm = SGDClassifier(random_state=0, alpha=1e-9).fit(1e3 * X[:300], y[:300])
    assert np.abs(svm.decision_function(1e3 * X)).max() > 1e6
    ours = CalibratedClassifier(FrozenEstimator(svm), "sigmoid").fit(1e3 * X[300:], y[300:])
    theirs = CalibratedClassifierCV(FrozenEstimator(svm), method="sigmoid").fit(1e3 * X[300:], y[300:])
    assert_allclose(ours.predict_proba(1e3 * X), theirs.predict_proba(1e3 * X), atol=1e-5)


def test_defaults():
    X, y = data()
    model = CalibratedClassifier(method="temperature").fit(X, y)
    pairs = model.calibrated_classifiers_
    assert len(pairs) == 5
    assert all(isinstance(pair.estimator, LinearSVC) and len(pair.calibrators) == 1 for pair in pairs)
    assert pairs[0].classes.tolist() == [0, 1]
    assert pairs[0].calibrators[0].beta_ == model.calibrators_[0].inverse_temperature_
    mean = np.mean([pair.predict_proba(X) for pair in pairs], axis=0)
    assert_allclose(mean, model.predict_proba(X), atol=1e-12)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    assert len(CalibratedClassifier(frozen, "ts").fit(X, y).calibrated_classifiers_) == 1
    assert len(CalibratedClassifier(frozen, "ts", ensemble=True, cv=3).fit(X, y).calibrated_classifiers_) == 3


class Unlike(LogisticRegression):
    """A classifier whose probabilities are not those of its decision values."""

    def predict_proba(self, X):
        p = super().predict_proba(X) ** 3
        return p / p.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X):
        return np.log(self.predict_proba(X))


@pytest.mark.parametrize("estimator", [SVC(), Unlike(), GaussianNB()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("name", ["ts", "isotonic", "platt", "platt-logits", "beta"])
def test_every_name_of_a_method_does_the_same(estimator, name):
    X, y = data(120)
    aliases = set(calibrator_info(name).aliases)
    if isinstance(estimator, GaussianNB):
        aliases.discard("sigmoid")  # scikit-learn's word: without decision values it is a sigmoid of the probability
    one = CalibratedClassifier(estimator, name, cv=2).fit(X, y).predict_proba(X)
    for alias in (*aliases, name.upper()):
        np.testing.assert_array_equal(CalibratedClassifier(estimator, alias, cv=2).fit(X, y).predict_proba(X), one)


def test_prefit_is_explained():
    with pytest.raises(ValueError, match="FrozenEstimator"):
        CalibratedClassifier(GaussianNB(), cv="prefit").fit(*data())


def test_folds_too_small_for_a_calibrator():
    X, y = data(30)
    with pytest.raises(ValueError, match=r"LeaveOneOut.*ensemble=False"):
        CalibratedClassifier(GaussianNB(), "ts", cv=LeaveOneOut(), ensemble=True).fit(X, y)
    cv = GroupKFold(30).split(X, y, np.arange(30))
    with pytest.raises(ValueError, match=r"Requesting 30-fold cross-validation.*fold 0 has 1 row"):
        CalibratedClassifier(GaussianNB(), "ts", cv=cv, ensemble=True).fit(X, y)
