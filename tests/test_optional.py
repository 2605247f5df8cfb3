"""A missing package is answered with a command that works for the way this copy was installed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant import optional
from calibrant.progress import ProgressBar

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import house


class Note:
    def __init__(self, note: dict[str, Any] | None) -> None:
        self.note = note

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.note is None else json.dumps(self.note)


@pytest.mark.parametrize(
    ("note", "command"),
    [
        (None, "pip install 'calibrant[cli]'"),
        (
            {"url": "file:///home/me/calibrant", "dir_info": {"editable": True}},
            "pip install -e '/home/me/calibrant[cli]'",
        ),
        ({"url": "file:///home/me/my%20code", "dir_info": {}}, "pip install '/home/me/my code[cli]'"),
        ({"url": "file:///tmp/calibrant-1-py3.whl", "archive_info": {}}, "pip install '/tmp/calibrant-1-py3.whl[cli]'"),
        (
            {"url": "https://host.org/c.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'calibrant[cli] @ git+https://host.org/c.git@abc'",
        ),
        (
            {"url": "https://host.org/c.whl", "archive_info": {}},
            "pip install 'calibrant[cli] @ https://host.org/c.whl'",
        ),
    ],
)
def test_the_command_fits_the_installation(
    note: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optional, "distribution", lambda name: Note(note))
    assert optional.install_command("cli") == command


def test_sources_on_the_path_are_installed_from_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(optional, "distribution", nothing)
    root = Path(calibrant.__file__).parents[2]
    assert optional.install_command("bench") == f"pip install -e '{root}[bench]'"
    with pytest.raises(ImportError, match="'no_such_package'; install it with: pip install -e"):
        optional.require("no_such_package.part", extra="bench")
    assert optional.require("json", extra="cli") is json


WITHOUT = "import sys; sys.modules['typer'] = sys.modules['rich'] = None\n"


def run_without_typer_and_rich(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


def test_only_the_command_line_imports_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    above = {
        house.room(module)
        for module, tree in house.trees().items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        if (name or "").split(".")[0] in ("typer", "rich")
    }
    assert above == {"cli"}
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with ProgressBar(2, "fits", show=True) as bar:
        bar.advance(failed=True)
    assert bar.failed == 1


@pytest.mark.slow
def test_the_library_works_without_the_packages_of_the_command_line() -> None:
    done = run_without_typer_and_rich(
        "import calibrant.metrics, calibrant.plots\n"
        "print({'torch', 'matplotlib', 'numba'} & set(sys.modules) or 'nothing heavy')\n"
        "import numpy as np, calibrant\n"
        "p = np.tile([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], (20, 1))\n"
        "y = np.tile([0, 1, 1], 20)\n"
        "calibrant.AutoCalibrator().fit(p, y)\n"
        "calibrant.get_calibrator('ts').fit_batches([(p, y)])\n"
        "from calibrant.progress import ProgressBar\n"
        "with ProgressBar(2, 'fits', show=True) as bar: bar.advance()\n"
        "import calibrant.bench, calibrant.metrics, calibrant.plots, calibrant.report, calibrant.workflows\n"
        "print('done')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing heavy\ndone\n", "")


def test_the_program_says_how_to_install_what_it_needs() -> None:
    done = run_without_typer_and_rich("from calibrant.__main__ import main; main()")
    assert done.returncode == 1
    assert re.fullmatch(
        r"The command line needs the package 'typer'; install it with: pip install .*\[cli\]'?\n", done.stderr
    )


def test_any_other_missing_module_of_the_program_is_an_error_of_its_own() -> None:
    done = run_without_typer_and_rich(
        "sys.modules['calibrant.cli'] = None\nfrom calibrant.__main__ import main; main()"
    )
    assert "ModuleNotFoundError: import of calibrant.cli halted" in done.stderr
