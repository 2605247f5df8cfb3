"""Programs that run what was written: in a folder of their own that is gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class MissingRuntimeError(ImportError):
    """What would run an export is not installed."""


@contextmanager
def workshop(files: Mapping[str, str]) -> Iterator[Path]:
    """A new folder with these files."""
    with tempfile.TemporaryDirectory(prefix="calibrant-export-") as name:
        for file, text in files.items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        yield Path(name)


def run_program(command: list[str], folder: Path, stdin: str = "") -> str:
    """What a program writes to its standard output; an error if it fails."""
    if shutil.which(command[0]) is None:
        raise MissingRuntimeError(f"{command[0]} is not installed.")
    done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed on an export: {done.stderr[-1000:]}")
    return done.stdout
