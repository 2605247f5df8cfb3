"""The contents of a report: right numbers, never in-sample, a verdict that fits the data."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from calibrant import get_calibrator
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import brier, evaluate, log_loss
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.result_types import Estimate
from calibrant.report.analysis import Source, analyse, backtested
from calibrant.report.comparison import HeldOut, choose, compare, cross_validate, paired_intervals
from calibrant.sample import Sample
from calibrant.workflows.evaluating import metric_names, metrics_in_memory

from .conftest import sharpened

SOURCE = Source("data.csv", ("data.csv", "--label", "the label"))


def test_overconfidence_is_found_and_mended(overconfident: Sample) -> None:
    report = analyse(overconfident, list("abcd"), SOURCE, methods=["ts", "sms"])
    gap = overconfident.proba.max(axis=1).mean() - (overconfident.proba.argmax(axis=1) == overconfident.y).mean()
    assert report.verdict.tone == "bad"
    assert re.fullmatch(r"Claims [\d.]+%, right [\d.]+%: over-confident", report.verdict.headline)
    assert any(f"over-confident by {100 * gap:.1f} percentage points" in text for text in report.verdict.sentences)
    assert report.verdict.sentences[-1].startswith("With all 1,000 rows calibration saves about ")
    assert report.test_before.p_value < 0.01 < report.test_after.p_value
    rows = {row.name: row for row in report.metrics}
    assert rows["log_loss"].before.value == pytest.approx(log_loss(overconfident.y, overconfident.proba))
    assert rows["log_loss"].after.value < rows["log_loss"].before.value
    assert report.correction is not None
    # The predictions are the true probabilities to the power of two.
    assert report.correction.temperature == pytest.approx(2.0, abs=0.25)
    for part in report.parts:
        assert part.calibration.value + part.refinement.value == pytest.approx(part.total.value)
    assert "calibrant fit data.csv --label 'the label'" in report.steps[0].command


def test_timid_predictions_are_called_so() -> None:
    report = analyse(sharpened(1500, 3, 0.5), [0, 1, 2], SOURCE, methods=["ts"])
    assert "under-confident" in report.verdict.headline


def test_calibrated_predictions_are_left_alone() -> None:
    report = analyse(sharpened(1500, 3, 1.0), [0, 1, 2], SOURCE, methods=["ts", "svs"])
    assert report.verdict.tone == "good"
    assert "Use the probabilities unchanged" in report.steps[0].text


@pytest.mark.parametrize("n", [6, 300])
def test_the_gap_has_the_interval_of_its_metric(n: int) -> None:
    rng = np.random.default_rng(1)
    y = np.resize([0, 1, 0], n)
    p = np.where(y == 1, 1 - 1e-9, 1e-9) if n == 6 else rng.uniform(0.05, 0.95, n)
    data = Sample(np.column_stack([1 - p, p]), y, classes=np.arange(2))
    report = analyse(data, [0, 1], SOURCE, methods=["ts"])
    found = next(row.before for row in report.metrics if row.name == "positive_gap")
    # What the command evaluate shows; other resamples give nearly the same.
    assert found == metrics_in_memory(data, 0.95, metric_names(2))["positive_gap"]
    alone = evaluate(y, p, ["positive_gap"], level=0.95)["positive_gap"]
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.15 * (alone.high - alone.low))
    assert found.high - found.low > 0.5 / np.sqrt(n)


@pytest.mark.parametrize(("p", "off"), [(0.97, False), (0.955, True)])
def test_the_gap_of_one_class_agrees_with_its_ratio(p: float, off: bool) -> None:
    y = np.ones(98, dtype=int)
    data = Sample(np.column_stack([np.full(98, 1 - p), np.full(98, p)]), y, classes=np.arange(2))
    gap, ratio = metrics_in_memory(data, 0.95, ["positive_gap"])["positive_gap"], class_frequencies(data)
    assert gap.value == pytest.approx(p - 1)
    assert (gap.high < 0) == (ratio.high[1] < 1) == off
    # Wilson's interval of the share that was always observed.
    assert gap.high == pytest.approx(p - 98 / (98 + 1.959964**2))


@pytest.mark.parametrize(("scores", "there"), [([0.3], "is 1 grade"), ([0.2, 0.7], "are 2 grades")])
def test_fewer_grades_than_asked_for_are_told(scores: list[float], there: str) -> None:
    p = np.resize(scores, 40)
    data = Sample(np.column_stack([1 - p, p]), np.arange(40) % 2, classes=np.arange(2))
    with pytest.warns(CalibrationWarning, match=f"there {there} instead of 5: equal predictions share a grade"):
        assert len(backtested(data, 5, 0.95).grades) == len(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backtested(data, len(scores), 0.95)


def test_after_is_never_in_sample() -> None:
    # Isotonic regression on noise looks wonderful where it was fitted, and is bad elsewhere.
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 300)
    data = Sample(np.column_stack([1 - p, p]), rng.integers(0, 2, 300), None, classes=np.arange(2))
    report = analyse(data, ["no", "yes"], SOURCE, methods=["isotonic"])
    in_sample = get_calibrator("isotonic").fit(data.proba, data.y).predict_proba(data.proba)
    after = next(row for row in report.metrics if row.name == "log_loss").after.value
    assert after > log_loss(data.y, in_sample) + 0.02
    held_out, _ = cross_validate(data, ["isotonic"])
    assert after == pytest.approx(log_loss(data.y, held_out[0].data.proba))


@pytest.mark.usefixtures("every_resample")
def test_paired_interval_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(0)
    shared = 5 * rng.standard_normal(2000)
    first, second = shared + 0.1 * rng.standard_normal(2000), shared
    (found,) = paired_intervals(
        (first - second)[:, None], Sample(np.full((2000, 2), 0.5), np.zeros(2000, dtype=int)), 0.95
    )
    error = 1.96 * (first - second).std() / np.sqrt(2000)
    assert found.high - found.low == pytest.approx(2 * error, rel=0.2)


@pytest.mark.usefixtures("every_resample")
def test_the_default_is_recommended_unless_another_is_clearly_better(overconfident: Sample) -> None:
    default = "auto"
    held_out, _ = cross_validate(overconfident, ["ts", default])
    assert choose(overconfident, held_out, 0.95) == default
    assert choose(overconfident, held_out, 0.95, "ts") == "ts"
    # Without the default, calibration is clearly better than the unchanged predictions.
    assert choose(overconfident, held_out[:1], 0.95) == "ts"
    assert choose(overconfident, [], 0.95) == "none"


def test_methods_are_judged_on_two_parts_at_least() -> None:
    one, two = (Sample(np.full((n, 2), 0.5), np.arange(n), classes=np.arange(2)) for n in (1, 2))
    assert cross_validate(one, ["ts"]) == ([], {"ts": "1 row cannot be split into two parts"})
    assert "cannot be split" not in cross_validate(two, ["ts"])[1].get("ts", "")


def test_what_is_compared_and_with_what(overconfident: Sample) -> None:
    held_out, _ = cross_validate(overconfident, ["ts", "isotonic"])
    rows = {row.name: row for row in compare(overconfident, held_out, {"beta": "no luck"}, "ts", 0.95)}
    assert rows["none"].gain_log_loss == rows["none"].gain_brier == Estimate(0.0, 0.0, 0.0, 0.95)
    assert rows["none"].seconds == 0.0
    assert list(rows) == [*sorted(("ts", "isotonic", "none"), key=lambda name: rows[name].log_loss), "beta"]
    losses = {method.name: log_loss(overconfident.y, method.data.proba) for method in held_out}
    losses["none"] = log_loss(overconfident.y, overconfident.proba)
    for name, loss in losses.items():
        assert rows[name].log_loss == pytest.approx(loss)
        assert rows[name].gain_log_loss.value == pytest.approx(losses["none"] - loss, abs=1e-12)
        assert rows[name].behind.value == pytest.approx(loss - losses["ts"], abs=1e-12)
    assert rows["ts"].fitted == 0.8
    assert rows["ts"].gain_brier.value == pytest.approx(
        brier(overconfident.y, overconfident.proba) - brier(overconfident.y, held_out[0].data.proba)
    )
    assert rows["beta"].message == "no luck"


def test_what_cannot_be_stored_is_not_recommended(overconfident: Sample) -> None:
    (good,), _ = cross_validate(overconfident, ["ts"])
    trees = HeldOut("lightgbm", good.data, 0.0)
    assert choose(overconfident, [trees], 0.95) == "none"
    assert choose(overconfident, [trees], 0.95, "lightgbm") == "lightgbm"


def test_weights_count_rows(overconfident: Sample) -> None:
    few = Sample(overconfident.proba[:200], overconfident.y[:200], None, classes=overconfident.classes)
    weight = np.ones(200)
    weight[:50] = 3
    rows = np.repeat(np.arange(200), weight.astype(int))
    weighted = Sample(few.proba, few.y, weight, classes=few.classes)
    repeated = Sample(few.proba[rows], few.y[rows], None, classes=few.classes)
    one, other = (analyse(data, list("abcd"), SOURCE, methods=["ts"]) for data in (weighted, repeated))
    for first, second in zip(one.metrics, other.metrics):
        assert first.before.value == pytest.approx(second.before.value), first.name
    for a, b in zip(one.class_rows, other.class_rows):
        assert a.observed == pytest.approx(b.observed)
        assert a.before.expected == pytest.approx(b.before.expected)
        assert a.before.p_value == pytest.approx(b.before.p_value)


def test_segments_tell_where_it_goes_wrong() -> None:
    good, bad = sharpened(800, 3, 1.0, seed=1), sharpened(800, 3, 2.5, seed=2)
    data = Sample(np.concatenate([good.proba, bad.proba]), np.concatenate([good.y, bad.y]), None, classes=good.classes)
    group = np.array(["good"] * 800 + ["bad"] * 800, dtype=object)
    report = analyse(data, list("abc"), SOURCE, segments=group, segment_name="site", methods=["ts"])
    rows = {row.name: row for row in report.segment_rows}
    assert rows["good"].gap_before.low < 0 < rows["good"].gap_before.high
    assert rows["bad"].gap_before.low > 0.05


def test_a_method_that_fails_is_named_and_the_rest_goes_on(overconfident: Sample) -> None:
    report = analyse(overconfident, list("abcd"), SOURCE, methods=["quadratic", "ts"])
    failed = next(row for row in report.methods if row.name == "quadratic")
    assert failed.message
    assert report.recommended == "ts"


@pytest.mark.parametrize("n_rows", [12, 40])
def test_few_rows_and_absent_classes_give_a_report(n_rows: int) -> None:
    data = sharpened(n_rows, 6, 1.0)
    report = analyse(data, list("abcdef"), SOURCE, methods=["ts", "sms"])
    assert report.size.rows == n_rows


def test_methods_go_by_any_of_their_names(overconfident: Sample) -> None:
    report = analyse(overconfident, list("abcd"), SOURCE, methods=["temperature-scaling", "ts"], method="TS")
    assert {row.name for row in report.methods} == {"none", "ts"}
    assert report.recommended == "ts"


def rows_at_zero() -> tuple[np.ndarray, np.ndarray]:
    """A rare class: half of the rows at exactly 0, of which some have it, and too low high probabilities."""
    p = np.repeat([0.0, 0.02, 0.05, 0.1, 0.6], [1000, 500, 300, 100, 100])
    y = np.zeros(len(p), dtype=int)
    for score, cases in ((0.0, 9), (0.02, 7), (0.05, 9), (0.1, 9), (0.6, 96)):
        y[np.flatnonzero(p == score)[:cases]] = 1
    return p, y


def test_no_direction_is_claimed_that_the_rows_contradict() -> None:
    p, y = rows_at_zero()
    data = Sample(np.column_stack([1 - p, p]), y, classes=np.arange(2))
    judged = analyse(data, ["ok", "fraud"], Source("fraud.csv"), methods=["affine"]).verdict
    said = " ".join([judged.headline, *judged.sentences])
    assert "too extreme" not in said
    assert "high probabilities are too high" not in said
    (slope,) = (one for one in judged.sentences if one.startswith("The slope, "))
    # The lowest band: 9 of 1000 at 0.
    assert "low probabilities are too low (0.0% predicted, 0.90% observed)" in slope
    assert "high probabilities are not too high (" in slope
    assert judged.headline == "The predictions rule out classes that occur"
