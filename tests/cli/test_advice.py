"""What an error of the command line advises leads to the right result on the data that caused it."""

from __future__ import annotations

import functools
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import typer
from scipy.special import expit, softmax

from calibrant import get_calibrator, metrics, save
from calibrant.cli import COMMANDS, _loaded
from calibrant.cli.fit import _lines
from calibrant.cli.mistakes import HINTS
from calibrant.cli.options import as_words, command, split_names
from calibrant.inputs.words import RequestError
from tests.cli.test_commands import ok, run

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(300, 3))
P = softmax(Z, axis=1)
CODES = (P.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)
LEVELS = np.array(["low", "medium", "high"])
SCORE = Z[:, 0]
EVENT = (RNG.random(300) < expit(SCORE)).astype(int)
FIRST = np.where(EVENT == 1, "no", "yes")  # the score is that of `no`, the first in sorted order


def frame(p: np.ndarray, names: list[str], y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(p, columns=names).assign(y=y)


ABC = np.array(["a", "b", "c"])
NAMED = frame(P, ["p_a", "p_b", "p_c"], ABC[CODES])
RIGHT, RIGHT_SCORE = metrics.log_loss(CODES, P), metrics.log_loss(EVENT, expit(SCORE))
#: The table, the options that are refused, what is advised, the options that follow the advice, and the log loss.
CASES = {
    "classes": (
        frame(P, ["p_0", "p_1", "p_2"], LEVELS[CODES]),
        [],
        "Name the label of each column with --classes a,b,c",
        ["--classes", "low,medium,high"],
        RIGHT,
    ),
    "two classes": (
        frame(expit(SCORE)[:, None], ["score"], FIRST),
        [],
        "Name both classes with --classes, the column's own class last",
        ["--classes", "yes,no"],
        RIGHT_SCORE,
    ),
    "logits": (frame(SCORE[:, None], ["score"], EVENT), [], "--logits reads logits", ["--logits"], RIGHT_SCORE),
    "not logits": (NAMED, ["--logits"], "Leave out --logits", [], RIGHT),
    "renormalize": (
        frame(np.vstack([0.9 * P[:1], P[1:]]), ["p_a", "p_b", "p_c"], ABC[CODES]),
        [],
        "--renormalize rescales rounded rows",
        ["--renormalize"],
        RIGHT,
    ),
    "skip": (
        frame(np.vstack([P[:-1], P[-1:] * np.nan]), ["p_a", "p_b", "p_c"], ABC[CODES]),
        [],
        "--on-error skip leaves such rows out",
        ["--on-error", "skip"],
        metrics.log_loss(CODES[:-1], P[:-1]),
    ),
    "maybe not logits": (
        frame(expit(SCORE)[:, None], ["score"], EVENT),
        ["--logits"],
        "In that case leave out --logits",
        [],
        RIGHT_SCORE,
    ),
    "order": (
        frame(P, ["p_0", "p_1", "p_2"], np.array(["x", "y", "z"])[CODES]),
        [],
        "If that is wrong, name the label of each column with --classes",
        ["--classes", "x,y,z"],
        RIGHT,
    ),
    "order of two": (
        frame(expit(SCORE)[:, None], ["score"], np.where(EVENT == 1, "yes", "no")),
        [],
        "If that is wrong, name the other class with --classes",
        ["--classes", "yes"],
        RIGHT_SCORE,
    ),
    "decimal": (
        frame(P, ["p_a", "p_b", "p_c"], ABC[CODES]).map(lambda cell: str(cell).replace(".", ",")),
        [],
        "--decimal . reads decimal points instead",
        ["--decimal", ","],
        RIGHT,
    ),
    "probs": (
        NAMED.assign(q_a=1.0, q_b=0.0, q_c=0.0),
        [],
        "Name the probability columns with --probs, as in --probs 'p_*'",
        ["--probs", "p_*"],
        RIGHT,
    ),
}


#: What is said in a note, and hints that other tests follow: files, states, costs, intervals and scores.
NOTED = ("maybe not logits", "order", "order of two", "decimal")
FOLLOWED_ELSEWHERE = {
    "amounts": "test_decide.py",
    "began": "test_watch.py",
    "force": "test_advice.py",
    "intervals": "test_decide.py",
    "replace": "test_watch.py",
    "scores": "test_advice.py",
    "suffix": "test_advice.py",
}


def test_every_hint_is_followed_by_a_test() -> None:
    here = {name for name, words in HINTS.items() if any(case[2] in words for case in CASES.values())}
    assert here | set(FOLLOWED_ELSEWHERE) == set(HINTS)
    for hint, file in FOLLOWED_ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        option = next(word.strip(",.`") for word in HINTS[hint].split() if word.startswith("--") or word == "cost")
        assert option in text, hint


def test_scores_are_made_probabilities_as_advised(tmp_path: Path) -> None:
    file, output = tmp_path / "scores.csv", tmp_path / "probabilities.csv"
    frame(600 + 90 * SCORE[:, None], ["score"], EVENT).to_csv(file, index=False)
    for wrong in ([], ["--logits"]):
        refused = run("evaluate", file, "--label", "y", "--probs", "score", *wrong)
        assert refused.exit_code in (1, 2)
        assert "`calibrant fit --scores` learns to turn scores of any scale into probabilities" in refused.stderr
    ok("fit", file, "--label", "y", "--scores", "-m", "platt-logits", "-o", tmp_path / "c.json")
    ok("apply", tmp_path / "c.json", file, "-o", output)
    found = json.loads(ok("evaluate", output, "--label", "y", "--json").stdout)
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(RIGHT_SCORE, abs=0.02)


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [("probabilities", [[0.2, 0.8], [0.7, 0.3]], [-3.0, 4.0]), ("logits", [[1.0, -2.0], [0.5, 2.0]], [0.3, 0.7])],
)
def test_what_only_a_fit_can_be_told_is_not_advised_later(
    tmp_path: Path, kind: str, earlier: list[list[float]], later: list[float]
) -> None:
    save(get_calibrator("ts", input=kind).fit(earlier, [0, 1]), tmp_path / "c.json")
    pd.DataFrame([later], columns=["p_0", "p_1"]).to_csv(tmp_path / "t.csv", index=False)
    refused = run("apply", tmp_path / "c.json", tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    assert refused.exit_code in (1, 2)
    assert f"The calibrator was fitted to {kind}" in refused.stderr
    assert "--logits" not in refused.stderr


def test_columns_that_an_array_did_not_name_are_called_after_the_classes(tmp_path: Path) -> None:
    calibrator = get_calibrator("ts").fit(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), EVENT)
    save(calibrator, tmp_path / "c.json")
    words = ["apply", tmp_path / "c.json", tmp_path / "t.csv", "-o", tmp_path / "out.csv"]
    pd.DataFrame([[0.2, 0.8]], columns=["a", "b"]).to_csv(tmp_path / "t.csv", index=False)
    refused = run(*words, "--probs", "a,b")
    assert refused.exit_code == 2
    assert "Call the columns after their classes, as in p_a, p_b, p_c." in refused.stderr
    pd.DataFrame([[0.2, 0.8]], columns=["p_0", "p_1"]).to_csv(tmp_path / "t.csv", index=False)
    ok(*words, "--probs", "p_0,p_1")
    written = pd.read_csv(tmp_path / "out.csv").to_numpy()
    np.testing.assert_allclose(written, calibrator.predict_proba([[0.2, 0.8]]))


def test_a_command_advises_only_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command meets every hint, and notes and errors have the same words."""
    commands = {name: _loaded(name) for name in COMMANDS if name != "bench"}
    commands |= {f"bench {name}": found for name, found in _loaded("bench").commands.items()}
    taken = {name: {flag for option in found.params for flag in option.opts} for name, found in commands.items()}
    for name, found in commands.items():
        worker = inspect.unwrap(found.callback)

        @command()
        @functools.wraps(worker)
        def refuse(**given: object) -> None:
            raise RequestError("It failed", *HINTS)

        with pytest.raises(typer.Exit):
            refuse(**dict.fromkeys(inspect.signature(refuse).parameters))
        said = capsys.readouterr().err
        assert set(re.findall("--[a-z-]+", re.sub("`.*?`", "", said))) <= taken[name], name
        assert ("Name the label of each column with --classes" in said) == ("--classes" in taken[name])
        for other, flag in re.findall("`calibrant ([a-z]+) (--[a-z]+)", said):
            assert flag in taken[other]


@pytest.mark.parametrize("case", CASES)
def test_the_advice_leads_to_the_right_result(tmp_path: Path, case: str) -> None:
    table, wrong, advice, followed, expected = CASES[case]
    table.to_csv(tmp_path / "t.csv", index=False)
    refused = run("evaluate", tmp_path / "t.csv", "--label", "y", *wrong)
    assert refused.exit_code in ((0,) if case in NOTED else (1, 2))
    assert advice in refused.stderr
    found = json.loads(ok("evaluate", tmp_path / "t.csv", "--label", "y", *followed, "--json").stdout)
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(expected, abs=1e-9)


def test_outputs_that_exist(tmp_path: Path) -> None:
    file, calibrator, output = (tmp_path / name for name in ("t.csv", "c.json", "out.csv"))
    NAMED.to_csv(file, index=False)
    ok("fit", file, "--label", "y", "-m", "ts", "-o", calibrator)
    assert "--force overwrites it" in run("fit", file, "--label", "y", "-o", calibrator).stderr
    ok("fit", file, "--label", "y", "-m", "ts", "-o", calibrator, "--force")
    ok("apply", calibrator, file, "-o", output, "--suffix", "_cal")
    again = run("apply", calibrator, output, "-o", tmp_path / "twice.csv", "--suffix", "_cal")
    assert "Choose another --suffix" in again.stderr
    ok("apply", calibrator, output, "-o", tmp_path / "twice.csv", "--suffix", "_again")
    twice = pd.read_csv(tmp_path / "twice.csv")
    np.testing.assert_array_equal(twice["p_a_again"], twice["p_a_cal"])


@pytest.mark.parametrize(
    ("counts", "note"),
    [
        ([25.0, 25.0], ""),
        ([40.0, 10.0], ""),
        ([24.0, 25.0], "too little data"),
        ([41.0, 9.0], "too little data"),
        ([60.0, 0.0], "only one class is present, which is too little"),
    ],
)
def test_a_fit_says_whether_there_is_enough_to_tell(counts: list[float], note: str) -> None:
    fitted = SimpleNamespace(fitted_to_="50 rows", class_counts_=np.array(counts), summary=lambda: "What was found.")
    done = SimpleNamespace(
        calibrator=fitted, classes=(0, 1), columns=("p",), seconds=2.0, counts={"rows": 2000, "rows_used": 50}
    )
    said = list(_lines("no such file", "ts", done))
    assert said[0] == "no such file: ts fitted to 50 rows and 2 classes in 2 s"
    assert said[1].startswith("These are a uniform sample of 2,000 rows, because ts needs its rows in memory.")
    assert said[2:4] == ["Columns: p = 1 (the other class is 0)", "What was found."]
    whether = "to tell whether this helps; `calibrant report` estimates how much is enough."
    assert said[4:] == ([f"Note: {note} {whether}"] if note else [])
    done.counts["rows"], fitted.uncertainty_ = 50, {"refits": 10}
    said = list(_lines("no such file", "isotonic", done))
    assert not any("uniform sample" in line for line in said)
    assert any(line.startswith("Note: intervals of isotonic come from fits to resamples") for line in said)


def test_options_as_words_and_lists_of_names() -> None:
    words = as_words({"group_by": "patient", "probs": ["a", "b"], "logits": True, "weight": None})
    assert words == ["--group-by", "patient", "--probs", "a", "--probs", "b", "--logits"]
    assert split_names("a, b,") == ["a", "b"]
