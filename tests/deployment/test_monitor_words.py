"""Every sentence of the monitor: when it says it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrant import CalibrationMonitor
from calibrant.deployment.monitoring import findings
from calibrant.deployment.monitoring.findings import Change, Repair
from calibrant.deployment.monitoring.monitor_results import factor, strength
from calibrant.deployment.monitoring.segment_bets import log_shares, segment_names
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.slope import Part
from calibrant.sample import Sample
from tests.deployment.test_monitor import identity, stream
from tests.report.test_verdicts import faults, frequencies


def test_before_the_first_row():
    assert CalibrationMonitor(identity(2), alpha=0.05).summary().splitlines() == [
        "Evidence against the calibrator: 1.00 (none); it starts at 1. The alarm is raised at 20: if the calibrator "
        "is right and rows are independent, that happens with probability 5.0% at most, however often you look.",
        "With labels: 0 rows; in total: 0 rows.",
    ]


def test_one_row():
    first, *_, last = CalibrationMonitor(identity(2)).update([0.9], [1]).summary().splitlines()[:3]
    assert first.startswith("No alarm: not enough evidence for one.")
    assert last == "With labels: 1 row; in total: 1 row."


def test_without_labels_nothing_is_said_of_alarms():
    text = CalibrationMonitor(identity(2), reference=[0.2, 0.5]).observe([0.9]).summary()
    assert not any(line.startswith(("No alarm", "Alarm")) for line in text.splitlines())
    expected = "accuracy 0.9000, log loss 0.3251, Brier score 0.0900"
    assert f"Expected without labels, if the calibrator is right: {expected}." in text
    assert "Predictions show no drift (p-value of the latest batch: 1)." in text


def test_one_group_is_one_observation():
    text = (
        CalibrationMonitor(identity(2)).update(np.full(40, 0.9), np.zeros(40, dtype=int), groups=["a"] * 40).summary()
    )
    assert "With labels: 40 rows in 1 group" in text
    assert "groups are independent" in text
    assert "No alarm" in text


@pytest.mark.parametrize(
    ("p", "hits", "sign"),
    [
        (0.5, 0.62, "1 occurs more often than predicted"),
        (0.5, 0.38, "1 occurs less often than predicted"),
    ],
)
def test_the_strongest_sign_names_the_change(p, hits, sign):
    y = (np.arange(100) < 100 * hits).astype(int)
    text = CalibrationMonitor(identity(2), alpha=1e-6).update(np.full(100, p), y).summary()
    assert f"No alarm: not enough evidence for one. The strongest sign: {sign} (" in text


@pytest.mark.parametrize(("slope", "word"), [(0.5, "extreme"), (2.0, "close to the average")])
def test_a_slope_is_named_before_and_after_the_alarm(slope, word):
    p, y = stream(1500, 2, 0, slope=slope)
    early = CalibrationMonitor(identity(2), alpha=1e-90).update(p, y)
    assert f"The strongest sign: the probabilities are too {word} (" in early.summary()
    assert f"The probabilities are too {word}: the slope is" in CalibrationMonitor(identity(2)).update(p, y).summary()


def test_labels_that_fit_give_no_sign():
    p = np.tile([0.3, 0.7], 500)
    y = (np.arange(1000) // 2 % 10 < np.where(np.arange(1000) % 2, 7, 3)).astype(int)  # exactly as often as predicted
    text = CalibrationMonitor(identity(2)).update(p, y).summary()
    assert "There is no sign of a change, which does not prove that there is none." in text


def test_a_segment_is_part_of_the_sign():
    rng = np.random.default_rng(0)
    p = rng.random(600)
    segments = np.where(np.arange(600) % 6 == 0, "west", "east")
    y = ((rng.random(600) < p) | (segments == "west")).astype(int)
    text = CalibrationMonitor(identity(2), alpha=1e-50).update(p, y, segments).summary()
    assert "occurs more often than predicted in the segment west (" in text


def test_changes_in_words():
    share = Estimate(0.3, 0.25, 0.35, 0.95)
    change = Change("class", "yes", None, 1200, 40, "40 rows, 80 observations", 0.2, share)
    assert str(change) == (
        "yes occurs more often than predicted: 20.0% predicted, 30.0% observed (25.0% to 35.0%); since about row "
        "1,200, measured on 40 rows, 80 observations."
    )
    assert "less often" in str(Change("class", "yes", "west", 0, 9, "9 rows", 0.4, share))
    assert "; since the first row, measured on 9 rows." in str(
        Change("class", "yes", "west", 0, 9, "9 rows", 0.4, share)
    )
    assert str(Change("class", "yes", "west", 0, 9, "9 rows", 0.4, share)).startswith("In the segment west, yes occurs")
    slope = Estimate(0.5, 0.4, 0.6, 0.95)
    assert str(Change("slope", None, None, 3, 9, "9 rows", 1.0, slope)) == (
        "The probabilities are too extreme: the slope is 0.50 (0.40 to 0.60; ideal: 1); since about row 3, measured on "
        "9 rows."
    )
    assert str(Change("slope", None, "west", 3, 9, "9 rows", 1.0, slope)).startswith(
        "In the segment west, the probabilities are too extreme: the slope is 0.50"
    )
    assert "The probabilities point the wrong way: the slope is -1.00 (" in str(
        Change("slope", None, None, 3, 9, "9 rows", 1.0, Estimate(-1.0, -1.2, -0.8, 0.95))
    )
    assert "The probabilities are too extreme: the slope is -0.10 (" in str(
        Change("slope", None, None, 3, 9, "9 rows", 1.0, Estimate(-0.1, -0.5, 0.3, 0.95))
    )
    nothing = Estimate(float("nan"), float("nan"), float("nan"), 0.95)
    assert "The slope changed, since about row 3; there are no recent rows" in str(
        Change("slope", None, None, 3, 0, "0 rows", 1.0, nothing)
    )
    assert "The frequency of yes changed" in str(Change("class", "yes", None, 3, 0, "0 rows", 1.0, nothing))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("prior", "New class frequencies repair it: 0.0100 of log loss saved, estimated from 90 rows in 9 groups."),
        ("temperature", "One temperature repairs it: 0.0100 of log loss saved, estimated from 90 rows in 9 groups."),
        ("refit", "It needs a new fit: 0.0100 of log loss saved, estimated from 90 rows in 9 groups."),
    ],
)
def test_repairs_in_words(kind, text):
    assert str(Repair(kind, identity(2), 0.01, 90, "90 rows in 9 groups", None)) == text
    assert "(for the segment west only)" in str(Repair(kind, identity(2), 0.01, 90, "90 rows", "west"))


def test_one_class_alone_cannot_be_repaired():
    monitor = CalibrationMonitor(identity(2)).update(np.full(200, 0.3), np.zeros(200, dtype=int))
    assert monitor.alarm_
    assert "1 occurs less often than predicted: 30.0% predicted, 0.0% observed" in monitor.summary()
    assert monitor.repair() is None
    assert CalibrationMonitor(identity(2)).repair() is None


def test_drift_says_since_when():
    monitor = CalibrationMonitor(identity(2), reference=np.linspace(0.1, 0.6, 500)).observe(np.linspace(0.1, 0.6, 300))
    assert "Predictions show no drift (p-value" in monitor.summary()
    assert "Predictions drifted, since about row 300 (p-value" in monitor.observe(np.full(300, 0.95)).summary()


NONE, SURE, UNSURE = Part(0.0, 0.5, 0.0), Part(0.02, 0.001, 9.0), Part(0.02, 0.2, 1.0)


@pytest.mark.parametrize(
    ("parts", "kind", "gain"),
    [
        ({}, None, None),
        ({"means": UNSURE, "slope": UNSURE, "rest": UNSURE}, None, None),
        ({"means": SURE}, "prior", 0.02),
        ({"slope": SURE}, "temperature", 0.02),
        ({"means": SURE, "slope": SURE}, "refit", 0.04),
        ({"rest": SURE}, "refit", 0.02),
        ({"means": SURE, "slope": SURE, "rest": Part(-0.01, 0.001, 0.0)}, "refit", 0.04),
        ({"means": SURE, "rest": Part(-0.01, 0.001, 0.0)}, "prior", 0.02),  # significant, but worth nothing
        ({"means": SURE, "rest": Part(0.01, 0.02, 2.0)}, "prior", 0.02),  # more than a linear repair has to be sure
        ({"means": SURE, "slope": Part(0.001, 0.03, 4.0)}, "prior", 0.02),  # a slope by chance: too little to matter
        ({"slope": SURE, "means": Part(0.001, 0.03, 4.0)}, "temperature", 0.02),
    ],
)
def test_the_smallest_repair_is_chosen(parts, kind, gain, monkeypatch):
    found = faults(frequencies([30, 30], [30, 30]), **{"means": NONE, "slope": NONE, "rest": NONE, **parts})
    monkeypatch.setattr(findings, "separate", lambda *_: replace(found, intercepts=np.array([-0.3, 0.3])))
    p, y = stream(60, 2, 0)
    repair = findings.fit_repair(identity(2), Sample(p, y, classes=np.arange(2)), "west")
    if kind is None:
        assert repair is None
        return
    assert (repair.kind, repair.segment, repair.rows, repair.size) == (kind, "west", 60, "60 rows")
    assert repair.gain == pytest.approx(gain)
    if kind == "prior":
        odds = repair.calibrator.predict_proba([0.5])[0]
        assert np.log(odds[1] / odds[0]) == pytest.approx(0.6)
    else:
        names = {"temperature": "TemperatureScalingCalibrator", "refit": "AutoCalibrator"}
        assert type(repair.calibrator.second_).__name__ == names[kind]


def test_an_alarm_says_that_it_stays():
    text = CalibrationMonitor(identity(2)).update(np.full(200, 0.3), np.zeros(200, dtype=int)).summary()
    assert "labelled rows. It stays on: watch a repaired calibrator with a new monitor, or a new --state.\n" in text


def test_few_rows_are_not_repaired(monkeypatch):
    monkeypatch.setattr(findings, "separate", lambda *_: pytest.fail("not to be measured"))
    p, y = stream(19, 2, 0)
    assert findings.fit_repair(identity(2), Sample(p, y, classes=np.arange(2)), None) is None


def test_a_shift_of_the_frequencies_is_not_called_a_slope():
    rng = np.random.default_rng(0)
    z = -1.0 + 1.2 * rng.normal(size=4000)
    y = rng.random(4000) < 1.0 / (1.0 + np.exp(-z - 0.8))
    data = Sample(np.column_stack([1.0 - (p := 1.0 / (1.0 + np.exp(-z))), p]), y.astype(int))
    assert findings.measure("slope", -1, data)[:2] == ("class", 1)
    flat = rng.random(4000) < 1.0 / (1.0 + np.exp(-0.6 * (z + 1.0) + 1.0))
    assert findings.measure("slope", -1, replace(data, y=flat.astype(int)))[:2] == ("slope", -1)
    assert findings.measure("slope", -1, data.take(slice(0, 10)))[:2] == ("slope", -1)  # too few rows to tell


@pytest.mark.parametrize(
    ("kind", "label", "predicted", "observed", "said"),
    [
        ("slope", None, 1.0, (1.0, 0.93, 1.07), "the slope is 1.00 (0.93 to 1.07), where 1.00 is ideal"),
        ("class", "a", 0.3, (0.31, 0.28, 0.34), "the share of a is 31.0% (28.0% to 34.0%), where 30.0% was predicted"),
    ],
)
def test_what_the_latest_rows_do_not_show_is_not_claimed(kind, label, predicted, observed, said):
    change = Change(kind, label, None, 500, 5000, "5,000 rows", predicted, Estimate(*observed, 0.95))
    assert str(change) == (
        f"The latest rows do not clearly show what is wrong: {said}; since about row 500, measured on 5,000 rows."
    )


def test_evidence_in_numbers_and_words():
    assert [factor(value) for value in (0.0, 8.5, 50.0)] == ["1.00", "4,915", "5.2 × 10²¹"]
    evidence = np.log([0.5, 2.0, 5.0, 20.0, 50.0, 200.0])
    words = ["none", "hardly any", "substantial", "strong", "very strong", "decisive"]
    assert [strength(value) for value in evidence] == words


def test_segments_are_named_and_share_the_capital():
    both = segment_names({"region": ["west", "east"], "device": ["phone", "phone"]}, 2, {})[1]
    assert both.tolist() == [["region = west", "device = phone"], ["region = east", "device = phone"]]
    columns, names = segment_names(["west", "east"], 2, {})
    assert (columns, names.tolist()) == (["segment"], [["west"], ["east"]])
    shares = np.exp(list(log_shares(["west", "east"]).values()))
    np.testing.assert_allclose(shares, [2 / 3, 1 / 6, 1 / 18])
