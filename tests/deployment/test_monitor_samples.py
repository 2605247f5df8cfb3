"""Counts and groups in the monitor: counts equal copies, groups are bet on as one observation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrant import CalibrationMonitor, CalibrationWarning
from calibrant.deployment.monitoring import history
from calibrant.deployment.monitoring.bets import log_ratios
from calibrant.deployment.monitoring.findings import fit_repair
from calibrant.metrics import accuracy, brier, log_loss
from calibrant.sample import Sample
from tests.deployment.test_monitor import identity, stream

OLD_STATE = Path(__file__).with_name("monitor_state_version_1.json")


def test_a_count_equals_copies_of_the_row():
    p, y = stream(200, 3, 0, odds=[1, 1, 4])
    counts = np.random.default_rng(0).integers(0, 3, 200)
    copies = np.repeat(np.arange(200), counts)
    segments = np.where(np.arange(200) % 2, "a", "b")
    weighted = CalibrationMonitor(identity(3), reference={"P": p, "sample_weight": counts})
    repeated = CalibrationMonitor(identity(3), reference=p[copies])
    for _ in range(4):
        weighted.update(p, y, segments, sample_weight=counts)
        repeated.update(p[copies], y[copies], segments[copies])
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_)
    assert weighted.alarm_
    assert repeated.alarm_
    assert weighted.drift_.p_value == pytest.approx(repeated.drift_.p_value)
    np.testing.assert_allclose(weighted.confusion_, repeated.confusion_)
    for name, found in weighted.performance_.items():
        assert (found.value, found.low, found.high) == pytest.approx(
            (repeated.performance_[name].value, repeated.performance_[name].low, repeated.performance_[name].high)
        )
    for a, b in zip(weighted.history_.records, repeated.history_.records):
        assert (a.accuracy, a.expected_accuracy, a.observations) == pytest.approx(
            (b.accuracy, b.expected_accuracy, b.observations)
        )
    assert (weighted.change_.label, weighted.change_.segment) == (repeated.change_.label, repeated.change_.segment)
    size = f"{4 * np.count_nonzero(counts)} rows, {4 * counts.sum()} observations"
    assert f"With labels: {size}; in total: {size}." in weighted.summary()
    assert "observations" in str(weighted.change_)
    fixes = weighted.repair(), repeated.repair()
    assert fixes[0].kind == fixes[1].kind
    assert "observations" in str(fixes[0])
    assert fixes[0].gain == pytest.approx(fixes[1].gain, rel=0.05)


def test_the_factor_of_a_group_is_the_mean_of_its_rows():
    p, y = stream(7, 3, 1)
    counts = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 3.0, 1.0])
    groups = np.array([0, 1, 0, 1, 2, 2, 2])
    each = np.exp([log_ratios(Sample(p[[i]], y[[i]]), 0.1) for i in range(7)])
    expected = sum(np.log(np.average(each[groups == g], axis=0, weights=counts[groups == g])) for g in range(3))
    np.testing.assert_allclose(log_ratios(Sample(p, y, counts, groups), 0.1), expected, rtol=1e-9)


def test_groups_stay_whole_where_a_batch_is_cut():
    rng = np.random.default_rng(0)
    groups, counts = rng.integers(0, 40, 3000), rng.integers(1, 4, 3000).astype(float)
    data = Sample(np.full((3000, 2), 0.5), np.zeros(3000, dtype=int), counts, groups)
    parts = data.parts(500)
    assert len(parts) > 5
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(3000))
    assert sum(len(np.unique(groups[part])) for part in parts) == 40
    plain = Sample(np.full((1200, 2), 0.5), np.zeros(1200, dtype=int)).parts(500)
    assert [part.tolist() for part in plain] == [[*range(500)], [*range(500, 1000)], [*range(1000, 1200)]]


def test_rows_that_fail_together_raise_no_alarm_once_their_groups_are_known():
    alarms = {False: 0, True: 0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = rng.random(300)
        y = np.repeat(rng.random(300) < p, 20).astype(int)  # twenty rows of a group have one outcome
        for grouped in alarms:
            monitor = CalibrationMonitor(identity(2))
            monitor.update(np.repeat(p, 20), y, groups=np.repeat(np.arange(300), 20) if grouped else None)
            alarms[grouped] += monitor.alarm_
    assert alarms[True] == 0
    assert alarms[False] > 3


def test_a_change_is_found_in_groups_too_and_measured_by_them():
    p, y = stream(3000, 2, 3, odds=[1, 3])
    groups = np.arange(3000) // 10
    monitor = CalibrationMonitor(identity(2))
    for start in range(0, 3000, 1000):
        rows = slice(start, start + 1000)
        monitor.update(p[rows], y[rows], groups=groups[rows])
    assert monitor.alarm_
    assert "in 300 groups" in str(monitor.change_)
    assert monitor.repair().kind == "prior"
    together = CalibrationMonitor(identity(2)).update(np.repeat(p[:500], 10, axis=0), np.repeat(y[:500], 10), blocks=10)
    alone = CalibrationMonitor(identity(2)).update(p[:500], y[:500])
    assert together.alarm_
    assert alone.alarm_
    changes = [together.change_, alone.change_]
    widths = [change.observed.high - change.observed.low for change in changes]
    if {change.kind for change in changes} == {"class"}:
        assert widths[0] == pytest.approx(widths[1], rel=0.2)


def test_a_group_that_goes_on_in_the_next_batch_is_warned_of():
    p, y = stream(90, 2, 4)
    monitor = CalibrationMonitor(identity(2)).update(p[:30], y[:30], groups=np.arange(30) // 10)
    monitor.update(p[30:60], y[30:60], groups=3.0 + np.arange(30) // 10)
    resumed = CalibrationMonitor.resume(monitor.calibrator, json.loads(json.dumps(monitor.state_)))
    for again in (monitor, resumed):
        with pytest.warns(CalibrationWarning, match="1 of 3 groups were in an earlier batch"):
            again.update(p[60:], y[60:], groups=5 + np.arange(30) // 10)
    monitor.update(p[:30], y[:30], blocks=10).update(p[:30], y[:30], blocks=10)  # blocks have no names
    assert resumed.labelled_.groups == 9


def test_a_group_that_comes_back_later_is_warned_of_while_it_is_remembered(monkeypatch):
    p, y = stream(20, 2, 4)
    monitor = CalibrationMonitor(identity(2))
    for name in "abc":
        monitor.update(p, y, groups=[name] * 20)
    monitor.update(p, y).update(p, y, blocks=5)  # batches without names of groups between
    with pytest.warns(CalibrationWarning, match="1 of 1 groups were in an earlier batch as well"):
        monitor.update(p, y, groups=["a"] * 20)
    monkeypatch.setattr(history, "GROUPS", 2)
    monitor.update(p, y, groups=["d"] * 20)  # the latest are a and d now: b and c are forgotten
    assert len(monitor.state_["latest_groups"]) == 2
    monitor.update(p, y, groups=["b"] * 20)
    with pytest.warns(CalibrationWarning, match="1 of 1 groups"):
        monitor.update(p, y, groups=["d"] * 20)


def test_the_slope_of_a_change_is_as_uncertain_as_its_groups():
    p, y = stream(400, 2, 0, slope=0.5)
    copies = {"P": np.repeat(p, 4, axis=0), "y": np.repeat(y, 4)}
    alone = CalibrationMonitor(identity(2)).update(p, y)
    together = CalibrationMonitor(identity(2)).update(**copies, groups=np.repeat(np.arange(400), 4))
    apart = CalibrationMonitor(identity(2)).update(**copies)
    changes = [monitor.change_ for monitor in (alone, together, apart)]
    assert {change.kind for change in changes} == {"slope"}
    widths = [change.observed.high - change.observed.low for change in changes]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)
    assert widths[2] == pytest.approx(widths[0] / np.sqrt(4), rel=0.1)


def test_chance_that_groups_share_needs_no_repair():
    needed = {False: 0, True: 0}
    for seed in range(3):
        p, y = stream(60, 2, seed)
        rows = Sample(np.repeat(p, 20, axis=0), np.repeat(y, 20), classes=np.arange(2))
        for grouped in needed:
            known = replace(rows, groups=np.repeat(np.arange(60), 20)) if grouped else rows
            needed[grouped] += fit_repair(identity(2), known, None) is not None
    assert needed[True] == 0
    assert needed[False] >= 2


def test_a_state_of_version_0_2_goes_on():
    state = json.loads(OLD_STATE.read_text())
    monitor = CalibrationMonitor.resume(identity(2), state)
    rng = np.random.default_rng(0)
    p = np.round(rng.random(40), 3)  # the rows that the state has seen
    y = (rng.random(40) < p).astype(int)
    reference = np.round(rng.random(60), 3)
    segments = np.where(np.arange(20) % 2, "a", "b")
    new = CalibrationMonitor(identity(2), reference=reference).observe(p)
    new.update(p[:20], y[:20], segments, observed=True)
    assert monitor.log_evidence_ == pytest.approx(new.log_evidence_)
    assert monitor.labelled_ == new.labelled_
    for name in ("accuracy", "log_loss", "brier"):
        assert monitor.performance_[name].value == pytest.approx(new.performance_[name].value)
    for again in (monitor, new):
        again.update(p[20:], y[20:], segments, groups=np.arange(20) // 2)
    assert monitor.log_evidence_ == pytest.approx(new.log_evidence_)
    assert monitor.state_["version"] == 3
    assert CalibrationMonitor.resume(identity(2), monitor.state_).state_ == monitor.state_


@pytest.mark.parametrize("k", [2, 4])
def test_what_is_expected_is_the_mean_of_the_metrics_over_all_labels(k):
    p, _ = stream(3, k, 5)
    found = CalibrationMonitor(identity(k)).observe(p).performance_
    for name, metric in {"accuracy": accuracy, "log_loss": log_loss, "brier": brier}.items():
        expected = 0.0
        for labels in np.ndindex(k, k, k):
            expected += np.prod(p[np.arange(3), labels]) * metric(np.array(labels), p, classes=range(k))
        assert found[name].value == pytest.approx(expected)


@pytest.mark.parametrize("top", [0.6, 0.99, 1.0])
def test_intervals_stay_within_the_bounds_of_the_metrics_and_grow_with_groups(top):
    p = np.full((50, 1), top)
    alone = CalibrationMonitor(identity(2)).observe(p).performance_
    together = CalibrationMonitor(identity(2)).observe(p, blocks=10).performance_
    for found in (alone, together):
        assert 0.0 <= found["accuracy"].low <= found["accuracy"].value <= found["accuracy"].high <= 1.0
        assert 0.0 <= found["brier"].low <= found["brier"].value <= found["brier"].high <= 1.0
        assert 0.0 <= found["log_loss"].low <= found["log_loss"].value <= found["log_loss"].high
    for name in alone:
        assert together[name].high >= alone[name].high
        assert together[name].low <= alone[name].low


def test_intervals_without_labels_cover_where_errors_are_few():
    rng = np.random.default_rng(0)
    for n, risk in ((50, 0.01), (200, 0.01), (50, 0.06), (500, 0.02)):
        found = CalibrationMonitor(identity(2)).observe(np.full(n, risk)).performance_["accuracy"]
        errors = rng.binomial(n, risk, 20_000) / n
        assert np.mean((found.low - 1e-12 <= 1 - errors) & (1 - errors <= found.high + 1e-12)) > 0.945


def test_drift_raises_no_false_alarm_in_small_batches():
    raised = 0
    calibrator = identity(4)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        monitor = CalibrationMonitor(calibrator, alpha=0.05, reference=rng.dirichlet(np.full(4, 0.5), 150))
        for _ in range(20):
            monitor.observe(rng.dirichlet(np.full(4, 0.5), 12))
        raised += monitor.drift_.found
    assert raised <= 1


def test_a_lasting_drift_of_small_batches_is_found_in_blocks_of_batches():
    rng = np.random.default_rng(0)
    monitor = CalibrationMonitor(identity(2), reference=rng.random(2000))
    smallest = 1.0
    for batch in range(1, 65):
        monitor.observe(rng.random(25) ** (1.0 if batch <= 16 else 1.4))
        smallest = min(smallest, monitor.drift_.p_value * batch**2)
        if batch == 31:
            monitor = CalibrationMonitor.resume(monitor.calibrator, json.loads(json.dumps(monitor.state_)))
    assert monitor.drift_.found
    assert monitor.drift_.since in {25 * batch for batch in range(0, 64, 4)}
    assert len(monitor.drift_.waiting) <= 7
    assert smallest > 0.01  # no batch alone would have shown it


def test_drift_does_not_take_a_group_for_many_rows():
    rng = np.random.default_rng(0)
    p = np.repeat(rng.dirichlet(np.ones(3), 60), 50, axis=0)
    reference = rng.dirichlet(np.ones(3), 2000)
    apart, together = (CalibrationMonitor(identity(3), reference=reference) for _ in range(2))
    assert apart.observe(p).drift_.found
    assert not together.observe(p, blocks=50).drift_.found


def test_more_observations_than_a_monitor_takes():
    with pytest.raises(ValueError, match=r"sum to 2e\+12 observations; a monitor takes 1e\+12 at most"):
        CalibrationMonitor(identity(2)).update([0.5, 0.5], [0, 1], sample_weight=[1e12, 1e12])
