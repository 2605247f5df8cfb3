"""Programs that are stopped, and data that overflow: nothing half-written, a line that says so, an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli import app, main

ROWS = "p_a,p_b,y\n" + "0.25,0.75,b\n0.5,0.5,a\n0.75,0.25,a\n" * 20


#: Words of a command, and the function that is held up while its output is being written.
HELD_UP = {
    "fit": (["t.csv", "-y", "y", "-m", "ts", "-o", "out.json"], "calibrant.workflows.fitting", "stored_text"),
    "apply": (["c.json", "t.csv", "-o", "out.csv"], "calibrant.workflows.applying", "_with_columns"),
    "adapt": (["c.json", "--prior", "a=0.5,b=0.5", "-o", "out.json"], "calibrant.workflows.fitting", "stored_text"),
    "export": (["c.json", "-o", "out.py"], "os", "fsync"),
    "report": (["t.csv", "-y", "y", "--methods", "ts", "-o", "out.html"], "os", "fsync"),
    "watch": (["c.json", "t.csv", "-y", "y", "--state", "out.json"], "os", "fsync"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(ROWS)
    fitted = calibrant.get_calibrator("ts", classes=np.array(["a", "b"]))
    calibrant.save(fitted.fit_batches(calibrant.open_batches(tmp_path / "t.csv", "y")), tmp_path / "c.json")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals to a process")
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "Terminated"), (signal.SIGINT, 130, "Interrupted")]
)
@pytest.mark.parametrize("command", HELD_UP)
def test_a_command_that_is_stopped_while_it_writes(
    folder: Path, command: str, number: int, code: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """`test_a_signal_while_a_command_writes` without a process for each: the signal comes in the middle of a file."""
    words, module, function = HELD_UP[command]
    before = sorted(path.name for path in folder.iterdir())
    seen = []

    def stopped(*_: object, **__: object) -> None:
        seen.extend(folder.glob("*.part"))
        os.kill(os.getpid(), number)

    monkeypatch.setattr(importlib.import_module(module), function, stopped)
    monkeypatch.setattr(sys, "argv", ["calibrant", command, *words])
    monkeypatch.chdir(folder)
    handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore interrupts
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
    assert (ended.value.code, capsys.readouterr().err.splitlines()[-1]) == (code, f"{word}. Nothing was written.")
    assert seen, "there was something half-written to remove"
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals to a process")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", HELD_UP)
def test_a_signal_while_a_command_writes(folder: Path, command: str, number: int) -> None:
    """No output, no part of one, no lock; one line and an exit code."""
    tmp_path = folder
    words, module, function = HELD_UP[command]
    program = (
        f"import sys, time, importlib, signal; sys.argv = ['calibrant', {command!r}, *{words!r}]\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"setattr(importlib.import_module({module!r}), {function!r}, lambda *_, **__: time.sleep(600))\n"
        "from calibrant.cli import main; main()"
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    child = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("*.part")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    child.send_signal(number)
    _, err = child.communicate()
    assert (err.splitlines()[-1].endswith("Nothing was written."), child.returncode) == (True, 128 + number), err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_weights_whose_sum_overflows_are_refused(tmp_path: Path) -> None:
    lines = ROWS.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([lines[0] + ",w", *(f"{line},1e308" for line in lines[1:])]))
    for command in (("evaluate",), ("fit", "-m", "ts", "-o", tmp_path / "c.json")):
        words = [command[0], tmp_path / "t.csv", "-y", "y", "--weight", "w", *command[1:]]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 1, result.output
        assert "weights" in result.stderr
    assert not (tmp_path / "c.json").exists()


def test_two_documents_never_share_standard_output(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS)
    words = ["fit", str(tmp_path / "t.csv"), "-y", "y", "-m", "ts", "-o", "-", "--json"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot both go to standard output" in result.stderr


def test_warnings_are_lines_of_their_own(tmp_path: Path) -> None:
    lines = ROWS.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([lines[0] + ",w", *(f"{line},{1 / 60}" for line in lines[1:])]))
    words = ["fit", str(tmp_path / "t.csv"), "-y", "y", "--weight", "w", "-m", "ts", "-o", str(tmp_path / "c.json")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    shown = result.stderr.splitlines()
    assert len(shown) == 1
    assert shown[0].startswith("Warning: ")
    assert "sum to 1" in shown[0]
