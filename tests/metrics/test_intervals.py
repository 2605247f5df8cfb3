"""Bootstrap intervals: coverage, agreement with the bootstrap of SciPy, and the interface."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

from calibrant.metrics import (
    Estimate,
    confidence_interval,
    evaluate,
    expected_calibration_error,
    list_metrics,
    log_loss,
)
from calibrant.metrics.scalars import SCALARS

from .conftest import Flatten

Data = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("name", sorted(list_metrics()))
def test_every_scalar_has_an_interval(name: str, multiclass: Data) -> None:
    y, p = multiclass
    options: dict = {"calibrator": Flatten()} if "calibrator" in signature(SCALARS[name].prepare).parameters else {}
    estimate = confidence_interval(name, y, p, n_resamples=60, **options)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.high - estimate.low > 1e-4
    assert estimate.value == SCALARS[name].function(y, p, **options)
    again = confidence_interval(SCALARS[name].function, y, p, n_resamples=60, **options)
    assert again == estimate


def test_like_scipys_percentile_bootstrap(multiclass: Data) -> None:
    y, p = multiclass
    rows = -np.log(p[np.arange(len(y)), y])
    theirs = scipy_bootstrap(
        (rows,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    ours = confidence_interval("log_loss", y, p, n_resamples=4000)
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.06 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.06 * width)


def test_functions_of_the_user(multiclass: Data) -> None:
    y, p = multiclass
    weight = np.random.default_rng(0).random(len(y))

    def foreign(y_true: np.ndarray, y_prob: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        return log_loss(y_true, y_prob, sample_weight=sample_weight)

    for given in (None, weight):
        ours = confidence_interval("log_loss", y, p, n_resamples=50, sample_weight=given)
        theirs = confidence_interval(foreign, y, p, n_resamples=50, sample_weight=given)
        assert theirs.low == pytest.approx(ours.low)
        assert theirs.high == pytest.approx(ours.high)


def coverage(metric: str, truth: float, distort, n_rows: int, **options) -> float:
    rng = np.random.default_rng(1)
    inside = 0
    for run in range(120):
        p = rng.random(n_rows)
        y = (rng.random(n_rows) < p).astype(int)
        estimate = confidence_interval(metric, y, distort(p), n_resamples=150, level=0.9, random_state=run, **options)
        inside += estimate.low <= truth <= estimate.high
    return inside / 120


def test_coverage_of_a_mean() -> None:
    # E (p - y)² = E p (1 - p) = 1/6 for uniform calibrated scores.
    assert 0.84 <= coverage("brier", 1 / 6, lambda p: p, 200) <= 0.96


def test_coverage_of_a_biased_distance() -> None:
    # Scores 0.25 + p/2 are off by |p - 1/2| / 2, on average 1/8; the bins hide next to nothing of it.
    assert 0.84 <= coverage("ece", 0.125, lambda p: 0.25 + p / 2, 500, n_bins=10) <= 0.99
    # Calibrated scores have no error at all, though every sample shows one.
    assert coverage("ece", 0.0, lambda p: p, 500, n_bins=10) >= 0.85


def test_evaluate_shares_resamples(multiclass: Data) -> None:
    y, p = multiclass
    many = evaluate(y, p, ["brier", "ece"], level=0.8, n_resamples=40, options={"ece": {"n_bins": 5}})
    assert many["brier"] == confidence_interval("brier", y, p, level=0.8, n_resamples=40)
    assert many["ece"] == confidence_interval("ece", y, p, level=0.8, n_resamples=40, n_bins=5)
    plain = evaluate(y, p, ["brier", "ece"], options={"ece": {"n_bins": 5}})
    assert plain == {name: estimate.value for name, estimate in many.items()}


def test_seeds(multiclass: Data) -> None:
    y, p = multiclass
    first, again, other = (confidence_interval("brier", y, p, n_resamples=30, random_state=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert float(first) == first.value
    assert str(Estimate(0.25, 0.1, 0.5, 0.95)) == "0.25 [0.1, 0.5]"


def test_methods(multiclass: Data) -> None:
    y, p = multiclass
    percentile = confidence_interval("brier", y, p, method="percentile", n_resamples=99)
    basic = confidence_interval("brier", y, p, method="basic", n_resamples=99)
    assert basic.low == pytest.approx(2 * basic.value - percentile.high)
    assert basic.high == pytest.approx(2 * basic.value - percentile.low)


def test_correction_of_distances_by_hand() -> None:
    from calibrant.metrics.intervals import interval

    replicates = np.linspace(0.2, 0.4, 101)
    found = interval(0.29, replicates, level=0.9, method="corrected", lower=0.0, upper=1.0)
    excess = np.mean(replicates**2) - 0.29**2
    assert found.low == pytest.approx(np.sqrt(0.21**2 - 2 * excess))
    assert found.high == pytest.approx(0.29 + 0.39 - 0.3)
    assert interval(0.1, replicates, level=0.9, method="corrected").low == 0.0


def test_bad_requests(multiclass: Data) -> None:
    y, p = multiclass
    with pytest.raises(ValueError, match="unknown metric 'ece-15'; there are"):
        confidence_interval("ece-15", y, p)
    with pytest.raises(ValueError, match="level"):
        confidence_interval("ece", y, p, level=95, n_resamples=2)
    with pytest.raises(ValueError, match="n_resamples"):
        confidence_interval("ece", y, p, n_resamples=0)
    with pytest.raises(ValueError, match="method"):
        confidence_interval("ece", y, p, method="bca")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not among the metrics"):
        evaluate(y, p, ["brier"], options={"ece": {}})
    with pytest.raises(TypeError, match="bins"):
        confidence_interval(expected_calibration_error, y, p, bins=5)


def test_weight_on_a_single_row() -> None:
    estimate = confidence_interval("brier", [0, 1, 1], [0.1, 0.6, 0.9], sample_weight=[1, 0, 0], n_resamples=20)
    assert estimate.low == estimate.high == pytest.approx(0.01)
