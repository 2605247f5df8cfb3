"""Metrics of chunks equal the metrics of the whole, and their intervals those of the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import evaluate
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.running import RunningMean, RunningMetrics
from tests.samples import sharpened

NAMES = ("log_loss", "brier", "accuracy", "confidence_gap", "ece", "smooth_ece")


def forecasts(n: int, k: int, power: float) -> Forecasts:
    p, y = sharpened(n, k, power)
    return Forecasts(p, y, None, np.arange(k))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_chunks_give_the_metrics_of_the_whole(n_classes: int, weighted: bool) -> None:
    data = forecasts(3000, n_classes, 1.7)
    weight = np.random.default_rng(1).uniform(0.5, 3, 3000) if weighted else None
    running = RunningMetrics()
    for rows in np.array_split(np.arange(3000), 7):
        part = None if weight is None else weight[rows]
        running.add(Forecasts(data.proba[rows], data.y[rows], part, data.classes))
    found = running.result(0.95)
    expected = evaluate(data.y, data.proba, NAMES, sample_weight=weight)
    for name in NAMES:
        assert found[name].value == pytest.approx(expected[name], rel=1e-9), name


def test_intervals_agree_with_the_bootstrap() -> None:
    data = forecasts(4000, 3, 1.6)
    running = RunningMetrics()
    running.add(data)
    found = running.result(0.95)
    expected = evaluate(data.y, data.proba, NAMES, level=0.95, n_resamples=600)
    for name in NAMES:
        width = expected[name].high - expected[name].low
        assert abs(found[name].low - expected[name].low) < 0.2 * width, name
        assert abs(found[name].high - expected[name].high) < 0.2 * width, name


@pytest.mark.parametrize("n_classes", [2, 4])
def test_intervals_on_calibrated_data_agree_with_the_bootstrap_at_both_ends(n_classes: int) -> None:
    data = forecasts(3000, n_classes, 1.0)
    running = RunningMetrics()
    running.add(data)
    found = running.result(0.95)
    expected = evaluate(data.y, data.proba, ("ece", "smooth_ece"), level=0.95, n_resamples=600)
    for name, estimate in expected.items():
        width = estimate.high - estimate.low
        assert found[name].low == pytest.approx(estimate.low, abs=0.15 * width), name
        assert found[name].high == pytest.approx(estimate.high, abs=0.15 * width), name


def test_merged_parts_give_the_metrics_of_the_whole() -> None:
    data = forecasts(900, 3, 1.5)
    whole, merged = RunningMetrics(), RunningMetrics()
    whole.add(data)
    for rows in np.array_split(np.arange(900), 3):
        part = RunningMetrics(classes=range(3))
        part.update(data.y[rows], data.proba[rows])
        merged.merge(part)
    assert merged.rows == 900
    for name, estimate in whole.result().items():
        found = merged.result()[name]
        assert [found.value, found.low, found.high] == pytest.approx([estimate.value, estimate.low, estimate.high])


def test_no_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="no row was taken in"):
        RunningMetrics().result()


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
