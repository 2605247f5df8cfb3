"""`calibrant export` writes a proven file and says how it compared."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli import app


@pytest.fixture
def stored(tmp_path):
    calibrator = calibrant.get_calibrator("isotonic").fit([0.1, 0.6, 0.9, 0.8], ["</script>", "*/", "*/", "*/"])
    calibrant.save(calibrator, tmp_path / "cal.json")
    return tmp_path / "cal.json"


def test_a_file_is_written_and_the_comparison_printed(stored, tmp_path):
    done = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.py")])
    assert done.exit_code == 0, done.output
    assert "largest difference" in done.output
    scope: dict = {}
    exec((tmp_path / "cal.py").read_text(), scope)
    assert scope["CLASSES"] == ["*/", "</script>"]
    again = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.py"), "--json"])
    assert again.exit_code == 2
    assert "--force" in again.output
    forced = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.py"), "--json", "--force"])
    assert json.loads(forced.output)["difference"] <= 1e-12


def test_standard_output_is_no_file_of_that_name(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["export", str(stored), "-o", "-", "--to", "python"])
    assert done.exit_code == 0, done.output
    scope: dict = {}
    exec(done.stdout, scope)
    assert scope["CLASSES"] == ["*/", "</script>"]
    for words, message in ((["--to", "c", "--json"], "cannot both go to standard output"), ([], "--to is not given")):
        refused = CliRunner().invoke(app, ["export", str(stored), "-o", "-", *words])
        assert refused.exit_code == 2
        assert message in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cal.json"]


def test_what_would_run_it_is_named_where_it_is_missing(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.js")])
    assert done.exit_code == 0, done.output
    assert "Not proven: node is not installed." in done.output
    assert "Not proven: node is not installed." in (tmp_path / "cal.js").read_text()


def test_an_unknown_target_is_named(stored, tmp_path):
    done = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.xyz")])
    assert done.exit_code != 0
    assert "take one of python, js, c, onnx, torch" in done.output
    assert not (tmp_path / "cal.xyz").exists()


@pytest.mark.parametrize(
    ("target", "flag", "others"), [("sql", "--float32", "onnx and torch"), ("c", "--table=t", "sql")]
)
def test_a_flag_of_another_target_is_named_as_it_was_written(stored, tmp_path, target, flag, others):
    done = CliRunner().invoke(app, ["export", str(stored), "-o", str(tmp_path / "cal.out"), "--to", target, flag])
    assert done.exit_code == 2
    assert f"{flag.split('=')[0]} is an option of {others}, not of {target}: leave it out." in done.output
    assert not (tmp_path / "cal.out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cal.xyz"], "--to is not given and the file's name does not show the target: take one of python"),
        (["cal.out", "--to", "perl"], "--to perl is not a target"),
        (["cal.sql", "--dialect", "oracle"], "--dialect oracle is unknown: use one of ansi"),
        (["cal.sql", "--table", "a.b.c.d"], "--table a.b.c.d is not the name of a table"),
        (["cal.sql", "--columns", "a,b,c"], "--columns a,b,c are 3 names; 2 are needed, one per class"),
        (["cal.sql", "--columns", "a,A", "--dialect", "duckdb"], "--columns a,A names one column twice"),
    ],
)
def test_values_that_cannot_be_used_are_named_by_their_flag(stored, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["export", str(stored), "-o", *arguments])
    assert done.exit_code == 2
    assert f"Error: {message}" in done.stderr
    assert not (tmp_path / arguments[0]).exists()
