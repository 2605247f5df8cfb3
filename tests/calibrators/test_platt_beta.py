"""Platt scaling and beta calibration, against exact optimisation and beside scikit-learn and betacal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.calibration import _SigmoidCalibration

from calibrant import CalibrationWarning
from calibrant.calibrators.binary.logistic_methods import BetaCalibrator, PlattCalibrator
from tests.needs import needs
from tests.samples import binary_sample, mean_log_loss, quiet

GRID = np.random.default_rng(1).random(1000)


@pytest.mark.parametrize("score", ["probability", "log-odds"])
@pytest.mark.parametrize("weighted", [False, True])
def test_platt_is_that_of_scikit_learn(score, weighted):
    p, y = binary_sample(400)
    weight = np.random.default_rng(2).random(len(p)) + 0.1 if weighted else None

    def of(q):
        return q if score == "probability" else np.log(q / (1 - q))

    peer = _SigmoidCalibration().fit(of(p), y, sample_weight=weight)
    ours = PlattCalibrator(scale=score).fit(p, y, weight)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], peer.predict(of(GRID)), atol=1e-6)


def test_platt_on_log_odds_can_be_the_identity():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    calibrator = PlattCalibrator(scale="log-odds").fit(p, rng.random(200_000) < p)
    assert calibrator.slope_ == pytest.approx(1.0, abs=0.02)
    assert calibrator.intercept_ == pytest.approx(0.0, abs=0.02)


@pytest.mark.peer
@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
@pytest.mark.parametrize("slope", [0.6, 1.5])
def test_beta_beside_betacal(parameters, slope):
    betacal = needs("betacal")
    p, y = binary_sample(3000, slope=slope)
    with quiet():
        peer = betacal.BetaCalibration(parameters).fit(p, y)
        expected = peer.predict(GRID)
        theirs = mean_log_loss(peer.predict(p), y)
    ours = BetaCalibrator(parameters=parameters).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], expected, atol=1e-3)
    assert mean_log_loss(ours.predict_proba(p), y) <= theirs + 1e-12


@pytest.mark.parametrize("case", ["free", "a is zero", "b is zero", "both are zero"])
def test_beta_is_the_constrained_optimum(case):
    rng = np.random.default_rng(4)
    p = rng.uniform(0.02, 0.98, size=400)
    a, b = {"free": (0.8, 0.5), "a is zero": (-1, 1.5), "b is zero": (1.5, -1), "both are zero": (-1, -1)}[case]
    y = (rng.random(400) < 1 / (1 + np.exp(-(a * np.log(p) - b * np.log1p(-p))))).astype(int)

    def loss(theta):
        z = theta[0] * np.log(p) - theta[1] * np.log1p(-p) + theta[2]
        return np.mean(np.logaddexp(0, z) - y * z)

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [0.5, 0.5, 0.0], bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    ours = BetaCalibrator(classes=[0, 1]).fit(p, y)
    assert loss([ours.a_, ours.b_, ours.c_]) <= best.fun + 1e-10
    np.testing.assert_allclose([ours.a_, ours.b_, ours.c_], best.x, atol=2e-4)


def test_beta_does_not_depend_on_the_unit_of_weights():
    p, y = binary_sample(300)
    expected = BetaCalibrator().fit(p, y).predict_proba(GRID)
    for unit in (1e-14, 1e8):
        found = BetaCalibrator().fit(p, y, np.full(len(y), unit)).predict_proba(GRID)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_platt_does_not_take_rounding_for_a_slope():
    # Class 1 never occurs among five rows: the best map is constant, Platt's target 1/(5 + 2) of an unseen label.
    p = np.array([1e-56, 8.6e-18, 7.0e-16, 3e-17, 1e-30])
    with pytest.warns(CalibrationWarning, match="nothing can be learned"):
        calibrator = PlattCalibrator(classes=[0, 1]).fit(p, np.zeros(5, dtype=int))
    np.testing.assert_allclose(calibrator.predict_proba([0.0, 0.5, 1.0])[:, 1], 1.0 / 7.0, rtol=0, atol=1e-9)
