"""Metrics of chunks equal the metrics of the whole, and their intervals those of the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import evaluate
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.running import RunningMean, RunningMetrics

from .conftest import sharpened

NAMES = ("log_loss", "brier", "accuracy", "confidence_gap", "ece", "smooth_ece")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_chunks_give_the_metrics_of_the_whole(n_classes: int, weighted: bool) -> None:
    data = sharpened(3000, n_classes, 1.7)
    weight = np.random.default_rng(1).uniform(0.5, 3, 3000) if weighted else None
    running = RunningMetrics()
    for rows in np.array_split(np.arange(3000), 7):
        part = None if weight is None else weight[rows]
        running.add(Forecasts(data.proba[rows], data.y[rows], part, data.classes))
    found = running.estimates(0.95)
    expected = evaluate(data.y, data.proba, NAMES, sample_weight=weight)
    for name in NAMES:
        assert found[name].value == pytest.approx(expected[name], rel=1e-9), name


def test_intervals_agree_with_the_bootstrap() -> None:
    data = sharpened(4000, 3, 1.6)
    running = RunningMetrics()
    running.add(data)
    found = running.estimates(0.95)
    expected = evaluate(data.y, data.proba, NAMES, level=0.95, n_resamples=600)
    for name in NAMES:
        width = expected[name].high - expected[name].low
        assert abs(found[name].low - expected[name].low) < 0.2 * width, name
        assert abs(found[name].high - expected[name].high) < 0.2 * width, name


def test_weighted_mean_has_the_sandwich_standard_error() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(500), rng.uniform(0, 2, 500)
    mean = RunningMean()
    mean.add(x[:200], w[:200])
    mean.add(x[200:], w[200:])
    centre = np.average(x, weights=w)
    error = np.sqrt((w**2 * (x - centre) ** 2).sum()) / w.sum()
    found = mean.estimate(0.95)
    assert found.value == pytest.approx(centre)
    assert found.high - found.value == pytest.approx(1.959964 * error, rel=1e-5)
