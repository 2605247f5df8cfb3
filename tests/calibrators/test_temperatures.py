"""Temperature scaling as first published, beside torch, and ensemble temperature scaling, beside probmetrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant.calibrators.scaling.temperature import TemperatureScalingCalibrator
from calibrant.calibrators.scaling.temperature_variants import ETSCalibrator, GuoTemperatureScalingCalibrator
from tests.needs import needs
from tests.samples import mean_log_loss, quiet, sharpened


@pytest.mark.torch
@pytest.mark.parametrize(("k", "temperature"), [(2, 3.0), (3, 0.5), (10, 2.0), (4, 30.0), (3, 1.5)])
def test_guo_takes_the_steps_of_torch(k, temperature):
    torch = needs("torch")
    p, y = sharpened(700, k, power=temperature)
    p = np.clip(p, 1e-30, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    logits, labels = torch.log(torch.tensor(p)), torch.tensor(y)
    parameter = torch.nn.Parameter(torch.full((1,), 1.5, dtype=torch.float64))
    optimizer = torch.optim.LBFGS([parameter], lr=0.01, max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits / parameter, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    ours = GuoTemperatureScalingCalibrator().fit(p, y)
    assert ours.temperature_ == pytest.approx(parameter.item(), rel=1e-9)


def test_guo_stops_before_the_optimum_where_the_optimum_is_far():
    p, y = sharpened(700, 3, power=10.0)
    guo = GuoTemperatureScalingCalibrator().fit(p, y)
    best = TemperatureScalingCalibrator(smoothing=False).fit(p, y)
    assert guo.n_iter_ == 50
    assert guo.temperature_ < 0.5 / best.inverse_temperature_


def noisy_sample(k):
    """Overconfident predictions with some labels drawn at random: all three parts of the mixture are needed."""
    p, y = sharpened(1500, k, power=2.0)
    rng = np.random.default_rng(7)
    return p, np.where(rng.random(1500) < 0.2, rng.integers(k, size=1500), y)


@pytest.mark.peer
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize(("loss", "peer_loss"), [("brier", "mse"), ("log", "ce")])
def test_ets_beside_probmetrics(loss, peer_loss, k):
    with quiet():
        peers = needs("probmetrics.calibrators.temperature_scaling")
        p, y = noisy_sample(k)
        peer = peers.ETSCalibrator(peer_loss).fit(p, y)
        expected = peer.predict_proba(p)
    ours = ETSCalibrator(loss=loss).fit(p, y)
    assert ours.inverse_temperature_ == pytest.approx(1 / peer.t_, abs=1e-4)
    np.testing.assert_allclose(ours.predict_proba(p), expected, atol=1e-3)

    def score(q):
        return mean_log_loss(q, y) if loss == "log" else ((q - np.eye(k)[y]) ** 2).sum(axis=1).mean()

    assert score(ours.predict_proba(p)) <= score(expected) + 1e-8


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_ets_weights_are_the_best_on_the_simplex(loss):
    p, y = noisy_sample(4)
    ours = ETSCalibrator(loss=loss).fit(p, y)
    assert ours.weights_.min() >= 0
    scaled = p**ours.inverse_temperature_
    scaled /= scaled.sum(axis=1, keepdims=True)

    def score(w):
        q = w[0] * scaled + w[1] * p + w[2] / 4
        return mean_log_loss(q, y) if loss == "log" else ((q - np.eye(4)[y]) ** 2).sum(axis=1).mean()

    for start in np.eye(3) * 0.94 + 0.02:
        result = minimize(lambda v: score(np.exp(v) / np.exp(v).sum()), np.log(start), method="Nelder-Mead")
        assert score(ours.weights_) <= result.fun + 1e-7
