"""The additive model and SQS against optimisers and closed forms written here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from calibrant import SMSCalibrator, TemperatureScalingCalibrator
from calibrant.calibrators.auto.additive import KernelFeatures, curves
from calibrant.calibrators.auto.sqs import SQSCalibrator
from tests.samples import curved, mean_log_loss


@pytest.mark.parametrize("k", [2, 4])
def test_sqs_reaches_the_optimum_another_optimiser_finds(k):
    p, y = curved(100, k)
    sqs = SQSCalibrator(strength=0.7, input_smoothing=None, lambda_curves=2.0).fit(p, y)
    ts = TemperatureScalingCalibrator().fit(p, y)
    q = ts.predict_proba(p)
    x = np.log(q)
    features = [x**2 / 5.0, np.log1p(-q), q]
    n = len(y)

    def objective(flat):
        w, b, u = flat[: k * k].reshape(k, k), flat[k * k : k * k + k], flat[k * k + k :].reshape(3, k)
        z = x + x @ w.T + b + sum(g * c for g, c in zip(features, u, strict=True))
        off = np.sum(w**2) - np.sum(np.diag(w) ** 2)
        penalty = k * np.sum(np.diag(w) ** 2) + k * (k - 1) * off + k * np.sum(b**2) + 2.0 * k * np.sum(u**2)
        return -log_softmax(z, axis=1)[np.arange(n), y].mean() + 0.7 * penalty / n

    ours = np.concatenate([sqs.coef_[:, :k].ravel(), sqs.coef_[:, k], sqs.coef_[:, k + 1 :].T.ravel()])
    found = minimize(objective, np.zeros_like(ours), method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6})
    assert objective(ours) <= found.fun + 1e-7


def test_strong_penalty_leaves_temperature_scaling():
    p, y = curved(300, 3)
    ts = TemperatureScalingCalibrator(input_smoothing="auto").fit(p, y)
    sqs = SQSCalibrator(strength=1e9).fit(p, y)
    np.testing.assert_allclose(sqs.predict_proba(p), ts.predict_proba(p), atol=1e-6)


def test_strong_penalty_on_curves_leaves_matrix_scaling():
    p, y = curved(300, 3)
    sms = SMSCalibrator().fit(p, y)
    sqs = SQSCalibrator(strength=1.0, lambda_curves=1e9, input_smoothing=None).fit(p, y)
    np.testing.assert_allclose(sqs.predict_proba(p), sms.predict_proba(p), atol=1e-4)


def test_curves_help_where_the_distortion_is_curved():
    p, y = curved(4000, 4)
    test, labels = curved(4000, 4, seed=1)
    sms = mean_log_loss(SMSCalibrator().fit(p, y).predict_proba(test), labels)
    assert mean_log_loss(SQSCalibrator().fit(p, y).predict_proba(test), labels) < sms - 0.005


def test_averaged_strengths_are_reported():
    p, y = curved(400, 3)
    sqs = SQSCalibrator(n_landmarks=20).fit(p, y)
    assert set(sqs.scores_) == {"100", "10", "1", "0.1"}
    assert 0.1 <= sqs.strength_ <= 100.0
    assert sqs.coef_.shape[1] == 3 + 1 + sqs.whitening_.shape[1] + 3


def test_kernel_features_reproduce_the_kernel_at_the_landmarks():
    x = np.log(np.random.default_rng(0).dirichlet(np.ones(3), size=50)).T
    kernel = KernelFeatures.choose(x, 50, np.random.RandomState(0))
    phi = kernel(x)
    points = np.concatenate([(x - x.mean(axis=0)) / kernel.spread, 3.0 * np.exp(x)]).T
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(phi.T @ phi, np.exp(-distance / kernel.bandwidth), atol=1e-4)


def test_curves_stay_finite_at_certainty():
    x = np.log(np.array([[1.0, 1e-38], [1e-38, 1.0]]))
    assert np.isfinite(curves(x)).all()
