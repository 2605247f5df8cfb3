"""What the report says of data of which little can be told, and that its advice leads where it should."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax

import calibrant
from calibrant import CalibrationReport
from calibrant.report import comparison
from calibrant.report.advice import NOTHING_GAINED, lacking, rarely_seen, why_chosen
from calibrant.report.calibration_report import _check_order
from calibrant.report.data import Lack
from calibrant.sample import Sample
from tests.cli.test_commands import ok, run

TOO_LITTLE = "No method is recommended: too little data to tell."
Z = np.random.default_rng(0).normal(size=3000)
Y = (np.random.default_rng(1).random(3000) < expit(Z)).astype(int)


def report(y: Any, p: Any, methods: tuple[str, ...] = ("ts",), **given: Any) -> CalibrationReport:
    made = CalibrationReport(y, p, methods=methods, **given)
    assert made.verdict in made.to_html()
    return made


def test_one_row() -> None:
    made = report([1], [0.9], classes=[0, 1])
    assert made.verdict == "Too few rows to tell"
    assert made.sentences[-1] == "1 row is too few to tell what calibration would gain: at least 50 are needed."
    assert (made.recommended, made.contents.shown, made.contents.choice) == ("none", "none", TOO_LITTLE)
    assert "What calibration would change is not shown: too little data to tell." in made.to_html()


def test_six_rows() -> None:
    made = report([0, 1, 0, 1, 1, 0], [0.1, 0.9, 0.2, 0.8, 0.7, 0.4], ("beta", "ts"))
    assert made.verdict == "Too few rows to tell"
    assert "6 rows are too few to tell what calibration would gain: at least 50 are needed." in made.sentences
    assert "lowers" not in str(made)
    assert made.recommended == "none"
    assert [step.text for step in made.contents.steps] == ["Collect more rows before you calibrate"]
    assert [row.name for row in made.contents.methods] == ["none"]
    page = made.to_html()
    for effect in ("After", "● after", "Gain in", "can improve", "should have been", "Slope:", "The rest"):
        assert effect not in page.split("</style>")[1], effect
    asked = report([0, 1, 0, 1, 1, 0], [0.1, 0.9, 0.2, 0.8, 0.7, 0.4], method="ts")
    assert asked.contents.shown == "ts"
    assert "Gain in log loss" in asked.to_html()


def test_no_method_could_be_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no luck today")

    monkeypatch.setattr(comparison, "recalibrate", fails)
    made = report(Y[:100], expit(Z[:100]))
    assert "No method could be fitted." in made.sentences
    page = made.to_html()
    assert "could not be fitted: no luck today" in page
    assert '<p class="hint">No method could be fitted. In small print' in page
    assert "Expected after" not in page


def test_six_rows_that_prove_something() -> None:
    made = report([0] * 6, [0.95] * 6, classes=[0, 1])
    assert made.verdict == "The probabilities are wrong, but there are too few rows to tell how"
    assert "a test of calibration finds the probabilities wrong" in made.sentences[1]


def test_one_class() -> None:
    made = report(np.ones(200, dtype=int), expit(Z[:200]), ("isotonic",), classes=[0, 1])
    said = (
        "All rows belong to class 1: at least 10 rows of another class are needed to tell what calibration would gain."
    )
    assert said in made.sentences
    assert made.verdict.startswith("Predicts 5")
    assert (made.recommended, made.contents.choice) == (
        "none",
        "No method is recommended: only one class is present.",
    )
    page = made.to_html()
    assert "What calibration would change is not shown: only one class is present." in page
    assert "too little data" not in page
    assert [step.text for step in made.contents.steps] == ["Collect rows of another class before you calibrate"]
    none = report(np.zeros(200, dtype=int), expit(Z[:200]), ("isotonic",), classes=[0, 1])
    assert none.verdict.endswith("none occurs")
    assert ">∞<small>" in none.to_html()


def test_equal_predictions() -> None:
    made = report(Y[:300], np.full(300, 0.5))
    assert made.verdict == "No evidence of miscalibration"
    assert "shows only if it is larger than about" in str(made)
    far = report(Y[:300], np.full(300, 0.9))
    assert far.verdict.startswith("Predicts 90.0% for class 1, actually ")


def test_perfect_predictions() -> None:
    made = report(Y[:300], Y[:300].astype(float))
    assert made.verdict == "No evidence of miscalibration"
    (hidden,) = (said for said in made.sentences if said.startswith("This is not proof"))
    # That none of 300 rows misses allows about one in a hundred to do so (rule of three).
    assert 0.2 < float(re.search(r"larger than about ([\d.]+) percentage", hidden)[1]) < 3
    assert "may help" not in str(made)
    assert made.recommended == "none"


def test_nothing_gained_and_harm_is_not_recommended() -> None:
    made = report(Y[:400], expit(Z[:400]), ("isotonic", "beta"))
    assert made.verdict == "No evidence of miscalibration"
    assert NOTHING_GAINED in made.sentences
    assert (made.recommended, made.contents.choice) == ("none", NOTHING_GAINED)
    assert (
        made.contents.shown
        == min((row for row in made.contents.methods if row.name != "none"), key=lambda row: row.log_loss).name
    )
    assert "which is not recommended" in made.to_html()
    harmful = report(Y[:400], expit(Z[:400]), ("isotonic",))
    assert "Calibration with isotonic would make log loss worse here, by " in str(harmful)
    assert harmful.recommended == "none"


def test_a_method_that_was_asked_for_is_shown() -> None:
    made = report(Y[:400], expit(Z[:400]), ("ts",), method="isotonic")
    assert (made.recommended, made.contents.choice) == ("isotonic", "isotonic was asked for.")


def test_a_rare_class() -> None:
    y, p = np.r_[np.zeros(297, dtype=int), np.ones(3, dtype=int)], np.full(300, 0.01)
    made = report(y, p)
    assert made.verdict == "No evidence of miscalibration, but too few rows of some classes to tell"
    assert made.sentences[-1] == (
        "3 rows of class 1 are too few to tell what calibration would gain: at least 10 are needed, which takes about "
        "1,000 rows like these."
    )


def test_three_groups_and_thirty() -> None:
    few = report(Y[:300], expit(2 * Z[:300]), groups=np.arange(300) // 100)
    assert few.verdict == "Too few groups to tell"
    assert "3 groups are too few to tell what calibration would gain: at least 20 are needed." in few.sentences
    many = report(Y[:900], expit(2 * Z[:900]), groups=np.arange(900) // 30)
    assert many.sentences[0].startswith("On 900 rows in 30 groups the predicted")
    tested = "If groups are independent, a test of calibration finds the probabilities wrong (p"
    assert any(said.startswith(tested) for said in many.sentences)
    page = many.to_html()
    assert "rows of other groups" in page
    assert "hold if groups are independent" in page
    assert "if rows are independent" not in page
    blocks = report(Y[:900], expit(2 * Z[:900]), blocks=30)
    assert blocks.sentences == many.sentences


def test_groups_of_very_unequal_size_are_few() -> None:
    groups = np.r_[np.zeros(2900, dtype=int), 1 + np.arange(100)]
    data = Sample(np.column_stack([expit(-Z), expit(Z)]), Y, groups=groups)
    lack = lacking(data, ("no", "yes"))
    assert lack is not None
    assert lack.text.startswith("101 groups, worth 1.1 of equal size, are too few")


def test_more_classes_than_rows() -> None:
    rng = np.random.default_rng(0)
    p = softmax(rng.normal(size=(60, 80)), axis=1)
    y = (p.cumsum(axis=1) > rng.random((60, 1))).argmax(axis=1)
    made = report(y, p, classes=list(range(80)))
    assert "80 of 80 classes have fewer than 10 rows, too few to judge them alone." in made.sentences
    thousand = rarely_seen(Sample(np.full((2, 1000), 0.001), np.array([0, 1])))
    assert thousand == "1,000 of 1,000 classes have fewer than 10 rows, too few to judge them alone."


def test_single_rare_class_of_three() -> None:
    data = Sample(np.full((100, 3), 1 / 3), np.r_[np.zeros(60, int), np.ones(35, int), np.full(5, 2)])
    assert rarely_seen(data) == "1 class has fewer than 10 rows, too few to judge it alone."
    assert lacking(data, ("a", "b", "c")) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("ts", "ts", ["ts"]), "ts was asked for."),
        (
            ("auto", None, ["ts", "auto"]),
            "auto is the default method, and no other is better beyond chance, given how many were compared.",
        ),
        (("ts", None, ["ts", "auto"]), "ts is better than the default method, auto, beyond chance."),
        (("none", None, ["ts", "auto"]), NOTHING_GAINED),
        (
            ("ts", None, ["ts"]),
            "ts is better than no calibration, beyond chance; the default method, auto, is not among those compared.",
        ),
    ],
)
def test_why(given: Any, said: str) -> None:
    assert why_chosen(*given) == said
    assert why_chosen("none", None, [], lack=Lack("rows", "")) == TOO_LITTLE
    harmless = f"{NOTHING_GAINED} auto, the default method, does no harm."
    assert why_chosen("auto", None, ["auto"], gains=False) == harmless


def test_weights_equal_copies_in_every_sentence() -> None:
    y, p = Y[:150], expit(1.6 * Z[:150])
    counted = report(y, p, sample_weight=np.full(150, 9.0))
    rows = np.repeat(np.arange(150), 9)
    written = report(y[rows], p[rows])
    assert counted.verdict == written.verdict
    assert counted.recommended == written.recommended
    assert counted.contents.test_before.p_value == pytest.approx(written.contents.test_before.p_value, abs=0.02)
    assert str(counted.contents.size) == "150 rows, 1,350 observations"
    for one, other in zip(counted.contents.methods, written.contents.methods):
        for first, second in ((one.gain_log_loss, other.gain_log_loss), (one.gain_brier, other.gain_brier)):
            assert first is not None
            assert second is not None
            wide = second.high - second.low
            assert (first.value, first.low, first.high) == pytest.approx(
                (second.value, second.low, second.high), abs=0.25 * wide + 1e-6
            )
    assert counted.sentences[0].startswith("On 150 rows, 1,350 observations the predicted")


def test_fractional_weights_do_not_lose_rows() -> None:
    made = report(Y[:300], expit(Z[:300]), sample_weight=np.full(300, 0.487))
    assert made.sentences[0].startswith("On 300 rows, 146 observations the predicted")


def test_the_old_order_of_arguments_is_an_error() -> None:
    p = expit(Z[:100])
    for wrong in (p, np.column_stack([1 - p, p])):
        with pytest.raises(ValueError, match=r"the order is CalibrationReport\(y_true, y_prob\)"):
            CalibrationReport(wrong, Y[:100])
    # Labels that are numbers with a point, or nothing at all, are no probabilities.
    for fine in (Y[:100].astype(float), np.where(Y[:100], 0.5, 1.0)):
        _check_order(fine, p)
    _check_order(np.empty(0), p)
    _check_order(Y[:100], np.round(p))
    votes = np.column_stack([1 - Y[:100], Y[:100]])
    CalibrationReport(votes, np.column_stack([1 - p, p]), methods=["ts"])


@pytest.mark.parametrize(
    ("first", "second", "swapped"),
    [
        ([0.2, 0.7], [0, 1], True),
        ([0.2, 0.7], [0.1, 0.5], False),  # two columns of fractions: labels may be such numbers
        ([0.0, 0.5, 1.0], [0.0, 1.0, 1.0], True),
        ([0.0, 1.0], [0.0, 1.0], False),
        ([0.5, 2.0], [0.0, 1.0], False),
        ([-0.5, 0.5], [0.0, 1.0], False),
        ([[0.2, 0.8], [0.5, 0.5]], [0, 1], True),
        ([[0], [1]], [0.2, 0.3], False),
    ],
)
def test_probabilities_in_the_place_of_labels(first: list[float], second: list[float], swapped: bool) -> None:
    with pytest.raises(ValueError, match="y_true holds probabilities") if swapped else nullcontext():
        _check_order(first, second)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Over-confident predictions, ten rows of each patient."""
    frame = pd.DataFrame({"p_no": expit(-2 * Z), "p_yes": expit(2 * Z), "truth": np.array(["no", "yes"])[Y]})
    frame["patient"] = [f"n{number}" for number in np.arange(3000) // 10]
    frame[:600].to_csv(tmp_path / "cal.csv", index=False)
    frame[2600:].to_csv(tmp_path / "NEW.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--group-by", "patient"], ["--blocks", "10"]])
def test_the_commands_that_are_printed_do_what_they_say(folder: Path, more: list[str]) -> None:
    done = ok("report", "cal.csv", "--label", "truth", *more, "--methods", "ts", "-o", "r.html", "--json")
    found = json.loads(done.stdout)
    assert found["recommended"] == "ts"
    assert found.get("groups") == (60 if more else None)
    for command in found["next"]:
        last = ok(*shlex.split(command)[1:])
    assert f"hold if {'groups' if more else 'rows'} are independent" in last.stdout
    assert "no evidence of miscalibration" in last.stdout
    assert calibrant.load(folder / "calibrator.json").classes_.tolist() == ["no", "yes"]


def test_the_steps_in_python_run() -> None:
    p, weight, groups = expit(2 * Z[:1000]), np.full(1000, 2.0), np.arange(1000) // 10
    made = report(Y[:1000], p, sample_weight=weight, groups=groups)
    scope = {"calibrant": calibrant, "y_true": Y[:1000], "y_prob": p, "sample_weight": weight, "groups": groups}
    scope["y_prob_new"] = p
    for step in made.contents.steps[:3]:
        exec(step.command, scope)
    assert np.abs(scope["calibrated"][:, 1] - expit(Z[:1000])).mean() < 0.03


def test_a_row_without_a_group_is_named(folder: Path) -> None:
    lines = (folder / "cal.csv").read_text().splitlines()
    lines[5] = lines[5].rsplit(",", 1)[0] + ","
    (folder / "cal.csv").write_text("\n".join(lines) + "\n")
    given = ("evaluate", "cal.csv", "--label", "truth", "--group-by", "patient")
    done = run(*given)
    assert done.exit_code == 1
    assert "line 6: 'patient', the group, is missing" in done.stderr
    assert "599 rows in 60 groups" in ok(*given, "--on-error", "skip").stdout


def test_of_a_large_file_whole_groups_are_sampled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.workflows import evaluating

    monkeypatch.setattr(evaluating, "MEMORY_CELLS", 1000)
    monkeypatch.setattr(evaluating, "SAMPLE_ROWS", 100)
    done = ok("evaluate", "cal.csv", "--label", "truth", "--group-by", "patient", "--ci")
    assert "600 rows in 60 groups" in done.stdout
    assert (
        "use a uniform sample of 500 rows in 50 groups; everything else uses all rows, with intervals as wide as"
        in done.stdout
    )
    page = ok("report", "cal.csv", "--label", "truth", "--group-by", "patient", "--methods", "ts", "-o", "r.html")
    assert "500 rows in 50 groups of 600 rows in 60 groups" in page.stderr
    assert "which holds whole groups; the width of intervals comes from it as well" in Path("r.html").read_text()


def test_segments_alone_are_corrected_by_the_printed_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, north = Y[:1200], np.random.default_rng(2).random(1200) < 0.5
    p = expit(Z[:1200] + np.where(north, 0.8, -0.8))
    frame = pd.DataFrame({"p_no": 1 - p, "p_yes": p, "truth": np.array(["no", "yes"])[y]})
    frame["region"] = np.where(north, "north", "south")
    frame.to_csv(tmp_path / "NEW.csv", index=False)
    monkeypatch.chdir(tmp_path)
    given = (
        "report",
        "NEW.csv",
        "--label",
        "truth",
        "--segments",
        "region",
        "--methods",
        "ts",
        "-o",
        "r.html",
        "--json",
    )
    found = json.loads(ok(*given).stdout)
    assert "--segments region" in found["next"][0]
    for command in found["next"]:
        ok(*shlex.split(command)[1:])
    after = pd.read_csv("CALIBRATED.csv")
    gaps = after.assign(gap=after["p_yes"] - y).groupby("region")["gap"].mean()
    assert np.abs(gaps).max() < 0.03
