"""`calibrant decide`, rules stored by `fit --cost`, and intervals of `apply --interval`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import DecisionRule
from calibrant.cli.decide import score_text
from tests.cli.test_commands import ok, run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of fraud, a single column, and of three animals, with calibrators."""
    folder, rng = tmp_path_factory.mktemp("decide"), np.random.default_rng(0)
    t = rng.beta(0.5, 5, 700)
    label = np.where(rng.random(700) < t, "fraud", "ok")
    lines = [f"{i},{p:.6f},{7 * i % 300},{y}" for i, (p, y) in enumerate(zip(np.sqrt(t), label))]
    (folder / "two.csv").write_text("id,p_fraud,amount,y\n" + "\n".join(lines[:500]) + "\n")
    (folder / "new.csv").write_text("id,p_fraud,amount,y\n" + "\n".join(lines[500:]) + "\n")
    p = rng.dirichlet(np.ones(3), 400).round(6)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    y = np.array(["ant", "bee", "cat"])[(p.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)]
    rows = [",".join(map(str, (*row, name))) for row, name in zip(p.tolist(), y)]
    (folder / "three.csv").write_text("ant,bee,cat,y\n" + "\n".join(rows) + "\n")
    ok("fit", folder / "two.csv", "--label", "y", "-m", "affine", "--intervals", "-o", folder / "two.json")
    ok("fit", folder / "three.csv", "--label", "y", "-m", "ts", "-o", folder / "three.json")
    return folder


def table(path: Path) -> dict[str, list[str]]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def calibrated(home: Path, name: str = "new.csv") -> np.ndarray:
    p = np.array(table(home / name)["p_fraud"], dtype=float)
    return np.asarray(calibrant.load(home / "two.json").predict_proba(p))


def test_the_action_of_each_row_is_that_of_the_rule(home: Path, tmp_path: Path) -> None:
    result = ok("decide", home / "two.json", home / "new.csv", "--cost", "fp=1,fn=20", "-o", tmp_path / "out.csv")
    out, before = table(tmp_path / "out.csv"), table(home / "new.csv")
    assert {name: out.pop(name) for name in before} == before
    rule = DecisionRule(false_positive=1, false_negative=20, classes=["ok", "fraud"])
    p = calibrated(home)
    assert out.pop("action") == rule.decide(p).tolist()
    np.testing.assert_allclose(np.array(out.pop("expected_cost"), float), rule.expected_cost(p).min(axis=1), rtol=1e-9)
    assert not out
    assert "Choose 'ok' where the probability of 'fraud' is below 4.8%, 'fraud' above." in result.output
    assert "Positive class: 'fraud' (--positive names the other one)" in result.output
    given = ["--cost", "fp=1,fn=20", "--positive", "ok", "-o", tmp_path / "other.csv"]
    assert "Positive class" not in ok("decide", home / "two.json", home / "new.csv", *given).output
    score = calibrant.load(home / "two.json").inverse(1 / 21).high
    assert f"Before calibration, in the column of 'fraud': 4.762% corresponds to {score:.4g}" in result.output


@pytest.mark.parametrize("cost", ["ask=0.2", "0:1=20,1:0=1,ask=0.3"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_action_that_is_no_label_among_labels_that_are_numbers(tmp_path: Path, cost: str, ending: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300).round(4)
    frame = pd.DataFrame({"p": p, "y": (rng.random(300) < p).astype(int)})
    file, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    read, write = {
        "csv": (lambda path: pd.read_csv(path, dtype={"action": str}), lambda path: frame.to_csv(path, index=False)),
        "jsonl": (
            lambda path: pd.read_json(path, lines=True, dtype={"action": str}),
            lambda path: frame.to_json(path, orient="records", lines=True),
        ),
        "parquet": (pd.read_parquet, frame.to_parquet),
    }[ending]
    write(file)
    ok("fit", file, "--label", "y", "-m", "ts", "-o", tmp_path / "map.json")
    ok("decide", tmp_path / "map.json", file, "--cost", cost, "-o", out)
    found = read(out)["action"]
    fitted = calibrant.load(tmp_path / "map.json")
    costs = {
        "ask=0.2": [[0, 1], [1, 0], [0.2, 0.2]],
        "0:1=20,1:0=1,ask=0.3": [[0, 20], [1, 0], [0.3, 0.3]],
    }[cost]
    rule = DecisionRule(costs, actions=[0, 1, "ask"], classes=[0, 1])
    assert found.tolist() == [str(action) for action in rule.decide(fitted.predict_proba(p))]
    assert set(found) == {"0", "1", "ask"}


def test_actions_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.9] * 5, "y": [0, 1, 0, 1] * 5})
    frame.to_parquet(tmp_path / "in.parquet")
    ok("fit", tmp_path / "in.parquet", "--label", "y", "-m", "ts", "-o", tmp_path / "map.json")
    words = [tmp_path / "map.json", tmp_path / "in.parquet", "--cost", "fp=1,fn=1", "-o", tmp_path / "out.parquet"]
    assert "20 rows decided: '0' 10 (50.0%), '1' 10 (50.0%)" in ok("decide", *words).output
    assert pd.read_parquet(tmp_path / "out.parquet")["action"].dtype == np.int64


def test_amounts_of_rows_names_files_and_a_suffix(home: Path, tmp_path: Path) -> None:
    p, amount = calibrated(home), np.array(table(home / "new.csv")["amount"], float)
    costs = {"pay": {"fraud": "amount"}, "block": {"ok": 12}, "ask": 6}
    expected = DecisionRule(costs, classes=["ok", "fraud"]).decide(p, {"amount": amount}).tolist()
    assert len(set(expected)) == 3
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    (tmp_path / "costs.csv").write_text("action,fraud,ok\npay,amount,0\nblock,0,12\nask,6,6\n")
    for given in ("pay:fraud=amount,block:ok=12,ask=6", tmp_path / "costs.json", tmp_path / "costs.csv"):
        done = ok(
            "decide", home / "two.json", home / "new.csv", "--cost", given, "-o", tmp_path / "out.csv", "-f",
            "--suffix", "_cal", "--json",
        )  # fmt: skip
        out = table(tmp_path / "out.csv")
        assert out["action"] == expected
        np.testing.assert_allclose(np.array(out["p_fraud_cal"], float), p[:, 1], rtol=1e-12)
        assert json.loads(done.output)["actions"] == {name: expected.count(name) for name in costs}


def test_many_classes_with_a_single_further_action(home: Path, tmp_path: Path) -> None:
    ok("decide", home / "three.json", home / "three.csv", "--cost", "ask=0.3", "-o", tmp_path / "out.csv")
    p = np.column_stack([np.array(table(home / "three.csv")[name], float) for name in ("ant", "bee", "cat")])
    rule = DecisionRule.abstention(0.3, ["ant", "bee", "cat"], action="ask")
    assert (
        table(tmp_path / "out.csv")["action"]
        == rule.decide(calibrant.load(home / "three.json").to_map().predict_proba(p)).tolist()
    )


def test_a_rule_is_stored_by_fit_and_used_without_cost(home: Path, tmp_path: Path) -> None:
    done = ok("fit", home / "two.csv", "--label", "y", "-m", "ts", "--cost", "fp=1,fn=20", "-o", tmp_path / "cal.json")
    assert "Choose 'ok' where the probability of 'fraud' is below 4.8%" in done.output
    assert calibrant.load(tmp_path / "cal.json").rule_.threshold == 1 / 21
    ok("decide", tmp_path / "cal.json", home / "new.csv", "-o", tmp_path / "out.csv")
    assert set(table(tmp_path / "out.csv")["action"]) == {"ok", "fraud"}


@pytest.mark.parametrize(
    ("name", "cost", "message"),
    [
        ("two", None, "two.json holds no decision rule: give the costs of actions, as in --cost fp=1,fn=20"),
        ("two", "fp=1", "fp and fn go together, and with no other cost: fp=1,fn=20"),
        ("two", "20", "'20' is not a cost: give fp=1,fn=20 for two classes"),
        ("two", "fp=-1,fn=20", "the class 'ok' is -1: costs must not be negative"),
        ("two", "pay:frod=20,check:ok=1", "the action 'pay' has a cost for 'frod'; the classes are 'ok', 'fraud'"),
        ("two", "pay:fraud=loss,check:ok=1", "has no column 'loss'.*A cost that is not a number is read as the name"),
        ("two", "no.json", "there is no file no.json with costs"),
        ("three", "fp=1,fn=20", "fp and fn are for two classes, and there are 3: give costs by names"),
        ("three", "ant:bee=1,bee:ant=1,cat:ant=1", "the action 'ant' has no cost for 'cat'"),
    ],
)
def test_wrong_costs_are_named(home: Path, tmp_path: Path, name: str, cost: Any, message: str) -> None:
    given = [] if cost is None else ["--cost", cost]
    source = home / ("new.csv" if name == "two" else "three.csv")
    result = run("decide", home / f"{name}.json", source, *given, "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert re.search(message, result.stderr.replace("\n", " ")), result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_the_positive_class_must_be_known(home: Path, tmp_path: Path) -> None:
    (tmp_path / "both.csv").write_text("no,yes,y\n" + "0.8,0.2,no\n0.3,0.7,yes\n0.6,0.4,yes\n0.7,0.3,no\n" * 5)
    command = [
        "fit",
        tmp_path / "both.csv",
        "--label",
        "y",
        "-m",
        "ts",
        "--cost",
        "fp=1,fn=3",
        "-o",
        tmp_path / "c.json",
    ]
    assert "which of 'no', 'yes' is the positive class? Name it with --positive" in run(*command).stderr
    ok(*command, "--positive", "no")
    assert calibrant.load(tmp_path / "c.json").rule_.table.numbers.tolist() == [[0.0, 1.0], [3.0, 0.0]]
    # A class that does not exist is an error also where no costs are given.
    for words in (command, [*command[:6], *command[8:]]):
        assert (
            "no class is called 'maybe'; the classes are 'no', 'yes'" in run(*words, "--positive", "maybe", "-f").stderr
        )


@pytest.mark.parametrize(
    ("score", "whole", "text"),
    [(0.03024, 1, "0.03024"), (0.99999123, 1, "0.99999"), (1.0, 1, "1"), (99.99999, 100, "99.99999"), (0.5, 1, "0.5")],
)
def test_a_threshold_near_certainty_is_not_rounded_to_certainty(score: float, whole: float, text: str) -> None:
    assert score_text(score, whole) == text


def test_a_row_with_a_wrong_amount_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("p_fraud,amount\n0.2,10\n0.3,-4\n")
    command = [
        "decide",
        home / "two.json",
        tmp_path / "new.csv",
        "--cost",
        "fp=5,fn=amount",
        "-o",
        tmp_path / "out.csv",
    ]
    assert "line 3: 'amount' is -4; amounts are finite and not negative" in run(*command).stderr
    ok(*command, "--on-error", "skip")
    assert len(table(tmp_path / "out.csv")["action"]) == 1


def test_intervals_are_columns(home: Path, tmp_path: Path) -> None:
    ok(
        "apply",
        home / "two.json",
        home / "new.csv",
        "--interval",
        "0.9",
        "--suffix",
        "_cal",
        "-o",
        tmp_path / "out.csv",
    )
    out = table(tmp_path / "out.csv")
    p = np.array(table(home / "new.csv")["p_fraud"], float)
    ends = calibrant.load(home / "two.json").predict_interval(p, 0.9)[:, 1]
    for end, name in enumerate(("p_fraud_cal_low", "p_fraud_cal_high")):
        np.testing.assert_allclose(np.array(out[name], float), ends[:, end], rtol=1e-12)


def test_thresholds_before_calibration_are_in_the_unit_of_the_file(tmp_path: Path) -> None:
    """Nothing is calibrated: the threshold 1 / 21 is 4.762 in a file of percentages."""
    rng = np.random.default_rng(0)
    p = rng.random(200)
    lines = [f"{100 * q:.3f},{'yes' if rng.random() < q else 'no'}" for q in p]
    (tmp_path / "t.csv").write_text("\n".join(["p_yes,y", *lines]))
    ok("fit", tmp_path / "t.csv", "-y", "y", "-m", "none", "--cost", "fp=1,fn=20", "-o", tmp_path / "c.json")
    told = ok("decide", tmp_path / "c.json", tmp_path / "t.csv", "-o", tmp_path / "out.csv").stdout
    assert "Before calibration, in the column of 'yes': 4.762% corresponds to 4.762" in told
    assert "further actions" not in told  # of two, both are shown


def test_two_classes_of_venn_abers_need_no_further_record_for_intervals(home: Path, tmp_path: Path) -> None:
    for name, code in (("two", 0), ("three", 2)):
        cal, words = tmp_path / f"{name}.json", ["--interval", "0.9", "-o", tmp_path / f"{name}.csv"]
        ok("fit", home / f"{name}.csv", "--label", "y", "-m", "venn-abers", "-o", cal)
        assert run("apply", cal, home / f"{name}.csv", *words).exit_code == code


def test_intervals_that_were_not_learned_and_wrong_levels_are_named(home: Path, tmp_path: Path) -> None:
    result = run("apply", home / "three.json", home / "three.csv", "--interval", "0.9", "-o", tmp_path / "out.csv")
    assert "was stored without intervals. `calibrant fit --intervals` stores what they need." in result.stderr
    result = run("apply", home / "two.json", home / "new.csv", "--interval", "90", "-o", tmp_path / "out.csv")
    assert "level must lie between 0 and 1, got 90" in result.stderr


def test_fit_says_that_resampled_intervals_are_narrow(home: Path) -> None:
    words = ["fit", home / "two.csv", "--label", "y", "--intervals", "--force"]
    logistic = ok(*words, "-m", "affine", "-o", home / "note.json")
    assert "too narrow with few rows" not in logistic.stdout
    resampled = ok(*words, "-m", "isotonic", "-o", home / "note.json")
    assert (
        "Note: intervals of isotonic come from fits to resamples and are too narrow with few rows" in resampled.stdout
    )
