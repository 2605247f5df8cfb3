from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from scipy.stats import binom, hypergeom
from sklearn.metrics import accuracy_score, log_loss

import calibrant
from calibrant import CalibrationMonitor, NoCalibrator, SegmentedCalibrator, get_calibrator
from calibrant.deployment.monitoring import history
from calibrant.deployment.monitoring.bets import Bets, log_ratios, log_waiting
from calibrant.deployment.monitoring.label_free import Performance, two_sample_p_values
from calibrant.deployment.monitoring.stored import packed
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.files.stored.persistence import load_monitor
from calibrant.sample import Sample
from tests.altered import NUMBERS, pick, places
from tests.samples import draw_labels


def stream(n, k, seed, odds=None, slope=1.0, since=0):
    """Predictions, and labels that follow them up to the row `since`, then ``p^slope`` times `odds`."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.7), size=n)
    q = p.copy()
    q[since:] = q[since:] ** slope * (1.0 if odds is None else np.array(odds))
    return p, draw_labels(q / q.sum(axis=1, keepdims=True), rng)


def identity(k):
    """A calibrator that keeps predictions as they are, of k classes."""
    return NoCalibrator(classes=list(range(k))).fit(
        np.full((k, k), 1.0 / k) + np.diag([1e-9] + [0.0] * (k - 1)), range(k)
    )


def fed(monitor, p, y, size=500, segments=None):
    for start in range(0, len(p), size):
        rows = slice(start, start + size)
        monitor.update(p[rows], y[rows], None if segments is None else segments[rows])
    return monitor


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize("k", [2, 4])
def test_every_bet_is_fair_or_worse_for_all_truths_within_the_tolerance(k, tolerance):
    rng = np.random.default_rng(0)
    for p in rng.dirichlet(np.full(k, 0.5), size=20):
        gains = np.exp([log_ratios(Sample(p[None], np.array([label])), tolerance) for label in range(k)])
        if tolerance == 0.0:
            np.testing.assert_allclose(p @ gains, 1.0, rtol=1e-9)
        for _ in range(50):
            truth = p * np.exp(tolerance * rng.integers(0, 2, k))
            assert (truth / truth.sum() @ gains).max() <= 1.0 + 1e-9


def test_the_capital_is_that_of_all_beginnings_added_up():
    p, y = stream(60, 3, 0)
    blocks = [slice(0, 20), slice(20, 45), slice(45, 60)]
    bets = Bets.start(3)
    for block in blocks:
        bets.update(Sample(p[block], y[block]), 0.0, block.start)
    gains = np.array([log_ratios(Sample(p[block], y[block])) for block in blocks])
    waiting = np.exp([log_waiting(n) for n in (0, 20, 45, 60)])
    expected = waiting[3] + sum((waiting[b] - waiting[b + 1]) * np.exp(gains[b:].sum(axis=0)) for b in range(3))
    np.testing.assert_allclose(np.exp(bets.log_capital()), expected, rtol=1e-9)


def test_false_alarms_are_rare():
    alarms = 0
    calibrator = identity(3)
    for seed in range(30):
        p, y = stream(1000, 3, seed)
        alarms += fed(CalibrationMonitor(calibrator, alpha=0.1), p, y, 200).alarm_
    assert alarms <= 3  # ten times in a hundred at most, much less in practice


@pytest.mark.parametrize(
    ("change", "kind", "repair"),
    [({"odds": [1, 1, 3]}, "class", "prior"), ({"slope": 0.5}, "slope", "temperature")],
)
def test_a_change_is_found_dated_measured_and_repaired(change, kind, repair, tmp_path):
    p, y = stream(2500, 3, 1, since=1000, **change)
    monitor = fed(CalibrationMonitor(identity(3)), p, y)
    assert monitor.alarm_
    assert 1000 < monitor.alarm_row_ < 2500
    found = monitor.change_
    assert found.kind == kind
    assert abs(found.since - 1000) <= 500
    assert str(found) in monitor.summary()
    if kind == "class":
        assert found.label == 2
        assert found.predicted < found.observed.low
    else:
        assert found.observed.low < 0.55 < found.observed.high + 0.1
    repaired = monitor.repair()
    assert repaired.kind == repair
    after = repaired.calibrator.predict_proba(p[1000:])
    assert log_loss(y[1000:], after) < log_loss(y[1000:], p[1000:]) - 0.5 * repaired.gain
    calibrant.save(repaired.calibrator, tmp_path / "new.json")
    np.testing.assert_array_equal(
        calibrant.load(tmp_path / "new.json").predict_proba(p[:9]), repaired.calibrator.predict_proba(p[:9])
    )
    watched = fed(CalibrationMonitor(repaired.calibrator), *stream(1500, 3, 2, **change))
    assert not watched.alarm_


def test_repairs_of_a_repair_add_up():
    calibrator = identity(2)
    for month, odds in enumerate([1.5, 1.5, 3.0, 3.0]):
        p, y = stream(3000, 2, 100 + month, odds=[1, odds])
        monitor = CalibrationMonitor(calibrator).update(p, y)
        assert monitor.alarm_ == (month in (0, 2))
        if monitor.alarm_:
            repair = monitor.repair()
            assert repair.kind == "prior"
            calibrator = repair.calibrator
        shift = np.diff(np.log(calibrator.predict_proba([0.5]))).item()
        assert shift == pytest.approx(np.log(odds), abs=0.15)


def test_both_at_once_need_a_new_fit():
    p, y = stream(1500, 3, 3, odds=[1, 1, 3], slope=0.4)
    repaired = fed(CalibrationMonitor(identity(3)), p, y).repair()
    assert repaired.kind == "refit"
    assert log_loss(y, repaired.calibrator.predict_proba(p)) < log_loss(y, p) - 0.05


def test_a_segment_is_named():
    p, y = stream(6000, 2, 4)
    rng = np.random.default_rng(0)
    segments = rng.choice(["north", "south", "west"], 6000)
    off = segments == "west"
    y[off] = draw_labels(p[off] * [1, 3] / (p[off] @ [1, 3])[:, None], rng)
    monitor = fed(CalibrationMonitor(identity(2)), p, y, segments=segments)
    assert monitor.alarm_
    assert monitor.change_.segment == "west"
    assert monitor.repair().segment == "west"
    assert max(monitor.evidence_["segments"], key=monitor.evidence_["segments"].get) == "west"
    with pytest.raises(ValueError, match="This batch lacks segments"):
        monitor.update(p[:5], y[:5])


def test_tolerance_forgives_small_errors():
    p, y = stream(8000, 2, 5, odds=[1, 1.25])
    assert fed(CalibrationMonitor(identity(2)), p, y, 2000).alarm_
    assert not fed(CalibrationMonitor(identity(2), tolerance=0.25), p, y, 2000).alarm_


def test_a_changed_state_is_refused_or_goes_on():
    p, y = stream(300, 3, 6, odds=[1, 5, 1], since=50)
    monitor = fed(CalibrationMonitor(identity(3), reference=p[:100]), p, y, 100)
    assert monitor.alarm_
    state, went_on = monitor.state_, 0
    for seed in range(100):
        rng, changed = np.random.default_rng(seed), copy.deepcopy(state)
        owner, key = pick(rng, [place for place in places(changed, []) if not isinstance(place[0], list)])
        owner[key] = copy.deepcopy(pick(rng, NUMBERS))
        try:
            resumed = CalibrationMonitor.resume(monitor.calibrator, changed)
        except ValueError:
            continue
        assert fed(resumed, p[:20], y[:20]).summary()
        json.dumps(resumed.state_, allow_nan=False)
        went_on += 1
    assert 0 < went_on < 50


def test_an_alarm_of_a_segment_that_is_no_longer_seen_can_still_be_read():
    p, y = stream(9000, 2, 7)
    old = (np.arange(9000) < 2000) & (np.arange(9000) % 4 == 0)
    y[old] = 1 - p[old].argmax(axis=1)
    monitor = fed(CalibrationMonitor(identity(2)), p, y, segments=np.where(old, "old", "new"))
    assert monitor.change_.segment == "old"
    assert monitor.change_.rows == 0
    assert "there are no recent rows" in monitor.summary()
    assert monitor.repair() is None


def test_the_state_resumes_where_it_stopped():
    p, y = stream(1200, 3, 6, odds=[1, 3, 1], since=400)
    segments = np.where(np.arange(1200) % 2, "a", "b")
    cal = identity(3)
    whole = fed(CalibrationMonitor(cal, reference=p), p, y, 300, segments)
    half = fed(CalibrationMonitor(cal, reference=p), p[:600], y[:600], 300, segments[:600])
    resumed = CalibrationMonitor.resume(cal, json.loads(json.dumps(half.state_)))
    fed(resumed, p[600:], y[600:], 300, segments[600:])
    assert resumed.state_ == whole.state_
    assert resumed.summary() == whole.summary()


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(history, "_IN_TABLE", 20)
    monkeypatch.setattr(history, "_NOT_JOINED", 6)
    monkeypatch.setattr(history, "_MOST_ROWS", 500)
    monitor, sizes = CalibrationMonitor(identity(2)), []
    p, y = stream(30, 2, 7)
    for batch in range(40):
        monitor.update(p, y)
        if batch in (19, 39):
            sizes.append(len(json.dumps(monitor.state_)))
    assert sizes[1] < 1.1 * sizes[0]


def test_estimates_without_labels_hold_for_labels_drawn_from_the_probabilities():
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(3), size=1000)
    monitor = CalibrationMonitor(identity(3)).observe(p)
    found = monitor.performance_
    seen = [draw_labels(p, rng) for _ in range(60)]
    for name, metric in {
        "accuracy": lambda y: accuracy_score(y, p.argmax(axis=1)),
        "log_loss": lambda y: log_loss(y, p),
        "brier": lambda y: ((p - np.eye(3)[y]) ** 2).sum(axis=1).mean(),
    }.items():
        values = np.array([metric(y) for y in seen])
        width = found[name].high - found[name].low
        assert abs(values.mean() - found[name].value) < 0.2 * width
        assert 0.6 < width / (2 * 1.96 * values.std()) < 1.5
    assert monitor.confusion_.sum() == pytest.approx(1000)
    np.testing.assert_allclose(monitor.confusion_.sum(axis=1), np.bincount(p.argmax(axis=1)))
    monitor.update(p, seen[0], observed=True)
    assert monitor._performance.seen.rows == monitor.rows_ == 1000


def test_nothing_is_repaired_or_dated_without_an_alarm():
    p, y = stream(100, 2, 1)
    monitor = CalibrationMonitor(identity(2)).update(p, y, batch="2026-03")
    assert monitor.repair() is None
    assert monitor.change_ is None
    assert [monitor.history_.name_at(row) for row in (0, 99, 100)] == ["March 2026", "March 2026", ""]


def test_drift_of_predictions():
    rng = np.random.default_rng(9)
    p = rng.dirichlet(np.ones(3), size=6000)
    monitor = CalibrationMonitor(identity(3), reference=p[:3000])
    for start in range(3000, 6000, 500):
        monitor.observe(p[start : start + 500])
    assert not monitor.drift_.found
    monitor.observe(rng.dirichlet([0.3, 0.3, 0.3], size=500))
    assert monitor.drift_.found
    assert monitor.drift_.since == 3000
    assert "Predictions drifted, since about row 3,000" in monitor.summary()


def test_shares_are_compared_by_the_exact_test():
    rng = np.random.default_rng(0)
    for n, m in rng.integers(1, 300, (50, 2)):
        then, now = rng.integers(0, n + 1), rng.integers(0, m + 1)
        tails = hypergeom.sf(now - 1, n + m, then + now, m), hypergeom.cdf(now, n + m, then + now, m)
        found = two_sample_p_values(np.array([then / n]), np.array([now / m]), n, m)[0]
        assert found == pytest.approx(min(1.0, 2.0 * min(tails)), rel=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.update([[0.5, 0.5]], ["maybe"]), "label 'maybe', which is not a class of the calibrator"),
        (lambda m: m.update([[0.2, 0.3, 0.5]], ["no"]), "3 features"),
        (lambda m: m.update([[0.5, 0.5]], ["no"], ["a", "b"]), r"segments has shape \(2,\), expected \(1,\)"),
        (lambda m: m.update([[0.5, 0.5]], ["no", "yes"]), "inconsistent numbers"),
        (lambda m: CalibrationMonitor(m.calibrator, alpha=2), "alpha=2"),
        (lambda m: CalibrationMonitor(m.calibrator, tolerance=-1), "tolerance=-1"),
        (lambda m: CalibrationMonitor.resume(m.calibrator, {"format": "other"}), "not a state"),
        (
            lambda m: CalibrationMonitor.resume(get_calibrator("none").fit([0.2, 0.8], [0, 1]), m.state_),
            "another calibrator",
        ),
        (lambda m: CalibrationMonitor.resume(m.calibrator, {**m.state_, "bets": [[None, {}]]}), "damaged"),
    ],
)
def test_bad_input_is_explained(call, message):
    monitor = CalibrationMonitor(get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], ["no", "no", "yes", "yes"]))
    with pytest.raises(ValueError, match=message):
        call(monitor)


def segmented(k=2, n=1500):
    """A calibrator that knows that the last class is three times as likely in the west."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(k), n)
    frame = {"region": rng.choice(["north", "west"], n), "age": rng.integers(18, 80, n)}
    truth = p.copy()
    truth[frame["region"] == "west", -1] *= 3.0
    y = draw_labels(truth / truth.sum(axis=1, keepdims=True), rng)
    return SegmentedCalibrator("ts", strength=1.0).fit(p, y, segments=frame), p, y, frame


def test_a_segmented_calibrator_is_watched_with_its_segments(tmp_path):
    calibrator, p, y, frame = segmented()
    monitor = CalibrationMonitor(calibrator, reference=(p, frame)).update(p, y, frame)
    assert not monitor.alarm_  # without the segments the west would be off
    assert CalibrationMonitor(calibrator.calibrator_).update(p, y, frame).alarm_
    assert "age from" in " ".join(monitor.evidence_["segments"])
    state = json.loads(json.dumps(monitor.state_))
    turned = {**frame, "region": np.where(frame["region"] == "west", "north", "west")}
    resumed = CalibrationMonitor.resume(calibrator, state).update(p, y, turned)
    assert resumed.alarm_
    assert resumed.change_.segment.startswith("region = ")
    repair = resumed.repair()
    before, after = (c.predict_proba(p, segments=turned) for c in (calibrator, repair.calibrator))
    rows = turned["region"] == repair.segment.removeprefix("region = ")
    assert log_loss(y[rows], after[rows]) < log_loss(y[rows], before[rows])
    calibrant.save(repair.calibrator, tmp_path / "repaired.json")
    np.testing.assert_array_equal(calibrant.load(tmp_path / "repaired.json").predict_proba(p, segments=turned), after)
    monitor.observe(p[:100], {name: column[:100] for name, column in frame.items()})
    with pytest.raises(ValueError, match="needs segments="):
        monitor.observe(p[:100])
    other, *_ = segmented(n=500)
    with pytest.raises(ValueError, match="another calibrator"):
        CalibrationMonitor.resume(other, state)


def test_columns_of_segments_stay_the_same():
    rng = np.random.default_rng(0)
    p = rng.random((200, 1))
    monitor = CalibrationMonitor(identity(2))
    monitor.update(p, np.arange(200) % 2, {"region": ["a"] * 200, "device": ["b"] * 200})
    assert set(monitor.evidence_["segments"]) == {"region = a", "device = b"}
    with pytest.raises(ValueError, match=r"has segments by region, unlike those before \(by region, device\)"):
        monitor.update(p, np.arange(200) % 2, {"region": ["a"] * 200})


def test_a_segment_keeps_its_name_beside_missing_values():
    p, y = stream(90, 2, 8)
    codes = np.arange(90) % 3
    holes = np.where(codes == 2, np.nan, codes)  # what pandas makes of whole numbers beside missing ones
    alone = CalibrationMonitor(identity(2)).update(p, y, codes).update(p, y, holes)
    assert set(alone.evidence_["segments"]) == {"0", "1", "2", "segment missing"}
    both = CalibrationMonitor(identity(2)).update(p, y, {"code": holes, "device": codes})
    assert {"code = 0", "code = 1", "code missing", "device = 2"} <= set(both.evidence_["segments"])


def test_late_labels_of_many_batches(monkeypatch):
    monkeypatch.setattr(history, "_IN_TABLE", 20)
    monkeypatch.setattr(history, "_NOT_JOINED", 6)
    p, y = stream(30, 2, 9)
    monitor = CalibrationMonitor(identity(2))
    for late in range(30):
        monitor.observe(p) if late < 6 else monitor.update(p, y, observed=True)
    records = monitor.history_.records
    assert len(records) <= 20
    assert (sum(r.rows for r in records), sum(r.labelled for r in records)) == (6 * 30, 24 * 30)
    for record in records:
        assert record.expected_accuracy == pytest.approx(p.max(axis=1).mean())


def test_states_that_contradict_themselves_are_refused():
    p, y = stream(300, 2, 10)
    segments = np.where(np.arange(300) % 2, "a", "b")
    monitor = CalibrationMonitor(identity(2), reference=p).update(p, y, segments, batch="x")

    def without_columns(state):
        state["segment_columns"], state["recent"]["segment"] = [], [[]] * 300

    def alarm(*blame):
        return lambda state: state.update(alarm=True, alarm_row=7, blame=[*blame, 0])

    for change, message in (
        (without_columns, "segments without columns"),
        (lambda state: state["bets"][0][1].update(since=[10**15] * 20), "since is outside"),
        (lambda state: state["bets"][0][1].update(active=[0.0] * 19), "do not match the number of classes"),
        (lambda state: state["bets"][0].__setitem__(0, "a"), "bets do not name every segment once"),
        (lambda state: state["bets"].append(state["bets"][1]), "bets do not name every segment once"),
        (lambda state: state.update(alarm_row=7), "alarm_row has no alarm"),
        (lambda state: state.update(alarm=True, alarm_row=7), "alarm and blame contradict each other"),
        (lambda state: state.update(alarm=True, blame=["slope", -1, None, 0]), "alarm_row has no alarm"),
        (alarm("both", 1, None), "blame names no kind of change"),
        (alarm("class", -1, None), "blame names no kind of change"),
        (alarm("slope", -1, "west"), "blame names no segment"),
        (lambda state: state["labelled"].update(groups=301), "there are more groups than rows"),
        (lambda state: state["performance"]["seen"].update(groups=301), "there are more groups than rows"),
        (lambda state: state["drift"]["edges"].reverse(), "drift edges do not increase"),
        (lambda state: state["drift"]["reference"].__setitem__(0, [0.0, 0.0]), "drift of no rows"),
        (lambda state: state["drift"]["waiting"][0].__setitem__(0, [0.0, 0.0]), "drift of no rows"),
        (lambda state: state["drift"].update(found=True), "drift since has no drift"),
        (lambda state: state["history"].update(rows=[0], labelled=[0]), "history of no rows"),
        (lambda state: state["history"].update(rows=[300, 300]), "columns of different lengths"),
        (lambda state: state["recent"].update(y=[0] * 299), "recent rows do not all have the same parts"),
        (lambda state: state["recent"].update(p=packed(np.full((300, 2), 0.4))), "rows that do not sum to 1"),
        (lambda state: state["recent"].update(p=state["recent"]["p"][:-4]), "recent p is cut off"),
        (lambda state: state.update(known=[]), "before has no batches"),
        (lambda state: state.update(known=[[1, 2, True]]), "known has 3 parts instead of 4"),
        (lambda state: state.update(latest_groups=[2**48]), "latest_groups is outside"),
        (lambda state: state.update(latest_groups=[0.5]), "latest_groups holds something other than numbers"),
        (lambda state: state["performance"].update(mean=[0.0] * 4), "mean has shape"),
        (lambda state: state["drift"].update(found=1), "found is not of the type bool"),
    ):
        state = copy.deepcopy(monitor.state_)
        change(state)
        with pytest.raises(ValueError, match=message):
            CalibrationMonitor.resume(monitor.calibrator, state)
    for blame in (("slope", -1, None), ("class", 1, "a"), ("class", 0, None)):
        state = copy.deepcopy(monitor.state_)
        alarm(*blame)(state)
        assert CalibrationMonitor.resume(monitor.calibrator, state).state_ == state


@pytest.mark.parametrize("text", ["[" * 100_000, f'{{"rows": {"1" * 5000}}}', "{", "\ud800"])
def test_a_file_that_is_no_state_is_named(text, tmp_path):
    (tmp_path / "state.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(CalibratorFileError, match=r"state\.json: This is not the state of a monitor"):
        load_monitor(tmp_path / "state.json", identity(2))


def test_the_table_of_batches_joins_the_older_half():
    found = history.History()
    for _ in range(201):
        found.add(history.Record(10, 10, 0.0, 0.9, 0.9, 0.8, 10.0, 10.0))
    assert (len(found.records), found.records[0].rows, found.records[-1].rows) == (131, 20, 10)


def test_expected_accuracy_of_equal_rows():
    sums = Performance.start(2)
    sums.update(Sample(np.full((100, 2), [0.2, 0.8]), np.zeros(100, dtype=int)))
    found = sums.estimates()["accuracy"]
    assert found.value == pytest.approx(0.8)
    # Close to what a binomial distribution says: its 2.5 % and 97.5 % quantiles, half a step further out.
    low, high = binom.ppf([0.025, 0.975], 100, 0.8) / 100
    assert found.low == pytest.approx(low, abs=0.01)
    assert found.high == pytest.approx(high, abs=0.01)
