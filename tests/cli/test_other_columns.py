"""Files whose columns differ from those of another file, and weights that are no counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from calibrant import effective_counts
from calibrant.cli.printing import class_columns
from tests.cli.test_commands import ok, run

RNG = np.random.default_rng(0)
P = expit(1.5 * RNG.normal(size=200))
Y = np.where(RNG.random(200) < P, "yes", "no")
ONE = pd.DataFrame({"p_yes": P, "y": Y})


@pytest.fixture
def one(tmp_path: Path) -> Path:
    ONE.to_csv(tmp_path / "one.csv", index=False)
    ok("fit", tmp_path / "one.csv", "--label", "y", "-m", "platt-logits", "-o", tmp_path / "one.json")
    ok("apply", tmp_path / "one.json", tmp_path / "one.csv", "-o", tmp_path / "out.csv")
    return tmp_path


def test_a_line_of_columns_is_one_line() -> None:
    assert class_columns(["a\nb"], ["no", "y\nes"]) == r"Columns: 'a\nb' = 'y\nes' (the other class is no)"
    assert class_columns(["a\rb", "é"], ["no", "yes"]) == r"Columns: 'a\rb' = no, é = yes"


@pytest.mark.parametrize("names", [["p_no", "p_yes"], ["p_yes", "p_no"]])
def test_a_map_of_one_column_replaces_both_columns_of_a_file(one: Path, names: list[str]) -> None:
    pd.DataFrame({"p_no": 1 - P, "p_yes": P})[names].to_csv(one / "two.csv", index=False)
    done = ok("apply", one / "one.json", one / "two.csv", "-o", one / "both.csv")
    assert "Columns: p_no = no, p_yes = yes" in done.stdout
    found, expected = pd.read_csv(one / "both.csv"), pd.read_csv(one / "out.csv")["p_yes"]
    assert list(found) == names
    np.testing.assert_allclose(found["p_yes"], expected, atol=1e-12)
    np.testing.assert_allclose(found["p_no"], 1 - expected, atol=1e-12)


def test_a_column_that_is_not_the_other_probability_stays(one: Path) -> None:
    ONE.assign(p_no=P).to_csv(one / "odd.csv", index=False)
    done = ok("apply", one / "one.json", one / "odd.csv", "-o", one / "odd-out.csv")
    assert "Columns: p_yes = yes (the other class is no)" in done.stdout
    found = pd.read_csv(one / "odd-out.csv")
    np.testing.assert_array_equal(found["p_no"], P)
    np.testing.assert_array_equal(found["p_yes"], pd.read_csv(one / "out.csv")["p_yes"])


def test_weights_that_are_amounts_are_noted_once(tmp_path: Path) -> None:
    amount = RNG.lognormal(5, 1, 200).round(2)
    table = ONE.assign(amount=amount, count=RNG.integers(0, 90, 200), share=RNG.random(200))
    table.assign(effective=effective_counts(amount)).to_csv(tmp_path / "t.csv", index=False)
    said = "are not whole numbers, and a row counts for"
    fit = ["-m", "ts", "-o", tmp_path / "c.json", "--force"]
    for command, more in (("evaluate", []), ("fit", fit)):
        done = ok(command, tmp_path / "t.csv", "--label", "y", "--weight", "amount", *more)
        assert done.stderr.count(said) == 1
        assert "`calibrant.effective_counts`" in done.stderr
    for column in ("count", "share", "effective"):  # the advice, followed, is not repeated
        assert said not in ok("fit", tmp_path / "t.csv", "--label", "y", "--weight", column, *fit).stderr


def test_files_side_by_side_may_have_their_columns_in_any_order(tmp_path: Path) -> None:
    both = pd.DataFrame({"p_no": 1 - P, "p_yes": P, "y": Y})
    both.to_csv(tmp_path / "a.csv", index=False)
    both[["p_yes", "y", "p_no"]].to_csv(tmp_path / "b.csv", index=False)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    made = ok("report", *files, "--label", "y", "--methods", "ts", "-o", tmp_path / "ab.html", "--json")
    one, other = json.loads(made.stdout)["reports"]
    assert one["classes"] == other["classes"] == ["no", "yes"]
    assert one["metrics"] == other["metrics"]
    said = ok("report", *files, "--label", "y", "--methods", "ts", "-o", tmp_path / "ab.html", "--force").stdout
    assert said.startswith("a.csv: ")
    assert "\n\nb.csv: " in said  # apart, so that what is said of one is not read as said of the other
    assert "\n\nThey differ, more than by chance, in: nothing." in said
    alone = ok("report", files[0], "--label", "y", "--methods", "ts", "-o", tmp_path / "a.html").stdout
    assert "a.csv:" not in alone
    assert "They differ" not in alone


def test_files_with_other_classes_are_not_put_side_by_side(tmp_path: Path) -> None:
    ONE.to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"p_no": 1 - P, "y": Y}).to_csv(tmp_path / "b.csv", index=False)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    done = run("report", *files, "--label", "y", "--methods", "ts", "-o", tmp_path / "ab.html")
    assert done.exit_code == 2
    assert "a single column must be of the same class. Make a separate report of each file" in done.stderr
    for file in files:  # what is advised
        ok("report", file, "--label", "y", "--methods", "ts", "-o", tmp_path / "one.html", "--force")
