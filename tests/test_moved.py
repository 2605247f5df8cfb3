"""Modules under the names they had in version 0.1.0."""

from __future__ import annotations

import importlib
import pickle
import sys

import pytest

from calibrant import get_calibrator
from calibrant.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_gives_the_module_and_warns(old: str) -> None:
    new = importlib.import_module(MOVED[old])
    spec = new.__spec__
    sys.modules.pop(old, None)
    parent = old.rpartition(".")[0]
    if parent in MOVED:
        sys.modules.setdefault(parent, importlib.import_module(MOVED[parent]))
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}"):
        assert importlib.import_module(old) is new
    assert new.__spec__ is spec


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pickle_of_the_first_version_loads() -> None:
    ts = get_calibrator("ts").fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    data = pickle.dumps(ts, protocol=0).replace(b"calibrators.scaling.temperature", b"calibrators.temperature")
    assert b"calibrant.calibrators.temperature\n" in data
    assert pickle.loads(data).inverse_temperature_ == ts.inverse_temperature_
