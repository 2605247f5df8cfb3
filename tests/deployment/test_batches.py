"""Batches with names: recognised, taken out again, dated, partly labelled; what is stored of them stays small."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from calibrant import CalibrationMonitor
from calibrant.deployment.monitoring.exposition import prometheus_text
from calibrant.deployment.monitoring.history import BatchSeenError
from calibrant.deployment.monitoring.periods import (
    in_words,
    missing_periods,
    missing_words,
    period_of,
    place_in_time,
)
from calibrant.steps.map_documents import canonical
from tests.deployment.test_monitor import identity, stream

MONTHS = ["2026-01", "2026-02", "2026-03", "2026-05"]


def months(p, y, size=500):
    monitor = CalibrationMonitor(identity(2))
    for number, month in enumerate(MONTHS):
        rows = slice(number * size, (number + 1) * size)
        monitor.update(p[rows], y[rows], batch=month)
    return monitor


def test_a_batch_is_added_once():
    p, y = stream(2000, 2, 0)
    monitor = months(p, y)
    before = monitor.state_
    for rows, name, same, message in (
        (slice(500, 1000), "2026-02", True, "added before, and these are its rows"),
        (slice(500, 990), "2026-02", False, "added before, with other rows"),
        (slice(500, 1000), "2026-06", False, "under another name"),
    ):
        with pytest.raises(BatchSeenError, match=message) as refused:
            monitor.update(p[rows], y[rows], batch=name)
        assert refused.value.same_rows == same
    with pytest.raises(ValueError, match="the name of a batch is a text"):
        monitor.update(p, y, batch=" ")
    assert monitor.state_ == before
    monitor.update([0.5], [1], batch="a").update([0.5], [1], batch="b")  # a few equal rows prove nothing


def test_taking_out_a_batch_leaves_what_was_before_it():
    p, y = stream(2000, 2, 0, odds=[1, 3], since=1000)
    monitor = CalibrationMonitor.resume(identity(2), json.loads(json.dumps(months(p, y).state_)))
    assert monitor.alarm_
    assert monitor.rewind("2026-03") == ["2026-03", "2026-05"]
    whole = CalibrationMonitor(identity(2))
    for number, month in enumerate(MONTHS[:2]):
        whole.update(p[number * 500 : number * 500 + 500], y[number * 500 : number * 500 + 500], batch=month)
    assert monitor.state_ == whole.state_
    assert not monitor.alarm_
    with pytest.raises(ValueError, match="There is no batch '2026-03'"):
        monitor.rewind("2026-03")
    for day in range(1, 15):
        monitor.update(p[day : day + 40], y[day : day + 40], batch=f"2026-06-{day:02}")
    with pytest.raises(ValueError, match="too old: only the latest 12 can be replaced"):
        monitor.rewind("2026-01")


def test_findings_are_dated():
    p, y = stream(2000, 2, 0, odds=[1, 4], since=1000)
    text = months(p, y).summary()
    assert re.search(r"Alarm, raised after [\d,]+ labelled rows \(March 2026\)\.", text)
    assert "since March 2026 (about row 1,000), measured on" in text
    assert "There is no batch for April 2026." in text


def test_expected_and_observed_counts():
    monitor = CalibrationMonitor(identity(2)).update([0.25, 0.5, 0.75], [0, 1, 1], batch="2026-01")
    monitor.observe([0.5], batch="2026-02")
    head, first, second = monitor.batch_table()
    assert head == ["batch", "rows", "with labels", "class 1: expected", "observed", "evidence"]
    assert first[:5] == ["January 2026", "3", "3", "1.5", "2"]
    assert second[:5] == ["February 2026", "1", "0", "", ""]
    many = CalibrationMonitor(identity(3)).update([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], [0, 2])
    assert many.batch_table()[1][:5] == ["no name", "2", "2", "1.3", "1"]


def test_missing_labels_are_rows_without_labels():
    p, y = stream(400, 2, 1)
    some = np.where(np.arange(400) % 4 == 0, None, y.astype(object))
    monitor = CalibrationMonitor(identity(2)).update(p, some, batch="x")
    known = np.arange(400) % 4 != 0
    expected = CalibrationMonitor(identity(2)).update(p[known], y[known])
    assert monitor.log_evidence_ == pytest.approx(expected.log_evidence_)
    assert (monitor.rows_, monitor.seen_.rows) == (300, 400)
    assert CalibrationMonitor(identity(2)).update(p[:9], [None] * 9).rows_ == 0
    with pytest.raises(ValueError, match="none of them has a label"):
        CalibrationMonitor(identity(2)).update(p[:9], [None] * 9, observed=True)


def test_late_labels_of_a_named_batch():
    p, y = stream(100, 2, 1)
    monitor = CalibrationMonitor(identity(2)).observe(p, batch="2026-01")
    with pytest.raises(BatchSeenError, match="It had no labels then: `observed` adds them"):
        monitor.update(p, y, batch="2026-01")
    monitor.update(p, y, batch="2026-01", observed=True)
    with pytest.raises(BatchSeenError, match="these are its rows"):
        monitor.update(p, y, batch="2026-01", observed=True)
    assert (monitor.rows_, monitor.seen_.rows) == (100, 100)


def test_the_state_of_a_year_of_days_is_small():
    p, y = stream(5000, 2, 2)
    monitor = CalibrationMonitor(identity(2))
    for day in range(400):  # the latest rows are all kept, as they would be of larger batches
        rows = slice(12 * day, 12 * day + 13)
        monitor.update(p[rows], y[rows], batch=f"day {day}")
    assert len(canonical(monitor.state_)) < 150_000  # what the file holds


def test_a_state_of_version_2_goes_on():
    state = json.loads(Path(__file__).with_name("monitor_state_version_2.json").read_text())
    monitor = CalibrationMonitor.resume(identity(3), state)
    assert monitor.alarm_
    assert "since about row 40, measured on 80 rows, 122 observations in 40 groups" in monitor.summary()
    assert monitor.state_["version"] == 3
    assert CalibrationMonitor.resume(identity(3), json.loads(json.dumps(monitor.state_))).state_ == monitor.state_


def test_words_of_periods():
    assert place_in_time("2026-02-30") is None
    assert in_words("2026") == "2026"
    days = [f"2026-03-{day:02}" for day in range(1, 10)]
    assert missing_words(days).startswith("There is no batch for 9 March 2026, 8 March 2026")
    assert missing_words(days).endswith("and 3 more.")


def test_the_text_for_prometheus_is_well_formed():
    p, y = stream(600, 2, 3)
    monitor = CalibrationMonitor(identity(2), reference=p[:100])
    monitor.update(p, y, np.where(np.arange(600) % 2, 'a "b"', "c\\d"), batch="2026-03")
    sample = re.compile(r'(calibrant_\w+)\{(\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\} (NaN|[-+]?[0-9.]+(e[-+]?\d+)?)')
    known: set[str] = set()
    for line in prometheus_text(monitor, 'my "cal".json').splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in known
            known.add(name)
        elif line.startswith("# TYPE "):
            assert line.split()[2:] == [name, "gauge"]
        else:
            assert sample.fullmatch(line), line
            assert line.startswith(name)
    assert {"calibrant_alarm", "calibrant_batch_expected", "calibrant_segment_evidence_log10"} <= known
    assert prometheus_text(CalibrationMonitor(identity(2)), "x").endswith("\n")


def test_periods_by_name():
    names = ("2026-03-14", "2026-W11", "2026-03", "2026-Q2", "2026")
    days = ["2026-03-14", "2026-03-09", "2026-03-01", "2026-04-01", "2026-01-01"]
    assert [str(place_in_time(name)[1]) for name in names] == days
    lengths = ("day", "week", "month", "quarter", "year")
    assert [place_in_time(name)[0] for name in names] == list(lengths)
    last = ["2025-12-29", "2026-W01", "2025-12", "2025-Q4", "2025"]
    assert [period_of(date(2025, 12, 29), length) for length in lengths] == last
    words = ["14 March 2026", "week 11 of 2026", "March 2026", "quarter 2 of 2026", "2026"]
    assert [in_words(name) for name in names] == words
    assert in_words("north") == "batch north"
    assert in_words("2026-01", "2026-02") == "January 2026 to February 2026"
    spans = [("2026-01", "2026-02"), ("2026-05", "2026-05"), ("north", "north")]
    assert missing_periods(spans) == ["2026-03", "2026-04"]
    assert missing_words(missing_periods(spans)) == "There is no batch for March 2026, April 2026."
