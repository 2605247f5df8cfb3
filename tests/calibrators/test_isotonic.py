"""Isotonic and centred isotonic regression, beside scikit-learn and cir-model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibrant import get_calibrator
from calibrant.calibrators.binary import isotonic
from calibrant.calibrators.binary.isotonic import CenteredIsotonicCalibrator, IsotonicCalibrator
from tests.needs import needs
from tests.samples import binary_sample, quiet, sharpened

GRID = np.linspace(0, 1, 1001)


@pytest.mark.parametrize("decimals", [16, 2, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_is_that_of_scikit_learn(decimals, weighted):
    p, y = binary_sample(2000)
    p = np.round(p, decimals)
    weight = np.random.default_rng(2).random(len(p)) + 0.1 if weighted else None
    peer = IsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight=weight)
    ours = IsotonicCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], peer.predict(GRID), atol=1e-12)


def test_scipy_may_be_older_than_its_isotonic_regression(monkeypatch):
    p, y = sharpened(60, 2)
    expected = IsotonicCalibrator().fit(p, y).predict_proba(p)
    monkeypatch.setattr(isotonic, "optimize", None)
    assert (IsotonicCalibrator().fit(p, y).predict_proba(p) == expected).all()


def test_isotonic_one_vs_rest_is_that_of_scikit_learn():
    p, y = sharpened(800, 4)
    expected = np.column_stack([IsotonicRegression().fit(p[:, j], y == j).predict(p[:, j]) for j in range(4)])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(IsotonicCalibrator().fit(p, y).predict_proba(p), expected, atol=1e-12)


@pytest.mark.peer
@pytest.mark.parametrize("decimals", [16, 2, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_centered_isotonic_beside_cir_model(decimals, weighted):
    cir = needs("cir_model")
    p, y = binary_sample(2000)
    p = np.round(p, decimals)
    weight = np.random.default_rng(2).random(len(p)) + 0.1 if weighted else None
    with quiet():
        peer = cir.CenteredIsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight=weight)
        expected = peer.transform(GRID)
    ours = CenteredIsotonicCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], expected, atol=1e-9)


def test_centered_isotonic_increases_strictly_between_zero_and_one():
    p, y = binary_sample(2000)
    calibrator = CenteredIsotonicCalibrator().fit(p, y)
    inside = (calibrator.values_ > 0) & (calibrator.values_ < 1)
    inner = np.flatnonzero(inside)[1:-1]
    assert np.all(np.diff(calibrator.values_[inner]) > 0)


@pytest.mark.parametrize("method", ["isotonic", "cir", "venn-abers"])
def test_fractional_weights_do_not_make_the_order_of_rows_matter(method):
    rng = np.random.default_rng(0)
    score, y = rng.integers(0, 7, size=400) / 6.0, rng.integers(0, 2, size=400)
    weight = 1e-6 * rng.integers(1, 4, size=400)
    order = rng.permutation(400)
    one = get_calibrator(method).fit(score, y, sample_weight=weight)
    other = get_calibrator(method).fit(score[order], y[order], sample_weight=weight[order])
    np.testing.assert_array_equal(one.predict_proba(score), other.predict_proba(score))
