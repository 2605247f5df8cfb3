"""What version 1 keeps: the listed names, parameters, commands and formats are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.bench
def test_the_page_of_frozen_names_is_that_of_the_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import freeze

    # Other tests register methods, which are classes; our own are imported by their names when they are used.
    own = [info for info in freeze.list_calibrators() if isinstance(info.factory, str)]
    monkeypatch.setattr(freeze, "list_calibrators", lambda: own)
    now = set(freeze.page().splitlines())
    kept = set((ROOT / "docs" / "frozen.md").read_text(encoding="utf-8").splitlines())
    assert kept - now == set(), "these changed or went; docs/stability.md says how, then run python tools/freeze.py"
    assert now - kept == set(), "these are new: run python tools/freeze.py to promise them"
