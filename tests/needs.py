"""Optional packages in tests: skipped where they are not installed, demanded in continuous integration."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import pytest


def needs(module: str) -> Any:
    """The module, or a skipped test; with `CI=true`, where every extra is installed, a missing one is a failure."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        with warnings.catch_warnings():  # as importorskip does: what another package warns of is not ours
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    return pytest.importorskip(module)
