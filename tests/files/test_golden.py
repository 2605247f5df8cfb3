"""Calibrators stored by earlier versions load and predict what they predicted then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calibrant

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*/*-[0-9].json"))


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_stored_calibrator_predicts_as_when_it_was_stored(path: Path) -> None:
    record = json.loads((path.parent / "expected.json").read_text())
    expected = record["expected"][path.name]
    rows = np.array(record["rows"][str(expected["k"])])
    calibrator = calibrant.load(path)
    X = np.log(np.maximum(rows, 1e-12)) if expected["logits"] else rows
    np.testing.assert_allclose(calibrator.predict_proba(X), expected["proba"], rtol=0, atol=1e-12)


def test_every_version_has_its_files() -> None:
    assert len(FILES) >= 91
