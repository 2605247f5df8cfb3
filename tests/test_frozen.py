"""What version 1 keeps: the listed names, parameters, commands and formats are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.bench
def test_the_page_of_frozen_names_is_that_of_the_code():
    # In a process of its own: other tests register methods.
    code = "import freeze; print(freeze.page(), end='')"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    now = set(run.stdout.splitlines())
    kept = set((ROOT / "docs" / "frozen.md").read_text(encoding="utf-8").splitlines())
    assert kept - now == set(), "these changed or went; docs/stability.md says how, then run python tools/freeze.py"
    assert now - kept == set(), "these are new: run python tools/freeze.py to promise them"
