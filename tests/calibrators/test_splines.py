"""Spline and CDF-spline calibration, against direct optimisation and beside splinecalib and probmetrics."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from calibrant import CalibrationWarning
from calibrant.calibrators.binary.splines import CDFSplineCalibrator, SplineCalibrator, second_derivatives
from calibrant.steps.lines import evaluate_spline
from tests.needs import needs
from tests.samples import binary_sample, columns, mean_log_loss, quiet

GRID = np.random.default_rng(1).random(2000)


def test_natural_spline_is_that_of_scipy():
    rng = np.random.default_rng(0)
    knots, values = np.sort(rng.random(8)), rng.normal(size=8)
    reference = CubicSpline(knots, values, bc_type="natural")
    m = second_derivatives(knots, values)
    x = np.linspace(knots[0], knots[-1], 101)
    np.testing.assert_allclose(evaluate_spline(x, knots, values, m), reference(x), atol=1e-12)
    np.testing.assert_allclose(evaluate_spline(x, knots, values, m, derivative=True), reference(x, 1), atol=1e-9)
    outside = np.array([knots[0] - 1.0, knots[-1] + 2.0])
    line = values[[0, -1]] + reference(knots[[0, -1]], 1) * [-1.0, 2.0]
    np.testing.assert_allclose(evaluate_spline(outside, knots, values, m), line, atol=1e-12)


def truncated_powers(x, knots):
    """The natural spline basis of Hastie, Tibshirani and Friedman, section 5.2.1."""

    def d(k):
        cubes = np.maximum(x - knots[k], 0) ** 3 - np.maximum(x - knots[-1], 0) ** 3
        return cubes / (knots[-1] - knots[k])

    return np.column_stack([np.ones_like(x), x, *(d(k) - d(len(knots) - 2) for k in range(len(knots) - 2))])


@pytest.mark.parametrize("strength", [1e-3, 1e-1, 10.0])
def test_spline_minimises_the_penalised_log_loss(strength):
    p, y = binary_sample(300, wave=0.5)
    ours = SplineCalibrator(lambdas=[strength], n_knots=6, prior_weight=1e-9).fit(p, y)
    basis = truncated_powers(np.log(p / (1 - p)), ours.knots_)

    def objective(beta):
        z = basis @ beta
        gradient = basis.T @ (1 / (1 + np.exp(-z)) - y) / len(y) + 2 * strength / len(beta) * beta
        return np.mean(np.logaddexp(0, z) - y * z) + strength / len(beta) * beta @ beta, gradient

    best = minimize(objective, np.zeros(basis.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    expected = truncated_powers(np.log(GRID / (1 - GRID)), ours.knots_) @ best.x
    np.testing.assert_allclose(ours.predict_proba(GRID)[:, 1], 1 / (1 + np.exp(-expected)), atol=2e-4)


@pytest.mark.peer
@pytest.mark.parametrize(("n", "distance"), [(500, 0.03), (5000, 0.01), (20000, 0.005)])
def test_spline_beside_splinecalib(n, distance):
    package = needs("splinecalib")
    p, y = binary_sample(n)
    test, labels = binary_sample(50_000, seed=9)
    with quiet():
        peer = package.SplineCalib()
        peer.fit(p.copy(), y)
        expected = peer.calibrate(test)
    ours = SplineCalibrator().fit(p, y).predict_proba(test)[:, 1]
    # The peer draws its knots at random, tries one fold and fits to four fifths of the rows.
    assert np.mean(np.abs(ours - expected)) < distance
    assert mean_log_loss(ours, labels) < mean_log_loss(expected, labels) + 1e-4


def test_spline_prior_pulls_to_the_diagonal():
    p, y = binary_sample(400)
    distance = [
        np.abs(SplineCalibrator(prior_weight=w, lambdas=[1e-4]).fit(p, y).predict_proba(GRID)[:, 1] - GRID).max()
        for w in (1.0, 400.0, 1e6)
    ]
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 0.01


@pytest.mark.peer
@pytest.mark.parametrize("n", [20, 300, 3000])
def test_cdf_spline_beside_probmetrics(n):
    peers = needs("probmetrics.calibrators.splines")
    p, y = binary_sample(n)
    p = p.astype(np.float32).astype(float)  # the peer's precision
    grid = GRID.astype(np.float32).astype(float)
    grid = grid[(grid > p.min()) & (grid < p.max())]
    expected = peers.CDFSplineCalibrator().fit(columns(p), y).predict_proba(columns(grid))[:, 1]
    ours = CDFSplineCalibrator().fit(p, y).predict_proba(grid)[:, 1]
    np.testing.assert_allclose(ours, np.clip(expected, 0, 1), atol=1e-4)


def test_cdf_spline_does_not_depend_on_the_order_of_ties():
    p, y = binary_sample(400)
    p = np.round(p, 1)
    order = np.argsort(y)
    a = CDFSplineCalibrator().fit(p, y).predict_proba(GRID)
    b = CDFSplineCalibrator().fit(p[order], y[order]).predict_proba(GRID)
    np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("distinct", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [2, 3, 7, 12, 40])
def test_cdf_spline_heeds_labels_of_few_distinct_predictions(n, distinct):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p = rng.choice(rng.uniform(0.05, 0.95, distinct), size=n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            seen, unseen = (CDFSplineCalibrator(classes=[0, 1]).fit(p, np.full(n, label)) for label in (1, 0))
        assert seen.predict_proba(p)[:, 1].mean() > p.mean() > unseen.predict_proba(p)[:, 1].mean()


def test_cdf_spline_finds_the_shares_of_two_predictions():
    p = np.repeat([0.3, 0.6], 500)
    y = np.concatenate([np.arange(500) < 400, np.arange(500) < 100])
    q = CDFSplineCalibrator(n_knots=12, classes=[False, True]).fit(p, y).predict_proba([0.3, 0.6])[:, 1]
    np.testing.assert_allclose(q, [0.8, 0.2], atol=0.03)


@pytest.mark.parametrize("repeats", [2, 9, 200])
def test_cdf_spline_with_weights_is_that_of_repeated_rows(repeats):
    p, y = binary_sample(40)
    p = np.round(p, 1)
    weighted = CDFSplineCalibrator().fit(p, y, sample_weight=np.full(40, float(repeats))).predict_proba(GRID)
    np.testing.assert_allclose(
        weighted, CDFSplineCalibrator().fit(np.repeat(p, repeats), np.repeat(y, repeats)).predict_proba(GRID), atol=1e-9
    )
