"""Every stored method with its numbers, shapes, names and types changed at random: refused, or valid probabilities.

The checksum is computed anew, as an attacker would, so that the checks of the content are what is tested.
"""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.deployment import AdaptedCalibrator, ChainedCalibrator
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.steps.map_documents import canonical, checksum
from tests.altered import NUMBERS, pick, places
from tests.samples import sharpened

FILES = sorted((Path(__file__).parent / "golden" / "0.1.0").glob("*-[0-9].json"))
NAMES = {path: json.loads(path.read_text())["content"]["class"].partition(":")[2] for path in FILES}
CLASSES = sorted(set(NAMES.values()))
#: The same fields are checked whatever the number of classes is: `make test` takes one file of each class.
OFTEN = {NAMES[path]: path for path in reversed(FILES) if path.stem[-1] in "23"}.values()
EACH = [pytest.param(path, marks=[] if path in OFTEN else pytest.mark.slow, id=path.stem) for path in FILES]


def mutate(content: Any, rng: np.random.Generator) -> None:
    """Change one thing, somewhere that matters as often as inside long lists of numbers."""
    every = places(content, [])
    arrays = [owner[key] for owner, key in every if isinstance(owner[key], dict) and owner[key].get("$") == "array"]
    outside = [(owner, key) for owner, key in every if not isinstance(owner, list)]
    owner, key = pick(rng, outside)
    array = pick(rng, arrays)
    kind = rng.integers(12)
    if kind == 0 and array["data"]:
        array["data"][int(rng.integers(len(array["data"])))] = pick(rng, NUMBERS)
    elif kind == 1 and array["data"]:
        array["data"] = [pick(rng, NUMBERS[:-5])] * len(array["data"])
    elif kind == 2:
        array["shape"] = [
            pick(rng, [0, 1, 2, 3, 5, 10**6, 10**18, -1, len(array["data"])]) for _ in range(rng.integers(4))
        ]
    elif kind == 3:
        array["shape"] = array["shape"][::-1]
    elif kind == 4 and array["shape"]:
        array["shape"][0] = max(0, array["shape"][0] + int(rng.integers(-2, 3)))
        size = int(np.prod(array["shape"]))
        array["data"] = (array["data"] * (size + 1))[:size] if size < 10**6 else array["data"]
    elif kind == 5:
        array["dtype"] = pick(
            rng, ["<f4", "<i8", "<i1", "<u8", "|b1", "|O", "<U3", "<U999999999", "<M8[D]", "|S3", "<f8"]
        )
    elif kind == 6:
        other = pick(rng, arrays)
        array["data"], other["data"] = other["data"], array["data"]
        array["shape"], other["shape"] = other["shape"], array["shape"]
    elif kind == 7:
        array["data"] = array["data"][::-1]
    elif kind == 8:
        del owner[key]
    elif kind == 9:
        owner[
            pick(rng, ["_map", "predict_proba", "__class__", "_parameter_constraints", "new_", "knots_", "shape"])
        ] = 1
    elif kind == 10:
        source, name = pick(rng, outside)
        owner[key] = copy.deepcopy(source[name])
    elif kind == 11 and rng.random() < 0.5:
        content["class"] = pick(rng, CLASSES)
    else:
        owner[key] = copy.deepcopy(pick(rng, NUMBERS))


def rows(k: int) -> np.ndarray:
    rng = np.random.default_rng(k)
    corners = np.vstack([np.eye(k), np.full((1, k), 1.0 / k), np.eye(k) * (1 - 1e-9) + 1e-9 / k])
    return np.vstack([corners / corners.sum(axis=1, keepdims=True), rng.dirichlet(np.full(k, 0.3), 20)])


def check(path: Path, seed: int, folder: Path) -> str:
    """One changed file: what happened."""
    document = json.loads(path.read_text())
    rng = np.random.default_rng([seed, *path.name.encode()])
    for _ in range(int(rng.integers(1, 3))):
        with contextlib.suppress(KeyError, TypeError, ValueError):  # the first change left nothing for the second
            mutate(document["content"], rng)
    return outcome(document, folder)


def outcome(document: Any, folder: Path) -> str:
    """What happened to a changed document: refused, or valid probabilities."""
    try:
        document["sha256"] = checksum(canonical(document["content"]))
    except ValueError:
        return "not JSON"
    changed = folder / "changed.json"
    changed.write_text(json.dumps(document))
    try:
        calibrator = calibrant.load(changed)
    except CalibratorFileError:
        return "refused"
    k = len(calibrator.classes_)
    given = rows(k)
    proba = calibrator.predict_proba(np.log(np.maximum(given, 1e-12)) if calibrator.input == "logits" else given)
    assert proba.shape == (len(given), k)
    assert np.all((proba >= 0.0) & (proba <= 1.0 + 1e-12))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    return "predicted"


@pytest.mark.parametrize("path", EACH)
@pytest.mark.parametrize("number", [10**30, -(2**63)])
def test_every_number_may_be_an_integer_of_any_size(path: Path, number: int, tmp_path: Path) -> None:
    """What loads predicts: each number by itself that is no cell of an array, as an integer beyond 64 bits."""
    whole = json.loads(path.read_text())
    for owner, key in places(whole["content"], []):
        if isinstance(owner, dict) and type(owner[key]) in (int, float):
            before, owner[key] = owner[key], number
            outcome(whole, tmp_path)
            owner[key] = before


@pytest.mark.parametrize("path", EACH)
def test_changed_files_are_refused_or_predict(path: Path, tmp_path: Path) -> None:
    for seed in range(6):
        check(path, seed, tmp_path)


FITTED = [
    *((info.make(), k) for info in calibrant.list_calibrators() if info.stores for k in (2, 3) if info.supports(k)),
    *((calibrant.get_calibrator("auto", monotone=True), k) for k in (2, 3)),
    (calibrant.get_calibrator("sqs", n_landmarks=10), 3),
    (calibrant.get_calibrator("isotonic", multiclass="ovo"), 3),
    (AdaptedCalibrator(calibrant.get_calibrator("ts"), [0.7, 0.2, 0.1]), 3),
    (ChainedCalibrator(calibrant.get_calibrator("isotonic"), calibrant.get_calibrator("ts")), 3),
]


@pytest.mark.fuzz
@pytest.mark.parametrize(("calibrator", "k"), FITTED, ids=[f"{i}-{c}-{k}" for i, (c, k) in enumerate(FITTED)])
def test_many_changed_files_are_refused_or_predict(calibrator: Any, k: int, tmp_path: Path) -> None:
    calibrant.save(calibrator.fit(*sharpened(150, k)), tmp_path / "fitted.json")
    seen = {check(tmp_path / "fitted.json", seed, tmp_path) for seed in range(400)}
    assert {"refused", "predicted"} <= seen
