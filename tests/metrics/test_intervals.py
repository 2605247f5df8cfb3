"""Bootstrap intervals: coverage, agreement with the bootstrap of SciPy, and the interface."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from scipy.stats import beta, norm
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import t as student_t

import calibrant.metrics
from calibrant.confidence import student_stretch, wilson_interval
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import (
    Estimate,
    Running,
    RunningMetrics,
    calibration_loss,
    confidence_interval,
    decompose,
    evaluate,
    expected_calibration_error,
    list_metrics,
    log_loss,
)
from calibrant.metrics.intervals import bootstrap, interval
from calibrant.metrics.scalars import SCALARS
from calibrant.sample import Sample

from .conftest import Flatten

Data = tuple[np.ndarray, np.ndarray]
#: Samples of which the share that is covered is counted.
RUNS = 80


@pytest.mark.parametrize("name", sorted(list_metrics()))
def test_every_scalar_has_an_interval(name: str, multiclass: Data) -> None:
    y, p = multiclass
    options: dict = {"method": Flatten()} if "method" in signature(SCALARS[name].prepare).parameters else {}
    estimate = confidence_interval(name, y, p, n_resamples=60, **options)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.high - estimate.low > 1e-4
    assert estimate.value == SCALARS[name].function(y, p, **options)
    again = confidence_interval(SCALARS[name].function, y, p, n_resamples=60, **options)
    assert again == estimate


def test_every_scalar_is_a_function_of_its_name() -> None:
    for name, entry in SCALARS.items():
        assert getattr(calibrant.metrics, name) is entry.function
        assert name in calibrant.metrics.__all__


@pytest.mark.parametrize("metric", ["ece", "kuiper"])
def test_intervals_of_distances_allow_for_events_that_few_groups_lack(metric: str) -> None:
    # Five groups of ten rows that share their risk, 4 % on average where 1 % is predicted: many samples hold no event.
    rng, groups, held = np.random.default_rng(11), np.repeat(np.arange(5), 10), []
    for run in range(60):
        y = (rng.random(50) < rng.beta(0.2, 4.8, 5)[groups]).astype(int)
        found = confidence_interval(
            metric, y, np.full(50, 0.01), n_resamples=50, random_state=run, groups=groups, classes=[0, 1]
        )
        held.append(found.low <= 0.03 <= found.high)
    assert np.mean(held) >= 0.9


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
        ours = confidence_interval("log_loss", y, p, sample_weight=given)
        theirs = confidence_interval(foreign, y, p, sample_weight=given, n_resamples=500)
        # Of a function nothing is known about what was not seen, and resamples have other random numbers.
        width = ours.high - ours.low
        assert theirs.value == pytest.approx(ours.value)
        assert theirs.low == pytest.approx(ours.low, abs=0.1 * width)
        assert theirs.high == pytest.approx(ours.high, abs=0.1 * width)


def coverage(metric: str, truth: float, distort, n_rows: int, **options) -> float:
    rng = np.random.default_rng(1)
    inside = 0
    for run in range(RUNS):
        p = rng.random(n_rows)
        y = (rng.random(n_rows) < p).astype(int)
        estimate = confidence_interval(metric, y, distort(p), n_resamples=99, level=0.9, random_state=run, **options)
        inside += estimate.low <= truth <= estimate.high
    return inside / RUNS


def test_coverage_of_a_mean() -> None:
    # E (p - y)² = E p (1 - p) = 1/6 for uniform calibrated scores.
    assert 0.84 <= coverage("brier", 1 / 6, lambda p: p, 200) <= 0.96


def test_coverage_of_a_biased_distance() -> None:
    # Scores 0.25 + p/2 are off by |p - 1/2| / 2, on average 1/8; the bins hide next to nothing of it.
    assert 0.84 <= coverage("ece", 0.125, lambda p: 0.25 + p / 2, 300, n_bins=10) <= 0.99
    # Calibrated scores have no error at all, though every sample shows one.
    assert coverage("ece", 0.0, lambda p: p, 300, n_bins=10) >= 0.85


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
    percentile = confidence_interval("brier", y, p, interval_kind="percentile", n_resamples=99)
    basic = confidence_interval("brier", y, p, interval_kind="basic", n_resamples=99)
    assert basic.low == pytest.approx(2 * basic.value - percentile.high)
    assert basic.high == pytest.approx(2 * basic.value - percentile.low)


def test_correction_of_distances_by_hand() -> None:
    replicates = np.linspace(0.202, 0.398, 99)  # the fifth of 99 is the 5 % point: 5 / (99 + 1)
    found = interval(0.29, replicates, level=0.9, kind="corrected", lower=0.0, upper=1.0)
    excess = np.mean(replicates**2) - 0.29**2
    assert found.low == pytest.approx(np.sqrt(0.21**2 - 2 * excess))
    assert found.high == pytest.approx(0.29 + 0.39 - 0.3)
    assert interval(0.1, replicates, level=0.9, kind="corrected").low == 0.0


@pytest.mark.parametrize("units", [np.inf, 5.0])
def test_intervals_of_replicates_by_hand(units: float) -> None:
    # The second and the eighteenth of nineteen are the 10 % and the 90 % points; what is no number does not count.
    replicates = np.append(np.arange(1.0, 20) ** 2, np.nan)
    low, high, value, stretch = 4.0, 324.0, 50.0, student_stretch(0.8, units)
    for kind, ends in (("percentile", (low, high)), ("basic", (100 - high, 100 - low))):
        found = interval(value, replicates, level=0.8, kind=kind, units=units)
        assert (found.value, found.level) == (value, 0.8)
        assert found.low == pytest.approx(value - stretch * (value - ends[0]))
        assert found.high == pytest.approx(value + stretch * (ends[1] - value))
    # No excess, so that the lower end is the percentile; the upper one leaves out by how much the median is above.
    found = interval(200.0, replicates, level=0.8, kind="corrected", units=units)
    assert found.low == pytest.approx(200 - stretch * 196)
    assert found.high == pytest.approx(200 + stretch * (324 - 100))
    cut = interval(value, replicates, level=0.8, lower=10.0, upper=60.0)
    assert (cut.low, cut.high) == (10, 60)
    for outside, ends in ((2.0, (2, 324)), (400.0, (4, 400))):
        one = interval(outside, replicates, level=0.8)
        assert (one.low, one.high) == ends
    for unknown in (interval(np.nan, replicates, level=0.8), interval(1.0, np.full(3, np.nan), level=0.8)):
        assert np.isnan([unknown.low, unknown.high]).all()


def test_resamples_of_one_function_and_of_several_are_the_same() -> None:
    data = Sample(np.full((4, 2), 0.5), np.array([0, 1, 0, 1]))
    several = bootstrap([lambda c: c[0], lambda c: c.sum()], data, n_resamples=3, random_state=1)
    one = bootstrap(lambda c: np.array([c[0], c.sum()]), data, n_resamples=3, random_state=1)
    assert several.shape == (3, 2)
    np.testing.assert_array_equal(several, one)
    with pytest.raises(ValueError, match="n_resamples must be at least 2, got 1"):
        bootstrap(lambda c: c, data, n_resamples=1, random_state=0)
    assert bootstrap(lambda c: c, data, n_resamples=2, random_state=0).shape == (2, 4)


def test_rows_without_weight_are_absent_from_functions_and_intervals() -> None:
    y, p, weight = np.array([0, 1, 1, 0, 1]), np.array([0.2, 0.6, 0.9, 0.4, 0.1]), np.array([1.0, 1, 1, 1, 0])

    def foreign(y: np.ndarray, p: np.ndarray, sample_weight: np.ndarray) -> float:
        assert len(y) == len(p) == len(sample_weight) == 4
        return float(sample_weight @ (y - p) / sample_weight.sum())

    options = {"n_resamples": 20, "level": 0.8}
    for metric in (foreign, "brier", "ece", "auroc"):
        found = confidence_interval(metric, y, p, sample_weight=weight, **options)
        assert found == confidence_interval(metric, y[:4], p[:4], sample_weight=weight[:4], **options)
    whole = confidence_interval(foreign, y[:4], p[:4], **options)
    basic = confidence_interval(foreign, y[:4], p[:4], interval_kind="basic", **options)
    assert whole.low < whole.value < whole.high
    assert (basic.low + whole.high, basic.high + whole.low) == pytest.approx((2 * whole.value, 2 * whole.value))


def test_bad_requests(multiclass: Data) -> None:
    y, p = multiclass
    with pytest.raises(ValueError, match="unknown metric 'ece-15'; there are"):
        confidence_interval("ece-15", y, p)
    with pytest.raises(ValueError, match="level"):
        confidence_interval("ece", y, p, level=95, n_resamples=2)
    with pytest.raises(ValueError, match="n_resamples"):
        confidence_interval("ece", y, p, n_resamples=0)
    with pytest.raises(ValueError, match="interval_kind"):
        confidence_interval("ece", y, p, interval_kind="bca")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not among the metrics"):
        evaluate(y, p, ["brier"], options={"ece": {}})
    with pytest.raises(TypeError, match="bins"):
        confidence_interval(expected_calibration_error, y, p, bins=5)


def test_a_single_row_or_group_has_no_interval() -> None:
    with pytest.warns(CalibrationWarning, match="amount to 1 independent observations"):
        found = confidence_interval("brier", [0, 1, 1], [0.1, 0.6, 0.9], sample_weight=[1, 0, 0], n_resamples=20)
    assert found.value == pytest.approx(0.01)
    assert np.isnan([found.low, found.high]).all()
    with pytest.warns(CalibrationWarning, match="at least 2"):
        evaluate([0, 1, 1], [0.1, 0.6, 0.9], ["brier"], level=0.95, groups=["a", "a", "a"])
    with pytest.warns(CalibrationWarning, match="no interval"):
        assert np.isnan(Running("accuracy").update([0, 1], [0.1, 0.6], groups=[1, 1]).result(0.9).high)


def test_two_rows_have_an_interval() -> None:
    found = confidence_interval("brier", [0, 1], [0.1, 0.6], n_resamples=20)
    assert 0 <= found.low < found.value < found.high


def test_a_count_is_that_many_rows_up_to_resampling_noise(multiclass: Data) -> None:
    y, p = (part[:200] for part in multiclass)
    names = ("log_loss", "auroc", "ece", "kuiper")
    counted = evaluate(y, p, names, level=0.9, sample_weight=np.full(200, 3.0), n_resamples=2000)
    written = evaluate(np.repeat(y, 3), np.repeat(p, 3, axis=0), names, level=0.9, n_resamples=2000)
    for name in names:
        width = written[name].high - written[name].low
        assert counted[name].value == pytest.approx(written[name].value, rel=1e-12)
        assert counted[name].low == pytest.approx(written[name].low, abs=0.08 * width), name
        assert counted[name].high == pytest.approx(written[name].high, abs=0.08 * width), name


def test_a_class_that_was_not_seen_raises_the_upper_end() -> None:
    # Without a positive, Jeffreys' upper end of the share is the quantile of Beta(1/2, n + 1/2).
    p = np.full(100, 0.01)
    found = evaluate(np.zeros(100, dtype=int), p, ["accuracy", "log_loss"], level=0.95, classes=[0, 1])
    share = beta.ppf(0.975, 0.5, 100.5)
    assert found["accuracy"].low == pytest.approx(1 - share, abs=0.006)
    assert found["accuracy"].high == 1.0
    assert found["log_loss"].high == pytest.approx(-share * np.log(0.01), rel=0.25)


def test_classes_of_probability_zero_may_occur() -> None:
    p = np.repeat([[1.0, 0.0]], 60, axis=0)
    found = confidence_interval("log_loss", np.zeros(60, dtype=int), p, classes=[0, 1])
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.high > 0.5


def test_running_intervals_stay_inside_the_range() -> None:
    found = RunningMetrics(["accuracy", "log_loss", "brier"]).update([0, 1, 1, 0], [0.1, 0.9, 0.99, 0.2]).result(0.95)
    low, _ = wilson_interval(np.array([1.0]), np.array([4.0]), 0.95)
    assert (found["accuracy"].low, found["accuracy"].high) == (pytest.approx(low[0]), 1.0)
    assert all(0 <= found[name].low < found[name].high for name in ("log_loss", "brier"))
    assert found["brier"].high <= 2.0


def test_few_groups_stretch_intervals_like_students() -> None:
    rng = np.random.default_rng(0)
    p, groups = rng.random(60), np.repeat(np.arange(6), 10)
    y = (rng.random(60) < p).astype(int)
    wide = confidence_interval("brier", y, p, groups=groups)
    narrow = confidence_interval("brier", y, p)
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)
    t = student_t.ppf(0.975, 5) / norm.ppf(0.975)
    assert student_stretch(0.95, 6) == pytest.approx(t * np.sqrt(7 / 5))


def test_metrics_that_groups_do_not_change_refuse_them(multiclass: Data) -> None:
    y, p = multiclass
    with pytest.raises(TypeError, match="does not depend on groups"):
        log_loss(y, p, groups=y)
    assert "groups" not in signature(log_loss).parameters
    assert "groups" in signature(calibration_loss).parameters
    groups = np.arange(len(y)) // 10
    assert calibration_loss(y, p, groups=groups) == calibration_loss(y, p, blocks=10)
    assert decompose(y, p, groups=groups).calibration == pytest.approx(calibration_loss(y, p, blocks=10))
