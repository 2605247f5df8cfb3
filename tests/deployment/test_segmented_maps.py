"""Segmented maps as steps: what the documentation says, in NumPy alone, in files, and adapted."""

from __future__ import annotations

import copy
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import adapt, runtime
from calibrant.deployment.segments.columns import cell_steps
from tests.segmented import CASES, expected, rows, segmented
from tests.steps.test_decoding import damage


def new_rows(case: int) -> tuple[Any, dict[str, Any]]:
    """Rows that the fit did not see, with unknown levels and numbers at the ends of bins."""
    p, frame = rows(200, CASES[case][0], case + 100)
    frame["region"][:20] = "nowhere"
    frame["tier"] = np.where(np.arange(200) % 20 == 1, "", frame["tier"])
    edges = segmented(case).segment_columns_["age"]
    frame["age"][40 : 40 + len(edges)] = edges
    frame["age"][60:62] = -1e150, 1e150
    return p, frame


@pytest.mark.parametrize("case", range(len(CASES)))
def test_predictions_are_those_of_the_definition(case: int, tmp_path: Path) -> None:
    calibrator, (p, frame) = segmented(case), new_rows(case)
    logits = calibrator.input == "logits"
    x = np.log(p) if logits else p
    found = calibrator.predict_proba(x, segments=frame)
    np.testing.assert_allclose(found, expected(calibrator, p, frame), rtol=0, atol=1e-13)
    assert np.abs(found - calibrator.calibrator_.predict_proba(p)).max() > 0.1
    np.testing.assert_array_equal(calibrator.to_map().predict_proba(x, segments=pd.DataFrame(frame)), found)
    calibrant.save(calibrator, tmp_path / "cal.json")
    light = runtime.load(tmp_path / "cal.json")
    np.testing.assert_allclose(light.predict_proba(x, segments=frame), found, rtol=0, atol=1e-14)
    assert light.predict(x[:5], segments={name: column[:5] for name, column in frame.items()})
    again = calibrant.load(tmp_path / "cal.json")
    np.testing.assert_array_equal(again.predict_proba(x, segments=frame), found)
    prior = np.arange(1.0, p.shape[1] + 1)
    adapted = adapt(calibrator, prior=prior / prior.sum(), source=np.full(len(prior), 1.0 / len(prior)))
    weighed = found * prior
    calibrant.save(adapted, tmp_path / "adapted.json")
    for other in (adapted, runtime.load(tmp_path / "adapted.json")):
        np.testing.assert_allclose(
            other.predict_proba(x, segments=frame), weighed / weighed.sum(axis=1, keepdims=True), rtol=1e-12
        )


def test_no_correction_is_the_global_map_bit_for_bit() -> None:
    calibrator, (p, frame) = copy.copy(segmented(2)), new_rows(2)
    calibrator.intercept_ = calibrator.slope_ = np.zeros_like(calibrator.slope_)
    np.testing.assert_array_equal(calibrator.predict_proba(p, segments=frame), calibrator.calibrator_.predict_proba(p))


def test_errors_say_what_to_do() -> None:
    (p, frame), found = new_rows(0), segmented(0).to_map()
    with pytest.raises(ValueError, match="needs segments=, a frame with the columns region, phone's, tier, age"):
        found.predict_proba(p)
    with pytest.raises(ValueError, match="lacks the column 'tier'"):
        found.predict_proba(p, segments={name: frame[name] for name in ("region", "age", "phone's")})
    with pytest.raises(ValueError, match="takes no segments"):
        segmented(0).calibrator_.to_map().predict_proba(p, segments=frame)
    many = {str(j): np.array([str(i) for i in range(30)]) for j in range(11)}
    with pytest.raises(ValueError, match="too many to number"):
        cell_steps(many, np.zeros((1, 11), dtype=np.int64), 0)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ("region", "segments should be a list of columns"),
        ([], "segments should be a list of columns"),
        ([{"name": "region"}], "should hold name"),
        ([{"name": 1, "levels": None}], "should hold name"),
        ([{"name": "region", "levels": []}], "levels should be texts"),
        ([{"name": "region", "levels": [1]}], "levels should be texts"),
        ([{"name": "region", "levels": ["a", "a"]}], "different texts"),
        ([{"name": "region", "levels": ["a"]}] * 4, "different names"),
        ([{"name": "region", "levels": ["a"]}], "numbers below"),
    ],
)
def test_strange_columns_are_refused(segments: Any, message: str) -> None:
    with pytest.raises(runtime.FileError, match=message):
        runtime.Map.from_json({**segmented(0).to_map().to_json(), "segments": segments})


def test_damaged_maps_are_refused_or_give_distributions() -> None:
    rng, (p, frame) = random.Random(0), new_rows(1)
    few = {name: column[:5] for name, column in frame.items()}
    plain, refused = json.dumps(segmented(1).to_map().to_json()), 0
    for _ in range(30):
        value = json.loads(plain)
        damage(value, rng)
        try:
            found = runtime.Map.from_json(value)
        except runtime.FileError:
            refused += 1
            continue
        if found.logits or list(found.segments) != list(few):
            continue
        with np.errstate(all="ignore"), suppress(runtime.FileError):
            np.testing.assert_allclose(found.predict_proba(p[:5], segments=few).sum(axis=1), 1.0, atol=1e-3)
    assert 0 < refused < 30


def test_maps_without_segments_are_stored_as_before() -> None:
    assert "segments" not in segmented(0).calibrator_.to_map().to_json()
