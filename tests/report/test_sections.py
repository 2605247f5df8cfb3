"""The opening and the sections: what each says, and when; numbers against other functions and by hand."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from calibrant import CalibrationMonitor, CalibrationReport, DecisionRule, get_calibrator
from calibrant.decisions import compare_decisions
from calibrant.metrics import murphy_diagram
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.slope import Part
from calibrant.numerals import range_names
from calibrant.plots.report_figures import stability
from calibrant.report import analysis, comparison, report_tables, sections, watching
from calibrant.report.analysis import Source, analyse
from calibrant.report.comparison import MANY_UNITS, paired_intervals, share_interval
from calibrant.report.data import Lack, Report
from calibrant.report.layout import Section, saving
from calibrant.report.page import render
from calibrant.report.report_tables import bands, by_ratio
from calibrant.sample import Sample

from .conftest import sharpened

RULE = DecisionRule(false_positive=1, false_negative=20, classes=["no", "yes"])


@pytest.fixture(scope="module")
def rare() -> Report:
    """Too extreme predictions of a rare class, with costs."""
    rng = np.random.default_rng(0)
    z = rng.normal(-3.0, 1.2, 4000)
    y = (rng.random(4000) < expit(z)).astype(int)
    p = expit(1.8 * z + 1.0)
    data = Sample(np.column_stack([1 - p, p]), y, classes=np.arange(2))
    return analyse(data, ["no", "yes"], Source("rare.csv"), methods=["affine", "ts"], rule=RULE)


@pytest.fixture(scope="module")
def ten() -> Report:
    """Ten classes, of which two are exchanged in a third of their rows."""
    data = sharpened(1500, 10, 1.6)
    y = data.y.copy()
    moved = np.flatnonzero(y == 3)[::3]
    y[moved] = 4
    names = [f"c{i}" for i in range(10)]
    return analyse(Sample(data.values, y, classes=np.arange(10)), names, Source("ten.csv"), methods=["ts"])


def section(report: Report, name: str) -> Section:
    return next(one for one in sections.sections_of(report) if one.name == name)


def test_three_numbers_and_one_picture(rare: Report, ten: Report) -> None:
    said = sections.opening(rare)
    claimed, seen, saved = said.numbers
    table = rare.bands.before
    mean, share = (float(table.weight @ part / table.weight.sum()) for part in (table.score, table.frequency))
    assert (claimed.label, claimed.value, claimed.words) == ("predicted", f"{100 * mean:.1f}%", "yes on average")
    assert (seen.label, seen.value, seen.words) == ("actually", f"{100 * share:.1f}%", "yes")
    gain = next(row.gain_log_loss for row in rare.methods if row.name == rare.shown)
    before = next(row.log_loss for row in rare.methods if row.name == "none")
    assert gain is not None
    assert rare.saved is not None
    assert (saved.label, saved.value) == ("calibration saves", f"{100 * gain.value / before:.1f}%")
    assert saved.words == f"of log loss ({100 * rare.saved.low:.1f}% to {100 * rare.saved.high:.1f}%)"
    assert said.headline == rare.verdict.headline
    assert str(said.picture).count("<rect") >= len(table)
    assert "how many are expected to be yes, and how many are actually yes" in said.caption
    many = sections.opening(ten)
    assert [one.label for one in many.numbers] == ["claims to be right", "is right", "calibration saves"]
    accuracy = next(row.before.value for row in ten.metrics if row.name == "accuracy")
    assert many.numbers[1].value == f"{100 * accuracy:.1f}%"
    assert "how many are expected to be right, and how many are right" in many.caption


@pytest.mark.parametrize(
    ("gain", "given", "value", "words"),
    [
        ((0.01, -0.01, 0.03), {}, "nothing", "of log loss, beyond chance"),
        ((-0.04, -0.05, -0.03), {}, "nothing", "log loss would be 20.0% higher"),
        ((0.04, 0.03, 0.05), {}, "20.0%", "of log loss (15.0% to 25.0%)"),
        ((0.15, 0.1, 0.25), {}, "75.0%", "of log loss (50.0% to 100.0%)"),
        ((0.04, 0.03, 0.05), {"saved": None, "lack": Lack("rows", "")}, "?", "too little data to tell"),
        ((0.04, 0.03, 0.05), {"saved": None, "lack": Lack("one class", "")}, "?", "only one class is present"),
        ((0.04, 0.03, 0.05), {"saved": None}, "?", "no method could be fitted"),
    ],
)
def test_what_calibration_saves(
    rare: Report, gain: tuple[float, float, float], given: dict[str, Any], value: str, words: str
) -> None:
    share = Estimate(*(end / 0.2 for end in gain), 0.95)
    parts = (rare.parts[0]._replace(calibration=Estimate(*gain, 0.95)),)
    said = sections.opening(dataclasses.replace(rare, **{"parts": parts, "saved": share, **given})).numbers[2]
    assert (said.value, said.words) == (value, words)


def test_the_bands_are_those_of_a_table_made_by_hand(rare: Report) -> None:
    table = rare.bands.before
    assert len(table) == 10
    assert table.weight.tolist() == [400.0] * 10
    assert rare.bands.after is not None
    off = rare.bands.p_values < 0.05 / 10
    assert section(rare, "bands").note == f"{off.sum()} of 10 are off beyond chance"
    page = render(rare)
    top = f"{table.frequency[-1] * 400:.0f}</td>"
    assert f'<td>above {100 * table.lower[-1]:.1f}%</td><td data-label="Rows">400</td>' in page
    assert f'<td data-label="Observed">{top}' in page
    assert "by the test of Hosmer and Lemeshow: p" in page
    axis = rare.bands.axis
    assert axis.low == 0.0
    assert max(table.high.max(), table.score.max()) <= axis.high <= 1.0
    # Calibrated predictions: no band is off.
    calm = dataclasses.replace(rare, bands=dataclasses.replace(rare.bands, p_values=np.ones(10)))
    assert section(calm, "bands").note == "none of 10 is off beyond chance"


def test_p_values_of_bands_near_zero_and_one_are_those_of_their_own_rows() -> None:
    # Logits of a hundred: most bands lie nearer to 0 or 1 than edges can be told apart in decimals.
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 25.0, 300)
    y = (rng.random(300) < expit(z / 12)).astype(int)
    p = expit(z)
    data = Sample(np.column_stack([1 - p, p]), y, classes=np.arange(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bands(data, None, 0.95)
    assert len(found.p_values) == len(found.before)
    start, order = 0, np.argsort(p)
    for weight, p_value in zip(found.before.weight, found.p_values):
        rows = order[start : start + int(weight)]
        start += int(weight)
        expected = counted_p_value(p[rows], int(y[rows].sum()))
        # Smaller ones are not meant to be exact.
        assert p_value < 1e-6 if expected < 1e-7 else p_value == pytest.approx(expected, rel=0.02)
    assert start == 300


def counted_p_value(p: np.ndarray, seen: int) -> float:
    """Twice the smaller tail of a sum of coins, by adding one coin after the other."""
    if seen <= p.sum():
        p, seen = 1 - p, len(p) - seen
    chance = np.ones(1)
    for one in p:
        chance = np.append(chance * (1 - one), 0.0) + np.append(0.0, chance * one)
    return min(1.0, 2 * float(chance[seen:].sum()))


def test_bands_of_ties_and_near_the_ends_are_named_as_they_are(rare: Report) -> None:
    assert rare.bands.rows == "with about equally many rows each"
    # Half of the rows are tied; the others lie nearer to 1 than a decimal shows.
    p = np.concatenate([np.zeros(300), 1 - 10.0 ** -np.linspace(2, 14, 300)])
    data = Sample(np.column_stack([1 - p, p]), (p > 0).astype(int), classes=np.arange(2))
    found = bands(data, None, 0.95)
    weight = found.before.weight
    assert (weight.min(), weight.max()) == (60, 300)
    assert found.rows == "of 60 to 300 rows"
    assert len(set(found.names)) == len(weight) == 6
    # What lies nearer to 1 than a millionth is not told apart; no end that is told lies beyond the bound of the others.
    ends = found.before.upper[:-1]
    assert [name.startswith("above 99.999%") for name in found.names[1:]] == (ends > 1 - 1e-6).tolist()
    assert found.names[2] == f"{100 * ends[1]:.4f}% to >99.999%"
    assert found.names[-1] == f"above 99.999% ({sum(ends > 1 - 1e-6)} of {sum(ends > 1 - 1e-6)})"
    page = render(dataclasses.replace(rare, bands=found))
    assert "6 bands of 60 to 300 rows, by the probability of yes" in page
    assert not re.search(r"<td>([\d.]+%) to \1</td>", page)


@pytest.mark.parametrize("spread", [0.1, 3.0, 20.0, 200.0])
def test_names_of_bands_differ_and_hold_their_ends(spread: float) -> None:
    for seed in range(20):
        ends = np.sort(expit(np.random.default_rng(seed).normal(-2.0, spread, 9)))
        names = range_names(ends.tolist())
        assert len(set(names)) == 10
        assert not any("e-" in name for name in names)
        for name, low, high in zip(names[1:-1], ends, ends[1:]):
            if " to " not in name:  # both ends lie beyond a bound
                bound = float(name.split("%")[0].split()[1]) / 100
                assert high < bound if name.startswith("below") else low > bound
                continue
            for text, end in zip(name.split(" to "), (low, high)):
                share = float(text.strip("<>%")) / 100
                if text[0] in "<>":
                    assert end < share if text[0] == "<" else end > share
                else:
                    assert abs(share - end) <= 0.06 * min(end, 1 - end)


def test_one_class_is_off_in_heading_and_table_alike() -> None:
    p = np.random.default_rng(0).uniform(0.6, 0.999, 200)
    data = Sample(np.column_stack([1 - p, p]), np.ones(200, dtype=int), classes=np.arange(2))
    made = analyse(data, ["no", "yes"], Source("one.csv"))
    # That all of 200 rows happen has the probability of their product.
    assert np.prod(p) < 1e-6
    assert made.faults.means.p_value < 0.05
    assert section(made, "faults").note == "the means are off"
    assert '<tr class="best"><td>Means</td>' in render(made)


def test_notes_that_can_be_read_while_sections_are_folded(rare: Report, ten: Report) -> None:
    notes = {one.name: one.note for one in sections.sections_of(rare)}
    log_loss = rare.metrics[0]
    assert notes["metrics"] == f"log loss {log_loss.before.value:.4f} to {log_loss.after.value:.4f}"
    assert notes["words"] == "what was found, and how certain it is"
    assert notes["next"] == rare.steps[0].text
    assert notes["faults"] in ("mostly the slope", "mostly the means")
    assert notes["methods"] == f"{rare.recommended} is recommended"
    expected = r"calibration can remove \d+% of log loss, only a better model the rest"
    assert re.fullmatch(expected, notes["decomposition"])
    assert re.fullmatch(r"50% becomes [\d.]+%", notes["map"])
    assert re.fullmatch(r"acting on yes beats acting on all and on none from [\d.]+% to [\d.]+%", notes["thresholds"])
    good = dataclasses.replace(rare.verdict, tone="good")
    assert section(dataclasses.replace(rare, recommended="auto"), "methods").note == "auto is recommended"
    standing = section(dataclasses.replace(rare, recommended="auto", verdict=good), "methods")
    assert (standing.note, standing.values["standing"]) == ("auto is the default", "the default")
    assert section(dataclasses.replace(rare, recommended="ts", verdict=good), "methods").note == "ts is recommended"
    none = dataclasses.replace(rare, recommended="none", lack=Lack("rows", ""))
    assert section(none, "methods").note == "none is recommended"
    # The rows of the table still prove it.
    assert section(none, "faults").note in ("the slope is off", "the means are off")
    calm = {name: Part(0.01, 0.4, 1.0) for name in ("means", "slope", "rest")}
    unproven = dataclasses.replace(rare, faults=dataclasses.replace(rare.faults, **calm))
    assert section(unproven, "faults").note == "nothing proven"
    confused = section(ten, "confusion")
    listed = confused.values["listed"]
    assert confused.note == (f"most between {listed[0][0]} and {listed[0][1]}" if listed else "none beyond chance")


def test_diagrams_after_calibration_are_those_of_a_method(rare: Report) -> None:
    fitted, alone = (section(one, "reliability").values for one in (rare, dataclasses.replace(rare, shown="none")))
    assert "after" in fitted["after"]
    assert alone["after"] == ""
    assert [len(found["scores"]) for found in (fitted, alone)] == [4, 2]
    assert all(a != b for a, b in zip(fitted["views"], alone["views"]))


def test_why_fit_prints_another_loss_is_said_where_the_default_method_is_compared(rare: Report) -> None:
    said = "<code>calibrant fit</code> prints another log loss of auto, measured after its members were chosen"
    assert said not in render(rare)
    own = next(row for row in rare.methods if row.name == "ts")
    page = render(dataclasses.replace(rare, methods=(*rare.methods, dataclasses.replace(own, name="auto"))))
    assert said in page
    assert "every method is judged on rows that took no part in its fit or in any choice" in page


def test_classes_that_differ_have_a_panel_with_name_and_rows(ten: Report) -> None:
    part = section(ten, "classes")
    differ = [row for row in ten.class_rows if row.differs]
    assert {"c3", "c4"} <= {row.name for row in differ}
    assert len(differ) < 10
    titles = " ".join(map(str, part.values["panels"]))
    assert all(f"{row.name}, {row.observed:.0f} rows" in titles for row in differ)
    assert not any(f"{row.name}, " in titles for row in ten.class_rows if not row.differs)
    # Those that are off beyond chance come first, of these the one with the largest miscalibration.
    rows = [*part.values["first"], *part.values["others"]]
    off = [row.before.p_value < 0.005 for row in rows]
    assert off == sorted(off, reverse=True)
    errors = [row.curve_before.error for row, is_off in zip(rows, off) if is_off]
    assert errors == sorted(errors, reverse=True)
    assert part.note == f"{sum(off)} of 10 {'are' if sum(off) > 1 else 'is'} predicted too often or too rarely"


@pytest.mark.parametrize(
    ("differ", "judged", "k", "said"),
    [
        (
            0,
            12,
            100,
            "No diagrams: of the 12 classes with the largest miscalibration none is off beyond chance for 100",
        ),
        (0, 4, 4, "No diagrams: of all classes none is off beyond chance for 4 classes."),
        (4, 4, 4, "Before calibration, all classes are off beyond chance."),
        (2, 4, 4, "Shown are 2 of the 4 classes: those that are off beyond chance for 4 classes."),
        (3, 12, 100, "Shown are 3 of the 12 classes with the largest miscalibration: those that are off beyond chance"),
    ],
)
def test_which_classes_are_shown(differ: int, judged: int, k: int, said: str) -> None:
    assert sections.differing_classes(differ, judged, k).startswith(said)


def test_many_classes_have_top_5_accuracy(ten: Report) -> None:
    data = sharpened(1500, 10, 1.6)
    y = data.y.copy()
    y[np.flatnonzero(y == 3)[::3]] = 4
    among = np.argsort(-data.proba, axis=1)[:, :5] == y[:, None]
    row = next(row for row in ten.metrics if row.name == "top_5_accuracy")
    assert row.before.value == pytest.approx(among.any(axis=1).mean())
    assert row.before.low < row.before.value < row.before.high


@pytest.mark.usefixtures("every_resample")
def test_two_classes_have_auc_and_gini(rare: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row.name: row.before for row in rare.metrics}
    assert rows["gini"].value == pytest.approx(2 * rows["auroc"].value - 1)
    assert rows["gini"].low == pytest.approx(2 * rows["auroc"].low - 1)
    # With many rows the interval is DeLong's: nearly that of the bootstrap.
    rng = np.random.default_rng(3)
    p = rng.beta(1, 4, 3000).round(2)
    y = (rng.random(3000) < p).astype(int)
    data = Sample(np.column_stack([1 - p, p]), y, classes=np.arange(2))
    boot = {row.name: row.before for row in analysis._ranking_rows(data, data, 0.95)}["auroc"]
    monkeypatch.setattr(analysis, "MANY_UNITS", 100)
    delong = {row.name: row.before for row in analysis._ranking_rows(data, data, 0.95)}["auroc"]
    assert delong.value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert (delong.low, delong.high) == pytest.approx((boot.low, boot.high), abs=0.1 * (boot.high - boot.low))
    counted = Sample(data.values, y, np.full(3000, 3.0), classes=np.arange(2))
    wide = analysis._ranking_rows(counted, counted, 0.95)[0].before
    assert wide.high - wide.low == pytest.approx((delong.high - delong.low) / 3**0.5, rel=1e-9)
    one = Sample(data.values, np.zeros(3000, dtype=int), classes=np.arange(2))
    assert analysis._ranking_rows(one, one, 0.95) == []


def test_means_of_many_rows_have_normal_intervals() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=MANY_UNITS)
    data = Sample(np.full((MANY_UNITS, 2), 0.5), np.zeros(MANY_UNITS, dtype=int), classes=np.arange(2))
    (found,) = paired_intervals(values[:, None], data, 0.9)
    half = norm.ppf(0.95) * values.std() / MANY_UNITS**0.5
    assert (found.low, found.value, found.high) == pytest.approx(
        (values.mean() - half, values.mean(), values.mean() + half)
    )
    fewer = data.take(np.arange(MANY_UNITS - 1))
    (drawn,) = paired_intervals(values[:-1, None], fewer, 0.9)
    assert drawn.high - drawn.low == pytest.approx(2 * half, rel=0.15)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("many", [MANY_UNITS, 1])
def test_the_interval_of_a_share_is_that_of_a_ratio(size: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MANY_UNITS", many)
    rng = np.random.default_rng(0)
    n = 60 * size
    whole = np.repeat(rng.lognormal(0.0, 1.5, 60), size)
    part = whole * np.repeat(rng.normal(0.75, 0.1, 60), size)
    data = Sample(np.full((n, 2), 0.5), np.zeros(n, dtype=int), groups=np.arange(n) // size, classes=np.arange(2))
    found = share_interval(part, whole, data, 0.9)
    assert found.value == pytest.approx(part.sum() / whole.sum())
    # By the jackknife over groups.
    left = np.array([part[data.groups != g].sum() / whole[data.groups != g].sum() for g in range(60)])
    error = (59 / 60 * ((left - left.mean()) ** 2).sum()) ** 0.5
    half = norm.ppf(0.95) * error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), abs=0.2 * half)
    (difference,) = paired_intervals(part[:, None], data, 0.9)
    assert difference.high - difference.low > 3 * (found.high - found.low) * whole.mean()


def test_a_share_of_nothing_is_not_known() -> None:
    data = Sample(np.full((3, 2), 0.5), np.zeros(3, dtype=int), classes=np.arange(2))
    share = share_interval(np.zeros(3), np.zeros(3), data, 0.9)
    assert saving(Estimate(-1.0, -2.0, -0.5, 0.9), share).words == "of log loss, beyond chance"
    # Resamples without any loss tell nothing.
    assert share_interval(np.array([0.0, 0.0, 0.5]), np.array([0.0, 0.0, 1.0]), data, 0.9).low == 0.5


def test_decisions_at_given_costs(rare: Report) -> None:
    assert rare.decisions is not None
    part = section(rare, "decisions")
    found = rare.decisions.found
    assert part.values["rule"] == "Choose 'no' where the probability of 'yes' is below 4.8%, 'yes' above."
    assert part.values["found"] == str(found)
    assert part.note.startswith(f"{100 * found.changed / found.total:.1f}% change, ")
    chosen = part.values["ratios"][rare.decisions.chosen]
    assert (chosen["ratio"], chosen["row"].threshold) == ("20", pytest.approx(1 / 21))
    assert chosen["text"] == f"Act at a probability of 4.8% or more. {found}"
    page = render(rare)
    # What the slider shows is what Python computed, for each of its places.
    data = re.search(r'<script type="application/json" class="ratios">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data.group(1)) == [{key: one[key] for key in ("ratio", "text")} for one in part.values["ratios"]]
    assert 'type="range" min="0"' in page
    assert "script-src 'sha256-" in page
    assert "ratio" in rare.to_dict()["decisions"]["ratios"][0]


def test_the_slider_has_the_usual_ratios_and_that_of_the_costs() -> None:
    pair = [
        Sample(np.column_stack([1 - p, p]), np.tile([0, 1], 30)) for p in (np.linspace(0.1, 0.9, 60), np.full(60, 0.5))
    ]
    own = DecisionRule([[0, 14], [4, 0]])
    found = report_tables.decisions(*pair, own, 0.95)
    ratios = [row.ratio for row in found.ratios]
    assert ratios == sorted(
        [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 3.5, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000]
    )
    assert ratios[found.chosen] == 3.5
    # In units of a false alarm, which costs 4 here.
    assert found.ratios[found.chosen].found.before.value == pytest.approx(found.found.before.value / 4)
    assert found.ratios[found.chosen].threshold == pytest.approx(1 / 4.5)


def test_what_the_note_on_decisions_says(rare: Report) -> None:
    assert rare.decisions is not None

    def note(low: float, high: float, changed: float = 40.0) -> str:
        found = dataclasses.replace(
            rare.decisions.found, saved=Estimate((low + high) / 2, low, high, 0.95), changed=changed, total=400.0
        )
        made = dataclasses.replace(rare.decisions, found=found)
        return section(dataclasses.replace(rare, decisions=made), "decisions").note

    assert note(0.1, 0.3) == "10.0% change, calibration saves 0.2 per decision"
    assert note(-0.3, -0.1) == "10.0% change, calibration costs 0.2 per decision"
    assert note(-0.1, 0.3) == "10.0% change, no saving beyond chance"
    assert note(0.0, 0.0, 0.0) == "none changes"
    for of, why in (("rows", "too little data to tell"), ("one class", "only one class is present")):
        lacking = dataclasses.replace(rare, decisions=None, lack=Lack(of, ""))
        assert section(lacking, "decisions").note == why
        assert f"decisions is not shown: {why}." in render(lacking)
    failed = dataclasses.replace(rare, decisions=None)
    assert section(failed, "decisions").note == "no method could be fitted"
    assert sections.decisions(dataclasses.replace(rare, rule=None)) is None


@pytest.mark.usefixtures("every_resample")
@pytest.mark.parametrize("grouped", [False, True])
def test_ratios_of_counted_rows_equal_those_of_all_rows(grouped: bool) -> None:
    rng = np.random.default_rng(1)
    p, q = rng.beta(1, 5, 900), rng.beta(1, 5, 900)
    y, counts = (rng.random(900) < q).astype(int), rng.integers(1, 4, 900).astype(float)
    groups = np.arange(900) // 3 if grouped else None
    pair = [Sample(np.column_stack([1 - s, s]), y, counts, groups, np.arange(2)) for s in (p, q)]
    for row in by_ratio(*pair, [0.5, 3.0, 20.0], 0.9):
        rule = DecisionRule(false_positive=1, false_negative=row.ratio)
        whole = compare_decisions(y, p, q, rule, level=0.9, sample_weight=counts, groups=groups)
        for name in ("before", "after", "saved"):
            assert getattr(row.found, name).value == pytest.approx(getattr(whole, name).value, rel=1e-12)
        assert (row.found.changed, row.found.total) == (whole.changed, whole.total)
        width = whole.saved.high - whole.saved.low
        assert row.found.saved.high - row.found.saved.low == pytest.approx(width, rel=0.2)


def test_costs_in_python() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 5, 300)
    y = np.where(rng.random(300) < p, "yes", "no")
    made = CalibrationReport(y, p, classes=["no", "yes"], methods=["ts"], costs=RULE)
    assert made.contents.decisions is not None
    named = CalibrationReport(y, p, classes=["no", "yes"], methods=["ts"], costs={"no": {"yes": 20}, "yes": {"no": 1}})
    assert named.contents.decisions is not None
    assert named.contents.decisions.found == made.contents.decisions.found
    with pytest.raises(ValueError, match="a report needs costs that are numbers"):
        CalibrationReport(y, p, classes=["no", "yes"], costs=[[0, "amount"], [1, 0]])
    with pytest.raises(ValueError, match="the rule has costs for"):
        CalibrationReport(y, p, classes=["no", "yes"], costs=DecisionRule([[0, 1], [1, 0]], classes=["a", "b"]))
    bands = made.tables["bands"]
    assert {"score", "frequency", "low", "high", "weight", "p_value"} <= set(bands.columns)
    # Three actions have no slider.
    three = DecisionRule({"go": {"yes": 9}, "stop": {"no": 3}, "ask": 1}, classes=["no", "yes"])
    page = CalibrationReport(y, p, classes=["no", "yes"], methods=["ts"], costs=three).to_html()
    assert "decisions change" in page or "No decision changes" in page
    assert 'type="range"' not in page
    assert "<script" not in page


def test_the_map_has_a_band_where_there_are_intervals(rare: Report) -> None:
    found = rare.binary_map
    assert found is not None
    assert found.by == "delta"
    assert found.low is not None
    assert found.high is not None
    assert ((found.low <= found.after) & (found.after <= found.high)).all()
    page = render(rare)
    assert "what the method would predict with unlimited rows (delta method), if rows are independent." in page
    again = dataclasses.replace(found, by="bootstrap")
    assert "from fits to resamples; with few rows they are too narrow." in render(
        dataclasses.replace(rare, binary_map=again)
    )
    bare = dataclasses.replace(rare, binary_map=dataclasses.replace(found, by="", low=None, high=None))
    assert "The band and the small print" not in render(bare)


def test_grades_and_bands_are_counted_alike() -> None:
    said = [sections._how_many(off, 5) for off in (0, 1, 2)]
    assert said == ["none of 5 is", "1 of 5 is", "2 of 5 are"]


@pytest.mark.parametrize(
    ("means", "slope", "rest", "shown", "lack", "note"),
    [
        ((0.02, 0.01), (0.01, 0.01), (0.0, 0.9), "ts", None, "mostly the means"),
        ((0.02, 0.05), (0.01, 0.01), (0.0, 0.9), "ts", None, "the slope is off"),  # larger means, but not proven
        ((0.01, 0.01), (0.02, 0.01), (0.0, 0.9), "ts", None, "mostly the slope"),
        ((0.01, 0.01), (0.0, 0.9), (0.02, 0.01), "ts", None, "neither means nor slope"),
        # Without a method nothing is said of the rest, and without rows nothing of what costs most.
        ((0.01, 0.01), (0.0, 0.9), (0.02, 0.01), "none", None, "the means are off"),
        ((0.01, 0.01), (0.0, 0.9), (0.0, 0.9), "ts", Lack("rows", ""), "the means are off"),
        ((0.0, 0.9), (0.0, 0.9), (0.02, 0.01), "none", None, "nothing proven"),
    ],
)
def test_what_is_wrong_in_a_note(
    rare: Report,
    means: tuple[float, float],
    slope: tuple[float, float],
    rest: tuple[float, float],
    shown: str,
    lack: Lack | None,
    note: str,
) -> None:
    parts = {name: Part(*part, 1.0) for name, part in (("means", means), ("slope", slope), ("rest", rest))}
    found = dataclasses.replace(rare, faults=dataclasses.replace(rare.faults, **parts), shown=shown, lack=lack)
    assert section(found, "faults").note == note


def test_probabilities_whose_calibrated_values_are_listed(rare: Report) -> None:
    listed = [before for before, _, _ in section(rare, "map").values["mapped"]]
    assert listed == pytest.approx([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])


@pytest.mark.parametrize(
    ("cells", "groups", "folds"), [(150_000, 9, 5), (150_001, 9, 3), (600_000, 9, 3), (600_001, 9, 2), (10, 2, 2)]
)
def test_many_predictions_need_fewer_folds(cells: int, groups: int, folds: int) -> None:
    assert comparison.n_folds(SimpleNamespace(proba=SimpleNamespace(size=cells), n_groups=groups)) == folds


def test_a_class_that_a_sample_lacks_is_counted_by_the_rows() -> None:
    p = np.tile([0.2, 0.3, 0.5], (40, 1))
    every = Sample(p, np.repeat([0, 1, 2], [10, 10, 20]), classes=np.arange(3))
    some = Sample(p[:8], np.repeat([1, 2], 4), classes=np.arange(3))
    pairs = [(data, class_frequencies(data)) for data in (every, some)]
    rows = report_tables.class_rows(pairs[0], pairs[1], ["a", "b", "c"], 0.95)
    # The 8 rows of the sample stand for 40 where the class is absent, else for as many as the class has.
    assert [row.before.expected for row in rows] == pytest.approx([8.0, 12.0, 20.0])
    assert [row.after.expected for row in rows] == pytest.approx([8.0, 2.4 * 10 / 4, 4.0 * 20 / 4])


def test_the_note_on_costs_of_the_other_way_round() -> None:
    p = np.linspace(0.05, 0.95, 60)
    data = Sample(np.column_stack([1 - p, p]), (p > 0.4).astype(int), classes=np.arange(2))
    # A missed case that costs less than the alarm it saves is no ratio, though an alarm costs more than none.
    for costs in ([[0, 1], [2, 3]], [[2, 3], [0, 1]]):
        assert report_tables.decisions(data, data, DecisionRule(costs), 0.95).ratios == ()


def test_dominance_in_words() -> None:
    y, p = np.repeat([0, 1], 50), np.repeat([0.2, 0.4, 0.6, 0.8], 25)
    found = murphy_diagram(y, p, np.full(100, 0.5))
    nowhere = sections.dominance(found)
    drawn = "at the thresholds drawn, beyond chance they are"
    assert nowhere.startswith(f"On these rows calibrated predictions are nowhere worse; {drawn} better between")
    assert sections.dominance(murphy_diagram(y, np.full(100, 0.5), p)).startswith(
        f"On these rows calibrated predictions are nowhere better; {drawn} worse between"
    )
    assert sections.dominance(murphy_diagram(y, p, p)) == "On these rows calibration changes no score."
    few = murphy_diagram([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], [0.4, 0.4, 0.6, 0.6], thresholds=[0.5])
    said = "On these rows calibrated predictions are nowhere worse; at the thresholds drawn, no difference is beyond "
    said += "chance."
    assert sections.dominance(few) == said
    mixed = sections.dominance(dataclasses.replace(found, dominance="neither", worse=0.25))
    assert mixed.startswith("On these rows calibrated predictions are worse at 25% of all thresholds; ")


def test_log_odds_axes_are_a_choice() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 60, 600)
    y = (rng.random(600) < p).astype(int)
    plain, chosen = (CalibrationReport(y, p, methods=["ts"], log_odds=wanted) for wanted in (False, True))
    assert not plain.contents.reliability_before.corp.axis.log_odds
    assert chosen.contents.reliability_before.corp.axis.log_odds
    assert "log-odds scale" in chosen.to_html()
    assert "log-odds scale" not in plain.to_html()


def test_a_two_class_page_is_small(rare: Report) -> None:
    assert len(render(rare).encode()) < 400_000


def test_stability_of_batches_in_the_page_of_a_monitor() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 9, 1500)
    monitor = CalibrationMonitor(get_calibrator("affine").fit(p, (rng.random(1500) < p).astype(int)))
    for month in range(1, 4):
        q = rng.beta(1, 9, 300)
        monitor.update(q, (rng.random(300) < (q if month < 3 else 3 * q)).astype(int), batch=f"2026-0{month}")
        assert ("Stability over time" in watching.render(monitor, "c.json")) == (month > 1)
    svg = stability(monitor.history_.records)
    # Batches whose interval leaves out one are squares.
    assert svg.count("<circle") == 2
    assert "January 2026" in svg
    assert "Observed over expected number of class 1, batch by batch" in watching.render(monitor, "c.json")
