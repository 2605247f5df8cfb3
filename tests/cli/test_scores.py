"""Scores and percentages in files: how `fit` reads them, and that `apply` and `watch` read new files the same way."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calibrant import get_calibrator, load
from calibrant.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(path: Path, **columns: list[object] | np.ndarray) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def column(path: Path, name: str) -> np.ndarray:
    with path.open(newline="") as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


@pytest.fixture
def credit(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    score = np.clip(rng.normal(620, 90, 800), 300, 850).round()
    defaulted = rng.random(800) < 1 / (1 + np.exp(1.9 + (score - 620) / 60))
    return write(tmp_path / "credit.csv", score=score, outcome=np.where(defaulted, "defaulted", "paid"))


def test_scores_are_fitted_applied_watched_and_adapted(tmp_path: Path, credit: Path) -> None:
    cal, out = tmp_path / "cal.json", tmp_path / "out.csv"
    done = run("fit", credit, "-y", "outcome", "--scores", "-o", cal, "-m", "isotonic")
    assert done.exit_code == 0, done.output
    assert "The higher the score, the more likely is paid (found from the labels)." in done.output
    applied = run("apply", cal, credit, "-o", out, "--suffix", "_p")
    assert applied.exit_code == 0, applied.output
    score = column(credit, "score")
    with credit.open() as file:
        labels = [row["outcome"] for row in csv.DictReader(file)]
    expected = get_calibrator("isotonic", input="scores").fit(score, labels).predict_proba(score)[:, 1]
    np.testing.assert_allclose(column(out, "score_p"), expected, atol=1e-12)
    # Scores concern both classes, whatever their column is called.
    renamed = write(tmp_path / "renamed.csv", score_defaulted=score)
    assert run("apply", cal, renamed, "-o", tmp_path / "r.csv").exit_code == 0
    np.testing.assert_allclose(column(tmp_path / "r.csv", "score_defaulted"), expected, atol=1e-12)
    watched = run("watch", cal, credit, "-y", "outcome", "--state", tmp_path / "state.json")
    assert watched.exit_code == 0, watched.output
    adapted = run("adapt", cal, "--prior", "defaulted=0.02,paid=0.98", "-o", tmp_path / "rare.json")
    assert adapted.exit_code == 0, adapted.output
    assert run("apply", tmp_path / "rare.json", credit, "-o", tmp_path / "rare.csv").exit_code == 0
    assert column(tmp_path / "rare.csv", "score").mean() > 0.9
    exported = run("export", cal, "-o", tmp_path / "map.py")
    assert exported.exit_code == 0, exported.output


def test_the_direction_can_be_given(tmp_path: Path, credit: Path) -> None:
    more = ["-y", "outcome", "--classes", "paid,defaulted", "--scores", "--direction", "falling", "-m", "ts"]
    done = run("fit", credit, *more, "-o", tmp_path / "cal.json")
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "cal.json").input == "falling-scores"
    assert "The lower the score, the more likely is defaulted (as given)." in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "'score' is 6.*, not a probability. `calibrant fit --scores` learns to turn scores"),
        (["--logits"], "so large that nearly every row would be certain: they are scores.* `calibrant fit --scores`"),
        (["--scores", "--logits"], "give one of them"),
        (["--direction", "rising"], "give --scores, too"),
    ],
)
def test_what_is_wrong_with_other_readings(tmp_path: Path, credit: Path, options: list[str], words: str) -> None:
    done = run("fit", credit, "-y", "outcome", "-p", "score", *options, "-o", tmp_path / "cal.json")
    assert done.exit_code != 0
    assert re.search(words, done.output.replace("\n", " "))
    assert "--on-error" not in done.output


def test_columns_of_scores_by_class_and_segment(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    margin = 40 * (np.eye(3)[y] + rng.normal(0, 0.8, (600, 3))) - 200
    region = np.where(np.arange(600) % 2, "north", "south")
    columns = {f"s_{name}": margin[:, j] for j, name in enumerate("abc")}
    file = write(tmp_path / "m.csv", **columns, y=np.array(list("abc"))[y], region=region)
    done = run("fit", file, "-y", "y", "-p", "s_*", "--scores", "--segments", "region", "-o", tmp_path / "c.json")
    assert done.exit_code == 0, done.output
    assert run("apply", tmp_path / "c.json", file, "-o", tmp_path / "out.csv").exit_code == 0
    p = np.column_stack([column(tmp_path / "out.csv", name) for name in columns])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(p.argmax(axis=1) == margin.argmax(axis=1)) > 0.9


def percentages(path: Path, sign: str = "") -> Path:
    rng = np.random.default_rng(0)
    p = rng.beta(0.6, 4, 500)
    return write(path, p_fraud=[f"{100 * value:.2f}{sign}" for value in p], y=(rng.random(500) < p).astype(int))


@pytest.mark.parametrize("sign", ["", "%"])
def test_a_map_fitted_to_percentages_reads_small_ones_as_such(tmp_path: Path, sign: str) -> None:
    cal, small = tmp_path / "cal.json", tmp_path / "small.csv"
    assert run("fit", percentages(tmp_path / "a.csv", sign), "-y", "y", "-m", "none", "-o", cal).exit_code == 0
    write(small, p_fraud=[0.5, 0.2, 0.9], y=[0, 0, 1])
    done = run("apply", cal, small, "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "percentages, as in the file that the calibrator was fitted to" in done.output
    np.testing.assert_allclose(column(tmp_path / "out.csv", "p_fraud"), [0.5, 0.2, 0.9])
    watched = run("watch", cal, small, "-y", "y", "--state", tmp_path / "state.json", "--json")
    assert watched.exit_code == 0, watched.output
    assert '"accuracy": [0.99' in watched.output.replace("\n", "").replace("  ", "").replace("[ ", "[")


def test_a_map_fitted_to_fractions_reads_small_numbers_as_fractions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300).round(4)
    file = write(tmp_path / "a.csv", p_fraud=p, y=(rng.random(300) < p).astype(int))
    assert run("fit", file, "-y", "y", "-m", "none", "-o", tmp_path / "cal.json").exit_code == 0
    write(tmp_path / "small.csv", p_fraud=[0.5, 0.2])
    assert run("apply", tmp_path / "cal.json", tmp_path / "small.csv", "-o", tmp_path / "out.csv").exit_code == 0
    np.testing.assert_allclose(column(tmp_path / "out.csv", "p_fraud"), [0.5, 0.2])


def test_several_columns_that_sum_to_one_are_fractions_after_a_fit_to_percentages(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(2), 300).round(2)
    p[:, 1] = 1 - p[:, 0]
    y = (rng.random(300) < p[:, 1]).astype(int)
    write(tmp_path / "a.csv", p_0=100 * p[:, 0], p_1=100 * p[:, 1], y=y)
    assert run("fit", tmp_path / "a.csv", "-y", "y", "-m", "none", "-o", tmp_path / "cal.json").exit_code == 0
    write(tmp_path / "b.csv", p_0=[0.25, 0.5], p_1=[0.75, 0.5])
    done = run("apply", tmp_path / "cal.json", tmp_path / "b.csv", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(column(tmp_path / "out.csv", "p_1"), [0.75, 0.5])
