"""Optional packages in tests: skipped where they are not installed, demanded in continuous integration."""

from __future__ import annotations

import importlib
import os
import shutil
import warnings
from typing import Any

import pytest


def in_ci() -> bool:
    """Whether everything that is optional is installed, so that what is missing is a failure."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def needs_program(name: str) -> str:
    """Where a program is, or a skipped test; in continuous integration a missing one is a failure."""
    path = shutil.which(name)
    if path is None:
        (pytest.fail if in_ci() else pytest.skip)(f"{name} is not installed")
    return str(path)


def needs(module: str) -> Any:
    """The module, or a skipped test; with `CI=true`, where every extra is installed, a missing one is a failure."""
    if in_ci():
        with warnings.catch_warnings():  # as importorskip does: what another package warns of is not ours
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    return pytest.importorskip(module)
