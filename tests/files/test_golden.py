"""Calibrators stored by earlier versions (tools/write_golden.py) load and predict what they predicted then."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import runtime, steps

GOLDEN = Path(__file__).parent / "golden"
FILES = [path for path in sorted(GOLDEN.glob("*/*.json")) if path.name != "expected.json"]
VERSIONS = sorted(path.name for path in GOLDEN.iterdir())


@cache
def record(version: str) -> Any:
    return json.loads((GOLDEN / version / "expected.json").read_text())


def check(path: Path, calibrator: Any) -> None:
    """It predicts what was written down."""
    found = record(path.parent.name)
    expected = found["expected"][path.name]
    rows = np.array(found["rows"][str(expected["k"])])
    X = np.log(np.maximum(rows, 1e-12)) if expected["logits"] else rows
    beside = {"segments": found["segments"]} if expected.get("segmented") else {}
    np.testing.assert_allclose(calibrator.predict_proba(X, **beside), expected["proba"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_stored_calibrator_predicts_as_when_it_was_stored(path: Path) -> None:
    loaded, document = calibrant.load(path), json.loads(path.read_text())
    check(path, loaded[0] if isinstance(loaded, list) else loaded)
    if isinstance(loaded, list):  # the folds of a classifier, of which the runtime takes one
        check(path, runtime.Map.from_json(document["map"][0]))
    elif "map" in document:
        check(path, runtime.load(path))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_file_of_a_version_is_there(version: str) -> None:
    assert {path.name for path in FILES if path.parent.name == version} == set(record(version)["expected"])
    assert json.loads((GOLDEN / version / "ts-2.json").read_text())["calibrant"].startswith(version)


def test_the_last_version_has_a_file_of_every_method_and_step() -> None:
    folder = GOLDEN / VERSIONS[-1]
    storable = {info.name for info in calibrant.list_calibrators() if info.stores}
    assert storable <= {path.stem.rpartition("-")[0] for path in folder.glob("*.json")}
    text = "".join(path.read_text() for path in folder.glob("*.json"))
    kinds = {getattr(getattr(steps, name), "kind", "") for name in steps.__all__} - {""}
    # Only maps of log-probabilities would need `exp`, and no calibrator is fitted to them; intervals are not stored.
    assert {kind for kind in kinds if f'"step":"{kind}"' not in text} == {"exp", "delta-ends"}
