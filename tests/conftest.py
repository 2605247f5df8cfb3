"""Folders of real data that some tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _folder(variable: str) -> Path:
    """The folder that an environment variable names; its data belong to others and are no part of the repository."""
    folder = Path(os.environ.get(variable) or "unset")
    if not folder.is_dir():
        pytest.skip(f"these data are no part of the repository, and {variable} names no folder of them")
    return folder


@pytest.fixture(scope="session")
def predictions_folder() -> Path:
    """HDF5 files of real predictions; tests that use it are marked `predictions`."""
    return _folder("CALIBRANT_PREDICTIONS")


@pytest.fixture(scope="session")
def published() -> Path:
    """The published result tables; tests that use them are marked `published`."""
    return _folder("CALIBRANT_PUBLISHED")
