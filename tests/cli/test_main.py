"""The program as a whole: what it lists, what it imports, how it answers mistakes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli import COMMANDS, app

BENCH = ("build", "run", "merge", "report", "search")
HEAVY = ("numpy", "scipy", "sklearn", "pandas", "numba", "torch", "matplotlib", "rich")


def test_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"calibrant {calibrant.__version__}"


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for name, summary in COMMANDS.items():
        assert name in result.output
        assert summary.split()[0] in result.output


@pytest.mark.parametrize("words", [*COMMANDS, *(f"bench {name}" for name in BENCH)])
def test_every_command_loads_and_explains_itself(words: str) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_unknown_command_suggests_a_near_one() -> None:
    result = CliRunner().invoke(app, ["benhc"])
    assert result.exit_code == 2
    assert "bench" in result.output


@pytest.mark.parametrize("words", ["", "fit", "bench", "bench run"])
def test_help_imports_nothing_heavy(words: str) -> None:
    code = (
        f"import sys; sys.argv = ['calibrant', *{words.split()!r}, '--help']\n"
        "from calibrant.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", ["calibrant"])
def test_the_package_runs_as_a_module(module: str) -> None:
    shown = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f"calibrant {calibrant.__version__}"


def test_a_planted_module_in_the_working_folder_is_not_run(tmp_path):
    """`python -m` looks into the working folder first; a file among the data may bear the name of a package."""
    for name in ("pyarrow", "typer", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted code ran')")
    (tmp_path / "t.csv").write_text("p_a,p_b,y\n" + "0.25,0.75,b\n0.5,0.5,a\n0.75,0.25,a\n" * 5)
    words = ["fit", "t.csv", "-y", "y", "-m", "ts", "-o", "c.json"]
    done = subprocess.run([sys.executable, "-m", "calibrant", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, (tmp_path / "c.json").exists()) == (0, True), done.stderr
