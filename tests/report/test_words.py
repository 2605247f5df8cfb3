"""The verdict's words on predictions whose fault is known: two classes and more, rare and balanced, both directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from calibrant import AutoCalibrator
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.slope import Part
from calibrant.report import analysis
from calibrant.report.advice import worth_of_rows
from calibrant.report.analysis import Source, analyse
from calibrant.report.data import Learning, MethodRow, Report
from calibrant.report.page import render
from calibrant.report.verdict_words import MIXED_EVIDENCE, Evidence, verdict
from calibrant.sample import Sample, Size


def two(centre: float, predict: Callable[[np.ndarray], np.ndarray], n_rows: int = 800) -> Sample:
    """Log-odds of the truth are normal around `centre`; the model turns them into others."""
    rng = np.random.default_rng(0)
    z = rng.normal(centre, 1.5, n_rows)
    y = (rng.random(n_rows) < expit(z)).astype(int)
    p = expit(predict(z))
    return Sample(np.column_stack([1 - p, p]), y, None, classes=np.arange(2))


def many(predict: Callable[[np.ndarray], np.ndarray], prior: list[float], n_rows: int = 800) -> Sample:
    rng = np.random.default_rng(0)
    z = 1.5 * rng.standard_normal((n_rows, len(prior))) + np.log(prior)
    y = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return Sample(softmax(predict(z), axis=1), y, None, classes=np.arange(len(prior)))


def tilted(slope: float) -> Callable[[np.ndarray], np.ndarray]:
    """Log-odds times `slope`, shifted so that the mean probability stays what it is."""

    def predict(z: np.ndarray) -> np.ndarray:
        shift = brentq(lambda b: float((expit(slope * z + b) - expit(z)).mean()), -50.0, 50.0)
        return slope * z + shift

    return predict


def report(data: Sample, methods: tuple[str, ...] = ("logistic",)) -> Report:
    names = ["no", "fraud"] if data.n_classes == 2 else ["ant", "bee", "cat", "dog"]
    return analyse(data, names, Source("data.csv"), methods=methods)


@pytest.fixture
def _verdict_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the verdict does not rest on: curves over thresholds, maps, and what more rows would add."""
    monkeypatch.setattr(analysis, "thresholds", lambda *_: None)
    monkeypatch.setattr(analysis, "corrections", lambda *_: (None, None))
    monkeypatch.setattr(analysis, "learning", lambda *_: None)


BALANCED = [0.25] * 4
RARE = [0.33, 0.33, 0.33, 0.01]
UP = np.array([0.0, 0.0, 0.0, 2.5])


CLOSE = r"Where it says [\d.]+%, [\d.]+% are actually fraud: too close to the average"


@pytest.mark.usefixtures("_verdict_alone")
@pytest.mark.parametrize(
    ("data", "headline", "largest"),
    [
        (two(-6.0, lambda z: z + 3.5, 2000), r"Predicts .* for fraud, actually 0\.\d+%: \d\d times too many", "means"),
        (two(-3.0, lambda z: z - 2.5), r"Predicts .* for fraud, actually .*: \d\.\d times too few", "means"),
        (two(0.0, lambda z: z + 1.0), r"Predicts 6\d.\d% for fraud, actually [45]\d.\d%: 3\d% too many", "means"),
        (two(0.0, lambda z: z - 1.0), r"Predicts 3\d.\d% for fraud, actually [45]\d.\d%: 3\d% too few", "means"),
        (two(0.0, lambda z: 2.5 * z), r"Where it says [\d.]+%, [\d.]+% are actually fraud: too extreme", "slope"),
        (two(0.0, lambda z: 0.4 * z), CLOSE, "slope"),
        (two(-4.0, tilted(2.2), 2000), r"Where it says [\d.]+%, [\d.]+% are actually fraud: too extreme", "slope"),
        (two(-4.0, tilted(0.3), 2000), CLOSE, "slope"),
        (two(0.0, lambda z: -z), "The probabilities of fraud point the wrong way", "slope"),
        (many(lambda z: 2 * z, BALANCED), r"Claims [\d.]+%, right [\d.]+%: over-confident", "slope"),
        (many(lambda z: z / 2, BALANCED), r"Claims [\d.]+%, right [\d.]+%: under-confident", "slope"),
        (many(lambda z: z + UP, BALANCED), r"Predicts .* for dog, actually 2\d\.\d%: 2\.\d times too many", "means"),
        (many(lambda z: z - UP, BALANCED), r"Predicts .* for dog, actually 2\d\.\d%: \d\.\d times too few", "means"),
        (many(lambda z: z + UP, RARE), r"Predicts .* for dog, actually \d\.\d%: \d\.\d times too many", "means"),
    ],
)
def test_headlines(data: Sample, headline: str, largest: str) -> None:
    found = report(data)
    assert re.fullmatch(headline, found.verdict.headline), found.verdict
    assert found.faults.largest == largest
    assert found.verdict.tone == "bad"


@pytest.mark.usefixtures("_verdict_alone")
@pytest.mark.parametrize("data", [two(0.0, lambda z: z), two(-4.0, lambda z: z, 2000), many(lambda z: z, RARE)])
def test_calibrated_predictions(data: Sample) -> None:
    found = report(data, ("ts",))
    assert found.verdict.headline == "No evidence of miscalibration"
    assert found.verdict.tone == "good"


@pytest.mark.usefixtures("_verdict_alone")
def test_what_is_neither_means_nor_slope() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 1.5, 2500)
    y = (rng.random(2500) < expit(z)).astype(int)
    bent = z**3
    # The best shift and slope are in already: only what they cannot mend is left.
    mended = LogisticRegression(C=1e6).fit(bent[:, None], y).predict_proba(bent[:, None])
    found = report(Sample(mended, y, None, classes=np.arange(2)), ("spline",))
    assert re.fullmatch(r"Where it says [\d.]+%, [\d.]+% are actually fraud", found.verdict.headline)
    assert found.faults.means.p_value > 0.9
    assert found.faults.slope.p_value > 0.9
    assert "The largest error is where the predictions give a probability between" in " ".join(found.verdict.sentences)


def test_numbers_in_the_sentences() -> None:
    data = two(-6.0, lambda z: z + 3.5, 2000)
    found = report(data)
    expected, observed = data.proba[:, 1].sum(), int(data.y.sum())
    assert f"{expected:,.0f} expected, {observed} observed" in found.verdict.sentences[0]
    fraud = next(row for row in found.class_rows if row.name == "fraud")
    assert (fraud.before.expected, fraud.observed) == pytest.approx((expected, observed))
    assert fraud.after.expected == pytest.approx(observed, rel=0.2)
    page = render(found)
    assert "times too many" in page
    assert "under-confident" not in page
    assert found.to_dict()["faults"]["means"]["log_loss"] == pytest.approx(found.faults.means.gain)


@pytest.mark.usefixtures("_verdict_alone")
def test_classes_are_listed_both_ways() -> None:
    sentences = " ".join(report(many(lambda z: z + UP, BALANCED)).verdict.sentences)
    assert re.search(r"Predicted too often: dog \([\d,]+ expected, \d+ observed\)", sentences)
    assert "Predicted too rarely: " in sentences


def test_the_flagship_speaks_of_the_positive_class() -> None:
    names = np.array(["a no", "fraud"])

    def summary(data: Sample) -> str:
        return str(AutoCalibrator(effort="fast").fit(data.proba, names[data.y]).summary())

    rare = summary(two(-6.0, lambda z: z + 3.5, 2000))
    assert re.match(r"The model predicted .*% for fraud, and 0\.\d+% occurred: \d\d times too many\.", rare)
    assert "confident" not in rare
    assert summary(two(0.0, lambda z: 2.5 * z)).startswith("The probabilities of fraud were too extreme")
    assert summary(two(0.0, lambda z: 0.4 * z)).startswith("The probabilities of fraud were too close to the average")


@pytest.mark.usefixtures("_verdict_alone")
def test_a_class_that_was_ruled_out_is_named() -> None:
    data = two(0.0, lambda z: z, 600)
    proba = data.proba.copy()
    proba[0, data.y[0]], proba[0, 1 - data.y[0]] = 0.0, 1.0
    found = report(Sample(proba, data.y, None, classes=np.arange(2)), methods=("ts",))
    assert found.verdict.tone != "good"
    assert found.test_before.p_value < 0.01
    share = -np.log(1e-15) / 600 / found.metrics[0].before.value
    said = f"In 1 row the class that occurs was given a probability of zero (below 1e-15); it alone makes {share:.0%}"
    assert any(sentence.startswith(said) for sentence in found.verdict.sentences)


@pytest.mark.usefixtures("_verdict_alone")
def test_a_gain_beyond_chance_is_never_called_no_evidence() -> None:
    calm, gain = Part(0.0, 0.5, 0.5), Estimate(0.02, 0.01, 0.03, 0.95)
    found = report(two(0.0, lambda z: z))
    faults = replace(found.faults, means=calm, slope=calm, rest=calm)
    row = MethodRow("auto", "", log_loss=0.5, gain_log_loss=gain)
    table = found.bands.before
    judged = verdict(Evidence(("no", "yes"), Size(2000), faults, table, gain, gain, 0.36, 0.52, row, "auto"))
    assert (judged.tone, judged.headline) == ("fair", MIXED_EVIDENCE)
    assert "finds nothing wrong (p = 0.36)" in judged.sentences[-1]


def opposite(k: int, n_rows: int) -> tuple[Sample, np.ndarray]:
    """Predictions of a model that is right in the mean: too sure in the north, not sure enough in the south."""
    rng = np.random.default_rng(0)
    q = np.clip(rng.random(n_rows), 0.05, 0.95)
    north = rng.random(n_rows) < 0.5
    p = q + np.where(north, 0.1, -0.1) * np.minimum(q, 1 - q) * 2
    first = (rng.random(n_rows) < q).astype(int)
    if k == 2:
        return Sample(np.column_stack([1 - p, p]), first, None, classes=np.arange(2)), north
    # The top of three classes has probability p, of which q is true; the other two share the rest.
    p, q = 0.4 + p / 2, 0.4 + q / 2
    y = np.where(rng.random(n_rows) < q, 0, 1 + (rng.random(n_rows) < 0.5))
    return Sample(np.column_stack([p, (1 - p) / 2, (1 - p) / 2]), y, None, classes=np.arange(3)), north


@pytest.mark.usefixtures("_verdict_alone")
@pytest.mark.parametrize(("k", "n", "what"), [(2, 2400, "the probability of yes"), (3, 4000, "the confidence")])
def test_segments_that_are_off_are_never_called_no_evidence(k: int, n: int, what: str) -> None:
    data, north = opposite(k, n)
    names, group = ["no", "yes", "maybe"][:k], np.where(north, "north", "south").astype(object)
    found = analyse(data, names, Source("p.csv"), segments=group, segment_name="region", methods=["ts"])
    assert found.test_before.p_value > 0.05
    assert (found.verdict.tone, found.verdict.headline) == (
        "fair",
        "No evidence of miscalibration overall, but 2 of 2 segments are off",
    )
    said = next(sentence for sentence in found.verdict.sentences if "segments" in sentence)
    assert said.startswith(f"In both segments {what} is off by more than chance: ")
    for name, sign in (("north", 1), ("south", -1)):
        rows = group == name
        score, hit = data.proba[rows, 1 if k == 2 else 0], data.y[rows] == (1 if k == 2 else 0)
        gap = 100 * float(score.mean() - hit.mean())
        assert f"{name} ({sign * gap:.1f} percentage points too {'high' if sign > 0 else 'low'})" in said
    # The predictions are right overall, so that there is nothing to calibrate but the segments.
    assert "--method none --segments region -o" in found.steps[0].command


@pytest.mark.usefixtures("_verdict_alone")
def test_chance_makes_no_segment_off() -> None:
    rng = np.random.default_rng(1)
    data = two(0.0, lambda z: z, 1200)
    found = analyse(data, ["no", "yes"], Source("p.csv"), segments=rng.integers(0, 40, 1200), methods=["ts"])
    assert found.verdict.tone == "good"
    # Some intervals of forty leave zero out, as they should at this level; the verdict counts how many there are.
    assert any(row.gap_before.low > 0 or row.gap_before.high < 0 for row in found.segment_rows)


def test_rows_beyond_what_there_is_to_gain_are_not_promised() -> None:
    gains = (Estimate(value, value / 2, 2 * value, 0.95) for value in (-0.1, 0.05, 0.15, 0.15))
    assert worth_of_rows(Learning(Size(178), 0.8, *gains), 0.1).endswith(
        "half of them would be too few, so more are likely to help."
    )
