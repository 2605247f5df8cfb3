"""Files of calibrators with segments that somebody changed: refused, or good for predictions."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationWarning, SegmentedCalibrator, get_calibrator
from calibrant.deployment import ChainedCalibrator
from calibrant.files.stored.encoding import CalibratorFileError, encode
from calibrant.steps.map_documents import FORMAT, canonical, checksum
from tests.files.test_fuzz_stored import mutate
from tests.segmented import rows, segmented


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
        with warnings.catch_warnings():  # levels may have been changed
            warnings.simplefilter("ignore", CalibrationWarning)
            found = changed.predict_proba(p, segments=values)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
        seen.add("predicted")
    assert seen == {"refused", "predicted"}


def changed(calibrator: Any, change: Any, folder: Path) -> Path:
    """The file of a calibrator after `change` of its content, with a new checksum."""
    content = encode(calibrator)
    change(content["state"])
    document = {"format": FORMAT, "version": 1, "sha256": checksum(canonical(content)), "content": content}
    (folder / "changed.json").write_text(json.dumps(document))
    return folder / "changed.json"


def test_a_calibrator_with_segments_inside_one_that_has_none_is_refused(tmp_path: Path) -> None:
    inner, ts = segmented(0), get_calibrator("ts").fit([0.2, 0.6, 0.9, 0.4], [0, 1, 1, 0])
    one_vs_rest = get_calibrator("isotonic").fit(np.eye(3), [0, 1, 2])
    for outer, path in (
        (ChainedCalibrator.of_fitted(ts, ts), lambda state: state.update(second_=encode(inner))),
        (inner, lambda state: state.update(calibrator_=encode(inner))),
        (one_vs_rest, lambda state: state.update(estimators_=[encode(inner)] * 3)),
    ):
        with pytest.raises(CalibratorFileError, match="needs segments, which are not passed on here"):
            calibrant.load(changed(outer, path, tmp_path))
    handed_on = changed(ChainedCalibrator.of_fitted(inner, ts), lambda state: None, tmp_path)
    p, frame = rows(20, 2, 0)
    assert calibrant.load(handed_on).predict_proba(p, segments=frame).shape == (20, 2)


def test_numbers_without_bins_and_counts_that_are_none_are_refused(tmp_path: Path) -> None:
    def without_bins(state: dict[str, Any]) -> None:
        state["segment_columns_"]["items"][3][1] = {"$": "array", "dtype": "<f8", "shape": [0], "data": []}

    with pytest.raises(CalibratorFileError, match="segment_columns_ should hold"):
        calibrant.load(changed(segmented(0), without_bins, tmp_path))
    for counts in ("many", {"$": "array", "dtype": "<f8", "shape": [2], "data": [-1.0, 3.0]}):
        with pytest.raises(CalibratorFileError, match="class_counts_"):
            calibrant.load(changed(segmented(0), lambda state, c=counts: state.update(class_counts_=c), tmp_path))
