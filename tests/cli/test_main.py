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


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from calibrant.cli import main\n"
        "for words in ('', 'fit', 'bench', 'bench run'):\n"
        "    sys.argv = ['calibrant', *words.split(), '--help']\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        f"    print(words, [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stderr.splitlines() == [" []", "fit []", "bench []", "bench run []"]


@pytest.mark.parametrize("module", ["calibrant"])
def test_the_package_runs_as_a_module(module: str) -> None:
    shown = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f"calibrant {calibrant.__version__}"
