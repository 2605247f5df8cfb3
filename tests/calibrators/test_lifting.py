"""One-vs-rest and one-vs-one: any binary method for any number of classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from calibrant import NoCalibrator, get_calibrator
from calibrant.calibrators.binary.logistic_methods import PlattCalibrator
from calibrant.calibrators.lifting import OneVsOneCalibrator, OneVsRestCalibrator, log_rest
from tests.needs import needs
from tests.samples import quiet, sharpened

WRAPPERS = [OneVsRestCalibrator, OneVsOneCalibrator]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_identity_lifts_to_the_identity(wrapper, k):
    p, y = sharpened(200, k)
    lifted = wrapper(NoCalibrator()).fit(p, y)
    np.testing.assert_allclose(lifted.predict_proba(p), p, atol=1e-9)


@pytest.mark.parametrize(("wrapper", "multiclass"), list(zip(WRAPPERS, ["ovr", "ovo"])))
def test_wrapper_does_what_the_parameter_does(wrapper, multiclass):
    p, y = sharpened(300, 4)
    a = wrapper(PlattCalibrator()).fit(p, y).predict_proba(p)
    b = PlattCalibrator(multiclass=multiclass).fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", ["linear", "affine", "quadratic"])
def test_binary_only_methods_lift(wrapper, name):
    p, y = sharpened(600, 3, power=3.0)
    q = wrapper(get_calibrator(name)).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    rows = np.arange(len(y))
    assert np.log(q[rows, y]).mean() > np.log(p[rows, y]).mean() + 0.05


class Halfway(BaseEstimator):
    """A calibrator of another package: plain fit and predict_proba."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict_proba(self, X):
        q = 0.5 * (X[:, 1] + self.mean_)
        return np.column_stack([1.0 - q, q])


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_foreign_calibrators_lift(wrapper):
    p, y = sharpened(300, 3)
    weight = np.random.default_rng(0).random(300)
    q = wrapper(Halfway()).fit(p, y, weight).predict_proba(p)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    if wrapper is OneVsRestCalibrator:
        mean = np.array([np.average(y == j, weights=weight) for j in range(3)])
        expected = 0.5 * (p + mean)
        np.testing.assert_allclose(q, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


def test_the_rest_is_exact_next_to_one():
    p = np.array([[1.0 - 3e-15, 1e-15, 2e-15], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(np.exp(log_rest(np.log(p)))[0, 0], 3e-15, rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_rest(np.log(p)))[1], 1.0 - p[1], rtol=1e-12)


@pytest.mark.peer
def test_one_vs_one_beside_probmetrics():
    with quiet():
        base = needs("probmetrics.calibrators.base")
        p, y = sharpened(400, 4)
        peer = base.MulticlassOneVsOneCalibrator(PlattCalibrator())
        expected = peer.fit(p, y).predict_proba(p)
    ours = OneVsOneCalibrator(PlattCalibrator()).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_parts_of_a_lifted_calibrator_are_whole_calibrators(wrapper):
    pd = needs("pandas")
    p, y = sharpened(60, 3)
    part = wrapper(PlattCalibrator()).fit(p, y).estimators_[0]
    frame = pd.DataFrame({"rest": [0.4, 0.9], "class": [0.6, 0.1]})
    np.testing.assert_array_equal(part.predict_proba(frame), part.predict_proba(frame.to_numpy()))
    np.testing.assert_array_equal(part.classes_, [0, 1])
