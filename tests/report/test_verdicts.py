"""Every sentence of the report, and when it is said: the evidence is written by hand, nothing is fitted."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.metrics.frequencies import ClassFrequencies
from calibrant.metrics.result_types import Estimate, ReliabilityCurve
from calibrant.metrics.slope import Miscalibration, Part
from calibrant.numerals import p_text
from calibrant.report.advice import AS_THEY_ARE, NOTHING_GAINED, lacking, next_steps, rarely_seen
from calibrant.report.analysis import counted_row
from calibrant.report.data import Lack, MethodRow, NextStep, SegmentRow, Source, Verdict
from calibrant.report.verdict_words import Evidence, verdict
from calibrant.sample import Sample, Size

CALM = Part(0.0, 0.9, 0.0)
CLEAR = Part(0.05, 0.001, 20.0)
NONE = Estimate(0.0, 0.0, 0.0, 0.95)
FEW = Lack("classes", "3 rows of yes are too few.")
ONE = Lack("one class", "All rows belong to yes.")


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 0.95)


def frequencies(expected: list[float], observed: list[float], p_value: float = 0.5) -> ClassFrequencies:
    counts, seen = np.array(expected, dtype=float), np.array(observed, dtype=float)
    ratio = counts / np.maximum(seen, 1e-9)
    names = tuple(range(len(counts)))
    return ClassFrequencies(names, counts, seen, ratio, 0.9 * ratio, 1.1 * ratio, np.full(len(counts), p_value), 0.95)


def table(label: object = 1, *, score: tuple[float, ...] = (0.2, 0.6), off: bool = False) -> ReliabilityCurve:
    """Two bins, the second of which may be off: 0.6 predicted, 0.4 observed."""
    scores = np.array(score)
    frequency = np.where(np.arange(len(scores)) == 1, 0.4 if off else scores, scores)
    n = len(scores)
    return ReliabilityCurve(
        maker="bins",
        at=scores,
        error=float(np.mean(np.abs(frequency - scores))),
        score=scores,
        frequency=frequency,
        low=frequency - 0.05,
        high=frequency + 0.05,
        histogram=np.ones(20),
        kind="binary" if label is not None else "top-label",
        label=label,
        level=0.95,
        lower=np.linspace(0, 1, n + 1)[:-1],
        upper=np.linspace(0, 1, n + 1)[1:],
        weight=np.full(n, 100.0),
    )


def faults(counted: ClassFrequencies, fitted: float = 1.0, **parts: Part) -> Miscalibration:
    made = {"means": CALM, "slope": CALM, "rest": CALM, **parts}
    k = len(counted.expected)
    return Miscalibration(
        **made, fitted_slope=estimate(fitted, fitted - 0.1, fitted + 0.1), intercepts=np.zeros(k), frequencies=counted
    )


def evidence(k: int = 2, **given: Any) -> Evidence:
    """Calibrated predictions of 200 rows, but for what is given."""
    names = ("no", "yes", "maybe", "never", "often", "both")[:k]
    counted = frequencies([200 / k] * k, [200 / k] * k)
    plain = Evidence(
        names,
        Size(200),
        faults(counted),
        table(1 if k == 2 else None),
        estimate(0.7, 0.6, 0.8),
        estimate(0.0, -0.05, 0.05),
        0.5,
        0.4,
        MethodRow("auto", "", 0.4, NONE, NONE, fitted=0.8),
        "auto",
    )
    return replace(plain, **given)


def gain(value: float, low: float, high: float, log_loss: float = 0.35) -> MethodRow:
    return MethodRow("ts", "", log_loss, estimate(value, low, high), NONE, fitted=0.8)


def segment(name: str, gap: float, *, off: bool) -> SegmentRow:
    found = estimate(gap, gap - 0.01, gap + 0.01)
    return SegmentRow(name, Size(50), NONE, found, found, off, off, NONE, NONE)


@pytest.mark.parametrize(
    ("given", "tone", "headline"),
    [
        ({}, "good", "No evidence of miscalibration"),
        ({"lack": FEW}, "fair", "No evidence of miscalibration, but too few rows of some classes to tell"),
        ({"lack": ONE}, "fair", "No evidence of miscalibration, but only one class is present"),
        ({"lack": Lack("rows", "")}, "fair", "Too few rows to tell"),
        ({"lack": Lack("groups", "")}, "fair", "Too few groups to tell"),
        (
            {"lack": Lack("groups", ""), "p_value": 0.01},
            "fair",
            "The probabilities are wrong, but there are too few groups to tell how",
        ),
        ({"gain": gain(0.05, 0.01, 0.09)}, "fair", "Perhaps miscalibrated: the evidence is mixed"),
        (
            {"segments": [segment("west", 0.1, off=True), segment("east", 0.0, off=False)]},
            "fair",
            "No evidence of miscalibration overall, but 1 of 2 segments is off",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([150, 50], [100, 100]), means=CLEAR)},
            "fair",
            "Predicts 25.0% for yes, actually 50.0%: 2.0 times too few",
        ),
        (
            {
                "p_value": 0.01,
                "found": faults(frequencies([150, 50], [100, 100]), means=CLEAR),
                "gain": gain(0.05, 0.01, 0.09),
            },
            "bad",
            "Predicts 25.0% for yes, actually 50.0%: 2.0 times too few",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR)},
            "fair",
            "The probabilities of yes are too extreme",
        ),
        # A band that is off beyond chance says it in numbers.
        (
            {
                "p_value": 0.01,
                "found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR),
                "table": table(off=True),
            },
            "fair",
            "Where it says 60.0%, 40.0% are actually yes: too extreme",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), rest=CLEAR), "table": table(off=True)},
            "fair",
            "Where it says 60.0%, 40.0% are actually yes",
        ),
        (
            {
                "p_value": 0.01,
                "found": faults(frequencies([1, 1], [1, 1]), -1.0, slope=CLEAR),
                "table": table(off=True),
            },
            "fair",
            "The probabilities of yes point the wrong way",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), 2.0, slope=CLEAR)},
            "fair",
            "The probabilities of yes are too close to the average",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), -1.0, slope=CLEAR)},
            "fair",
            "The probabilities of yes point the wrong way",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), rest=CLEAR)},
            "fair",
            "The probabilities of yes are wrong in some ranges",
        ),
        (
            {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), rest=CLEAR), "ruled_out": (2, 0.2)},
            "fair",
            "The predictions rule out classes that occur",
        ),
        # Predictions that are all equal have no slope, and few rows of a class no rest.
        (
            {
                "p_value": 0.01,
                "found": faults(frequencies([180, 20], [100, 100]), slope=CLEAR),
                "table": table(score=(0.1,)),
                "equal": True,
            },
            "fair",
            "Predicts 10.0% for yes, actually 50.0%: 5.0 times too few",
        ),
        (
            {
                "p_value": 0.01,
                "lack": FEW,
                "found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=Part(0.01, 0.01, 9.0), rest=CLEAR),
            },
            "fair",
            "The probabilities of yes are too extreme",
        ),
    ],
)
def test_headlines_of_two_classes(given: dict[str, Any], tone: str, headline: str) -> None:
    judged = verdict(evidence(**given))
    assert (judged.tone, judged.headline) == (tone, headline)


@pytest.mark.parametrize(
    ("found", "gap", "headline"),
    [
        (
            faults(frequencies([150, 25, 25], [50, 75, 75], 0.001), means=CLEAR),
            NONE,
            "Predicts 75.0% for no, actually 25.0%: 3.0 times too many",
        ),
        (
            faults(frequencies([70, 65, 65], [66, 67, 67]), means=CLEAR),
            NONE,
            "Some classes are predicted too often, others too rarely",
        ),
        (
            faults(frequencies([1] * 3, [1] * 3), 0.5, slope=CLEAR),
            estimate(0.1, 0.05, 0.15),
            "Claims 80.0%, right 70.0%: over-confident",
        ),
        (
            faults(frequencies([1] * 3, [1] * 3), 2.0, slope=CLEAR),
            estimate(-0.1, -0.15, -0.05),
            "Claims 60.0%, right 70.0%: under-confident",
        ),
        # A gap that may be chance, or that points the other way, is not in the headline.
        (faults(frequencies([1] * 3, [1] * 3), 0.5, slope=CLEAR), NONE, "The predictions are too extreme"),
        (
            faults(frequencies([1] * 3, [1] * 3), 1.5, slope=CLEAR),
            estimate(0.1, 0.05, 0.15),
            "The predictions are too close to the average",
        ),
        (
            faults(frequencies([1] * 3, [1] * 3), rest=CLEAR),
            NONE,
            "The predictions are wrong for some classes or in some ranges",
        ),
    ],
)
def test_headlines_of_three_classes(found: Miscalibration, gap: Estimate, headline: str) -> None:
    assert verdict(evidence(3, p_value=0.01, found=found, gap=gap)).headline == headline


WRONG = {"p_value": 0.01}


@pytest.mark.parametrize(
    ("k", "given", "said"),
    [
        (2, {}, "On 200 rows the predicted probability of yes is 50.0% on average, and 50.0% are actually yes: 100 e"),
        (
            2,
            {"found": faults(frequencies([150, 50], [100, 100], 0.01))},
            "100 observed, a ratio of 0.5 (95% interval 0.45 to 0.55).",
        ),
        (3, {}, "On 200 rows the predictions claim to be right 70.0% of the time and are right 70.0% of the time."),
        (
            3,
            {"gap": estimate(0.1, 0.05, 0.15)},
            "right 70.0% of the time: they are over-confident by 10.0 percentage points (95% interval 5.0 to 15.0).",
        ),
        (3, {"gap": estimate(-0.1, -0.15, -0.05)}, "under-confident by 10.0 percentage points (95% interval 5.0 to 15"),
        (2, {}, "If rows are independent, a test of calibration finds nothing wrong (p = 0.5)."),
        (2, WRONG, "If rows are independent, a test of calibration finds the probabilities wrong (p = 0.01)."),
        (
            2,
            {"size": Size(200, groups=40), **WRONG},
            "If groups are independent, a test of calibration finds the probabilities wrong (p = 0.01).",
        ),
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR), "gain": gain(0.05, 0.01, 0.09)},
            "If rows are independent, a test of calibration alone does not prove it (p = 0.5).",
        ),
        (
            2,
            {"gain": gain(0.05, 0.01, 0.09)},
            "If rows are independent, a test of calibration, however, finds nothing wrong (p = 0.5).",
        ),
        (
            2,
            {},
            "This is not proof: with this many rows, an error of the average probability of yes shows only if it is "
            "larger than about 7.1 percentage points; one of 1 point takes about 10,000 rows.",
        ),
        (
            3,
            {"gap": estimate(0.0, -0.005, 0.005), "size": Size(20_000, groups=900)},
            "This is not proof: with this many groups, an error of the average confidence shows only if it is larger "
            "than about 0.71 percentage points.",
        ),
        (2, {"gap": NONE}, "This is not proof: with few rows, small errors stay hidden."),
        (
            2,
            {"ruled_out": (1, 0.1), **WRONG},
            "In 1 row the class that occurs was given a probability of zero (below 1e-15); it alone makes 25% of log l",
        ),
        (2, {"ruled_out": (7, 0.1), **WRONG}, "In 7 rows the class that occurs was given a probability of zero"),
        (2, {"ruled_out": (7, 0.1), **WRONG}, "they alone make 25% of log loss."),
        (
            3,
            {"found": faults(frequencies([150, 25, 25], [50, 75, 75], 0.001), means=CLEAR), **WRONG},
            "Predicted too often: no (150 expected, 50 observed).",
        ),
        (
            6,
            {"found": faults(frequencies([150] + [10] * 5, [50] + [30] * 5, 0.001), means=CLEAR), **WRONG},
            "often (10 expected, 30 observed) and 1 more.",
        ),
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR), **WRONG},
            "The predictions are too extreme: high probabilities are too high, low ones too low. The slope, fitted "
            "with intercepts, is 0.50 (ideal: 1; 95% interval 0.40 to 0.60).",
        ),
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), 2.0, slope=CLEAR), **WRONG},
            "The predictions are too close to the average: high probabilities are too low, low ones too high.",
        ),
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), -1.0, slope=CLEAR), **WRONG},
            "The predictions point the wrong way: the slope is −1.00 (95% interval −1.10 to −0.90). Are columns "
            "swapped?",
        ),
        (
            2,
            {
                "found": faults(frequencies([1, 1], [1, 1]), 0.5, means=CLEAR, slope=Part(0.02, 0.001, 9.0)),
                **WRONG,
            },
            "Apart from that the predictions are too extreme",
        ),
        # The high band is too low, not too high.
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), 2.0, slope=CLEAR), "table": table(off=True), **WRONG},
            "The slope, fitted with intercepts, is 2.00 (ideal: 1; 95% interval 1.90 to 2.10), but not all "
            "probabilities are off as it says: low probabilities are not too high (20.0% predicted, 20.0% observed), "
            "high probabilities are not too low (60.0% predicted, 40.0% observed).",
        ),
        (
            2,
            {
                "found": faults(frequencies([1, 1], [1, 1]), 2.0, means=CLEAR, slope=Part(0.02, 0.001, 9.0)),
                "table": table(off=True),
                **WRONG,
            },
            "Apart from that the slope, fitted with intercepts, is 2.00 (ideal: 1; 95% interval 1.90 to 2.10).",
        ),
        (
            2,
            {"found": faults(frequencies([1, 1], [1, 1]), rest=CLEAR), "table": table(off=True), **WRONG},
            "The largest error is where the predictions give a probability between 0.50 and 1.00: 60.0% on average, "
            "but 40.0% are actually yes.",
        ),
        (
            3,
            {"found": faults(frequencies([1] * 3, [1] * 3), rest=CLEAR), "table": table(None, off=True), **WRONG},
            "give a confidence between 0.50 and 1.00: 60.0% on average, but they are right 40.0% of the time.",
        ),
        (2, {"gain": None}, "No method could be fitted."),
        (2, {"lack": FEW}, FEW.text),
        (3, {"rare": "1 class has fewer than 10 rows."}, "1 class has fewer than 10 rows."),
        (
            2,
            {"gain": gain(0.05, 0.01, 0.09)},
            "Calibration with ts lowers log loss from 0.400 to 0.350, by 12.5% (95% interval of the difference 0.0100 "
            "to 0.0900), on rows that took no part in its fit or in any choice, and with fits to 80% of "
            "the rows.",
        ),
        (2, {"gain": gain(2e-5, 1e-5, 3e-5, 0.39998)}, "lowers log loss from 0.40000 to 0.39998, by 0.0%"),
        (2, {"gain": gain(-0.04, -0.06, -0.02)}, "Calibration with ts would make log loss worse here, by 10.0%."),
        (
            2,
            {"gain": gain(-0.04, -0.06, -0.02), "log_loss": 0.0},
            "Calibration with ts would make log loss worse here, by 0.04.",
        ),
        (
            2,
            {"gain": gain(0.01, -0.01, 0.03)},
            "Calibration with ts changes log loss by −0.0100, no more than chance explains (95% interval −0.0300",
        ),
        (2, {"recommended": "none"}, NOTHING_GAINED),
        (
            2,
            {"segments": [segment("west", 0.1, off=True), segment("east", 0.0, off=False)]},
            "In 1 of 2 segments the probability of yes is off by more than chance: west (10.0 percentage points too hi",
        ),
        (
            3,
            {"segments": [segment(name, -0.1, off=True) for name in "abcdef"]},
            "In all 6 segments the confidence is off by more than chance: a (10.0 percentage points too low), b",
        ),
        (3, {"segments": [segment(name, -0.1, off=True) for name in "abcdef"]}, " too low) and 2 more."),
    ],
)
def test_sentences(k: int, given: dict[str, Any], said: str) -> None:
    sentences = verdict(evidence(k, **given)).sentences
    assert any(said in sentence for sentence in sentences), sentences
    assert all(re.fullmatch(r"[A-Z0-9].*[.?]", sentence) for sentence in sentences), sentences


@pytest.mark.parametrize(("saved", "tone"), [(0.0039, "fair"), (0.0041, "bad")])
def test_a_gain_of_a_hundredth_of_the_loss_is_bad(saved: float, tone: str) -> None:
    found = faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR)
    given = {"found": found, "p_value": 0.01, "gain": gain(saved, 0.5 * saved, 2 * saved)}
    assert verdict(evidence(**given, log_loss=0.4)).tone == tone


def test_the_class_that_costs_most_is_named_first() -> None:
    counted = frequencies([100, 5, 95], [50, 20, 130], 0.001)
    said = verdict(evidence(3, found=faults(counted, means=CLEAR), p_value=0.01))
    assert said.headline.startswith("Predicts 50.0% for no, actually 25.0%")
    assert "Predicted too rarely: yes (5 expected, 20 observed), maybe (95 expected, 130 observed)." in said.sentences


@pytest.mark.parametrize(("gain", "said"), [(0.003, True), (0.0025, False), (0.002, False)])
def test_a_second_fault_is_named_if_it_costs_a_twentieth_of_the_first(gain: float, said: bool) -> None:
    counted = frequencies([150, 50], [100, 100], 0.001)
    found = faults(counted, 0.8, means=CLEAR, slope=Part(gain, 0.001, 20.0))
    sentences = verdict(evidence(p_value=0.01, found=found)).sentences
    assert any(sentence.startswith("Apart from that") for sentence in sentences) == said
    unproven = faults(counted, 0.8, means=CLEAR, slope=Part(gain, 0.2, 1.0))
    assert "Apart from that" not in " ".join(verdict(evidence(p_value=0.01, found=unproven)).sentences)


@pytest.mark.parametrize(
    ("names", "expected", "observed", "p_value", "which", "ratio"),
    [
        (["no", "yes"], [90, 10], [80, 20], [0.001, 0.5], "yes", 0.5),
        # No ratio is known of a class that never occurs.
        (["a", "b", "c"], [10, 20, 30], [10, 0, 50], [0.5, 1e-9, 0.01], "c, the worst", 0.6),
    ],
)
def test_the_ratio_is_of_the_second_of_two_classes_or_of_the_worst(
    names: list[str], expected: list[float], observed: list[float], p_value: list[float], which: str, ratio: float
) -> None:
    found = faults(replace(frequencies(expected, observed), p_value=np.array(p_value)))
    row = counted_row(names, [found, found], 0.95)
    assert row.title == f"Expected over observed count of {which}"
    assert (row.before.low, row.before.value, row.before.high) == pytest.approx((0.9 * ratio, ratio, 1.1 * ratio))


def test_what_is_not_said() -> None:
    """Without evidence nothing is called wrong, and without rows nothing is gained."""
    calm = " ".join(verdict(evidence(3)).sentences)
    for word in ("too often", "slope", "largest error", "ruled", "confident"):
        assert word not in calm
    few = verdict(evidence(gain=gain(0.05, 0.01, 0.09), lack=Lack("rows", "6 rows are too few."))).sentences
    assert not any("lowers" in sentence for sentence in few)
    assert few[-1] == "6 rows are too few."
    calibrated = faults(frequencies([1] * 2, [1] * 2), rest=CLEAR)
    assert not any("largest error" in said for said in verdict(evidence(p_value=0.01, found=calibrated)).sentences)


BAD, GOOD = Verdict("bad", "", ()), Verdict("good", "", ())
FILE = Source("p.csv", ("my file.csv", "--label", "y"), check=("--label", "y"))
FIT = "calibrant fit 'my file.csv' --label y --method ts"
AGAIN = "calibrant report 'my file.csv' --label y -o report.html"


@pytest.mark.parametrize(
    ("judged", "recommended", "given", "expected"),
    [
        (BAD, "none", {"lack": FEW}, [NextStep("Collect more rows before you calibrate, then run this again", AGAIN)]),
        (
            BAD,
            "none",
            {"lack": ONE},
            [NextStep("Collect rows of another class before you calibrate, then run this again", AGAIN)],
        ),
        (BAD, "none", {}, [NextStep(AS_THEY_ARE, AGAIN)]),
        (
            GOOD,
            "ts",
            {},
            [
                NextStep(AS_THEY_ARE, AGAIN),
                NextStep("Calibration does little here; if you want it anyway", f"{FIT} -o calibrator.json"),
            ],
        ),
        (
            BAD,
            "ts",
            {},
            [
                NextStep("Learn the calibrator from all these rows", f"{FIT} -o calibrator.json"),
                NextStep(
                    "Apply it to new predictions of the same model",
                    "calibrant apply calibrator.json NEW.csv -o CALIBRATED.csv",
                ),
                NextStep(
                    "Check it on rows that were not used here", "calibrant evaluate CALIBRATED.csv --label y --ci"
                ),
            ],
        ),
    ],
)
def test_next_steps(judged: Verdict, recommended: str, given: dict[str, Any], expected: list[NextStep]) -> None:
    assert next_steps(judged, recommended, FILE, **given) == expected


def test_next_steps_by_segment_and_without_a_file() -> None:
    first = next_steps(BAD, "none", FILE, segments="home town")[0]
    assert (
        first.text == "Learn the calibrator from all these rows, corrected in each home town: with one calibrator "
        "for all, some stay off"
    )
    assert first.command.endswith("--method none --segments 'home town' -o calibrator.json")
    unnamed = next_steps(BAD, "none", Source("p"))[0].command
    assert unnamed == "calibrant report PREDICTIONS --label LABEL -o report.html"


@pytest.mark.parametrize(
    ("judged", "recommended", "given", "first"),
    [
        (BAD, "none", {"lack": FEW}, NextStep("Collect more rows before you calibrate")),
        (BAD, "none", {"lack": ONE}, NextStep("Collect rows of another class before you calibrate")),
        (BAD, "none", {}, NextStep(AS_THEY_ARE)),
        (GOOD, "ts", {}, NextStep(AS_THEY_ARE)),
        (
            BAD,
            "ts",
            {},
            NextStep(
                "Learn the calibrator from all these rows",
                'calibrator = calibrant.get_calibrator("ts", classes=classes).fit(y_prob, y_true, groups=groups)',
            ),
        ),
    ],
)
def test_steps_in_python(judged: Verdict, recommended: str, given: dict[str, Any], first: NextStep) -> None:
    source = Source("p", ("groups", "classes"), in_python=True)
    steps = next_steps(judged, recommended, source, **given)
    assert steps[0] == first
    words = ["See what it found", "Apply it to new predictions of the same model", "Keep it"]
    assert [step.text for step in steps[-3:]] == words or recommended == "none"


@pytest.mark.parametrize(
    ("n", "classes", "groups", "of", "said"),
    [
        (6, 2, None, "rows", "6 rows are too few to tell what calibration would gain: at least 50 are needed."),
        (1, 2, None, "rows", "1 row is too few to tell"),
        (60, 2, 3, "groups", "3 groups are too few to tell what calibration would gain: at least 20 are needed."),
        (60, 2, 1, "groups", "1 group is too few to tell"),
        (60, 1, None, "one class", "All rows belong to no: at least 10 rows of another class are needed to tell what"),
    ],
)
def test_too_little(n: int, classes: int, groups: int | None, of: str, said: str) -> None:
    numbers = np.arange(n)
    y = numbers % classes
    data = Sample(np.full((n, 2), 0.5), y, groups=None if groups is None else numbers % groups)
    found = lacking(data, ("no", "yes"))
    assert found is not None
    assert found.of == of
    assert found.text.startswith(said)


@pytest.mark.parametrize(
    ("k", "others", "said"),
    [
        (
            2,
            1,
            "1 row of yes is too few to tell what calibration would gain: at least 10 are needed, which takes about "
            "1,000 rows like these.",
        ),
        (
            2,
            3,
            "3 rows of yes are too few to tell what calibration would gain: at least 10 are needed, which takes about "
            "340 rows like these.",
        ),
        (3, 4, "4 rows of classes other than no are too few to tell what calibration would gain"),
    ],
)
def test_one_class_too_rare(k: int, others: int, said: str) -> None:
    y = np.where(np.arange(100) < others, 1 + np.arange(100) % (k - 1), 0)
    found = lacking(Sample(np.full((100, k), 1 / k), y), ("no", "yes", "maybe")[:k])
    assert found is not None
    assert found.text.startswith(said)


def test_enough_says_nothing() -> None:
    y = np.arange(100) % 2
    assert lacking(Sample(np.full((100, 2), 0.5), y), ("no", "yes")) is None
    assert rarely_seen(Sample(np.full((100, 2), 0.5), np.zeros(100, dtype=int))) == ""


def test_rare_classes_of_many() -> None:
    def said(few: int) -> str:
        return rarely_seen(Sample(np.full((60, 4), 0.25), np.repeat(np.arange(4), [58 - few, 1, 1, few])))

    assert said(5) == "3 of 4 classes have fewer than 10 rows, too few to judge them alone."
    assert said(20) == "2 of 4 classes have fewer than 10 rows, too few to judge them alone."


def test_a_band_in_the_headline_of_many_classes() -> None:
    found = faults(frequencies([1] * 3, [1] * 3), rest=CLEAR)
    said = verdict(evidence(3, p_value=0.01, found=found, table=table(None, off=True)))
    assert said.headline == "Where it claims 60.0%, it is right 40.0% of the time"


def test_p_values_that_draws_bound_say_so() -> None:
    said = verdict(evidence(p_value=0.001, draws=999)).sentences
    assert any("wrong (p ≤ 0.001, as small as 999 draws can tell)." in sentence for sentence in said)
    assert any("wrong (p = 0.002)." in sentence for sentence in verdict(evidence(p_value=0.002, draws=999)).sentences)
    assert p_text(1 / 400, 399) == "p ≤ 0.0025, as small as 399 draws can tell"
    assert p_text(2 / 400, 399) == "p = 0.005"
    # Some tests have a tail beyond their draws.
    assert p_text(1e-20, 399) == "p < 0.001"


def test_p_values_in_words() -> None:
    assert [p_text(p) for p in (1.0, 0.05, 0.001, 0.0009)] == ["p = 1", "p = 0.05", "p = 0.001", "p < 0.001"]


def test_the_example_of_a_headline_is_off_as_it_says() -> None:
    found = np.array([0.17, 0.75, 0.8])
    # The band at 0.6 has the largest error, but is too low: no example of predictions that are too extreme.
    mixed = replace(table(score=(0.05, 0.6, 0.9)), frequency=found, low=found - 0.05, high=found + 0.05)
    given = {"p_value": 0.01, "found": faults(frequencies([1, 1], [1, 1]), 0.5, slope=CLEAR)}
    judged = verdict(evidence(**given, table=mixed))
    assert judged.headline == "Where it says 5.0%, 17.0% are actually yes: too extreme"
    assert any("high probabilities are too high, low ones too low" in said for said in judged.sentences)
    found = np.array([0.17, 0.75, 0.99])
    judged = verdict(evidence(**given, table=replace(mixed, frequency=found, low=found - 0.05, high=found + 0.01)))
    assert judged.headline == "Where it says 60.0%, 75.0% are actually yes"
    low, high = "low probabilities are too low (5.0% predicted, 17.0%", "high probabilities are not too high (90.0%"
    assert any(low in said and high in said for said in judged.sentences)
