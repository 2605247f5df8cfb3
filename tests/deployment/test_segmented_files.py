"""Files of calibrators with segments that somebody changed: refused, or good for predictions."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import SegmentedCalibrator, get_calibrator
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.runtime import canonical, checksum
from tests.files.test_fuzz_stored import mutate


@pytest.mark.fuzz
@pytest.mark.parametrize("k", [2, 3])
def test_changed_files_are_refused_or_predict(k: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), size=300)
    frame = {"region": rng.choice(["north", "west"], 300), "age": rng.integers(18, 80, 300)}
    calibrator = SegmentedCalibrator(get_calibrator("ts"), crossed=True, strength=3.0)
    calibrator.fit(p, np.argmax(p, axis=1), segments=frame)
    calibrant.save(calibrator, tmp_path / "fitted.json")
    whole, seen = json.loads((tmp_path / "fitted.json").read_text()), set()
    text = json.dumps({name: value for name, value in whole.items() if not name.startswith("map")})
    for _ in range(400):
        document = json.loads(text)
        with contextlib.suppress(KeyError, TypeError, ValueError):
            mutate(document["content"], rng)
        with contextlib.suppress(ValueError):
            document["sha256"] = checksum(canonical(document["content"]))
        (tmp_path / "changed.json").write_text(json.dumps(document))
        try:
            changed = calibrant.load(tmp_path / "changed.json")
        except CalibratorFileError:
            seen.add("refused")
            continue
        if not isinstance(changed, SegmentedCalibrator) or changed.input == "logits":
            continue
        values = {name: frame.get(name, np.arange(300)) for name in changed.segment_columns_}
        found = changed.predict_proba(p, segments=values)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
        seen.add("predicted")
    assert seen == {"refused", "predicted"}
