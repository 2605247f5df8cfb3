"""What all tests share: folders of real data, and the markers of the test that runs."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.needs import RunningTest

# Collecting makes millions of objects that stay: looking through them for garbage again and again is a quarter of it.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


# Hooks: a fixture of every test would add a quarter to what pytest does for a small one.
def pytest_runtest_setup(item: pytest.Item) -> None:
    RunningTest.markers = frozenset(marker.name for marker in item.iter_markers())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    RunningTest.markers = None


def _folder(variable: str) -> Path:
    """The folder that an environment variable names; its data belong to others and are no part of the repository."""
    folder = Path(os.environ.get(variable) or "unset")
    if not folder.is_dir():
        pytest.skip(f"these data are no part of the repository, and {variable} names no folder of them")
    return folder


@pytest.fixture(scope="session")
def predictions_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HDF5 files of real predictions, or small ones in their place; tests that use it are marked `predictions`."""
    if os.environ.get("CALIBRANT_PREDICTIONS"):
        return _folder("CALIBRANT_PREDICTIONS")
    from tests.stand_in import write_stand_in  # needs the extra `bench`, as these tests do

    return write_stand_in(tmp_path_factory.mktemp("predictions"))


@pytest.fixture(scope="session")
def published() -> Path:
    """The published result tables; tests that use them are marked `published`."""
    return _folder("CALIBRANT_PUBLISHED")
