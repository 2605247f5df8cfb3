"""Dirichlet calibration against a general convex solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant import get_calibrator
from calibrant.calibrators.scaling.dirichlet import DirichletCalibrator, DirichletCVCalibrator
from calibrant.folds import stratified_folds
from tests.samples import confused, mean_log_loss, sharpened


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("regularization", ["odir", "l2"])
@pytest.mark.parametrize("normalization", ["none", "mean"])
def test_minimises_the_penalised_log_loss(k, regularization, normalization):
    p, y = sharpened(300, k)
    x, lam, mu = np.log(p), 0.02, 0.05
    off_diagonal = 1.0 - np.eye(k)
    mean = normalization == "mean"

    def objective(theta):
        w, b = theta[: k * k].reshape(k, k), theta[k * k :]
        z = x @ w.T + b
        q = np.exp(z - z.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        residual = (q - np.eye(k)[y]) / len(y)
        value = -np.log(q[np.arange(len(y)), y]).mean()
        gradient = np.concatenate([(residual.T @ x).ravel(), residual.sum(axis=0)])
        if regularization == "odir":
            on_w = lam / (k * (k - 1) if mean else 1) * off_diagonal
            on_b = mu / (k if mean else 1)
        else:
            on_w = np.full((k, k), lam / (k * (k + 1) if mean else 1))
            on_b = lam / (k * (k + 1) if mean else 1)
        value += (on_w * w**2).sum() + on_b * (b**2).sum()
        return value, gradient + 2 * np.concatenate([(on_w * w).ravel(), on_b * b])

    start = np.concatenate([np.eye(k).ravel(), np.zeros(k)])
    best = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000})
    ours = DirichletCalibrator(
        lambda_coef=lam, lambda_intercept=mu, regularization=regularization, normalization=normalization
    ).fit(p, y)
    value, gradient = objective(np.concatenate([ours.coef_.ravel(), ours.intercept_]))
    assert value <= best.fun + 1e-8
    assert ours.objective_ == pytest.approx(value, abs=1e-9)
    assert np.abs(gradient).max() < 1e-3


def test_cross_validation_prefers_strong_penalties_for_few_rows_and_weak_ones_for_many():
    few = DirichletCVCalibrator().fit(*sharpened(60, 4, power=1.0))
    many = DirichletCVCalibrator().fit(*sharpened(8000, 4, power=1.0))
    assert few.lambda_coef_ > many.lambda_coef_


def test_cross_validation_chooses_the_pair_that_predicts_best():
    p, y = sharpened(250, 3)
    lams, mus = [0.1, 1e-4], [0.1, 1e-4]
    chosen = DirichletCVCalibrator(lambdas_coef=lams, lambdas_intercept=mus, regularization="odir", n_folds=3).fit(p, y)
    folds = stratified_folds(y, 3, 0)
    losses = {}
    for lam in lams:
        for mu in mus:
            q = np.empty_like(p)
            for fold in range(3):
                out = folds == fold
                q[out] = (
                    DirichletCalibrator(lambda_coef=lam, lambda_intercept=mu)
                    .fit(p[~out], y[~out])
                    .predict_proba(p[out])
                )
            losses[lam, mu] = mean_log_loss(q, y)
    assert (chosen.lambda_coef_, chosen.lambda_intercept_) == min(losses, key=losses.get)


def test_folds_spread_every_label():
    y = np.repeat([0, 1, 2], [50, 20, 5])
    folds = stratified_folds(y, 5, 0)
    for label in range(3):
        assert np.ptp(np.bincount(folds[y == label], minlength=5)) <= 1


@pytest.mark.parametrize("name", ["dirichlet", "dirichlet-cv"])
@pytest.mark.parametrize("regularization", ["odir", "l2"])
def test_a_fit_says_how_near_its_optimum_it_is(name: str, regularization: str) -> None:
    p, y = confused(400, 3)
    given = {"lambdas_coef": [0.01], "lambdas_intercept": [0.01]} if name == "dirichlet-cv" else {}
    rough, exact = (
        get_calibrator(name, regularization=regularization, tol=tol, **given).fit(p, y) for tol in (1e-2, 1e-13)
    )
    found = exact.residual_ if regularization == "odir" else exact.duality_gap_
    assert 0.0 <= found <= 1e-13
    assert np.isnan(exact.duality_gap_) == (regularization == "odir")
    assert exact.n_iter_ >= rough.n_iter_
    assert 0.0 <= rough.objective_ - exact.objective_ <= 1e-2
