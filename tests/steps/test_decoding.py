"""A stored list of steps is checked before anything is computed with it."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import numpy as np
import pytest

import calibrant
from calibrant import runtime
from calibrant.steps import check_steps, decode, encode
from tests.steps.maps import fitted

WRONG = [
    ([{"step": "shell", "command": "ls"}], "does not know"),
    ([{"step": "softmax", "more": 1}], "should hold nothing"),
    ([{"step": "clip", "low": 0.0}], "should hold low, high"),
    ([{"step": "clip", "low": 1.0, "high": 0.0}], "low exceeds high"),
    ([{"step": "clip", "low": "0", "high": 1.0}], "expected a number"),
    ([{"step": "mix", "weight": 1.5}], "expected a number in"),
    ([{"step": "scale", "factor": [1.0, 2.0], "shift": 0.0}], "factor should hold 3 numbers"),
    ([{"step": "scale", "factor": float("inf"), "shift": 0.0}], "expected numbers in"),
    ([{"step": "columns", "index": [0, 3]}], "numbers below 3"),
    ([{"step": "columns", "index": [0.5]}], "whole numbers"),
    ([{"step": "linear", "matrix": [[1.0], [2.0]], "shift": 0.0}], "matrix should have 3 rows"),
    ([{"step": "linear", "matrix": [[1.0], [2.0, 3.0]], "shift": 0.0}], "linear"),
    ([{"step": "log-odds"}], "two columns are expected"),
    (
        [
            {"step": "columns", "index": [1]},
            {"step": "line", "knots": [1.0, 1.0], "values": [0.0, 1.0], "extend": False},
        ],
        "does not increase",
    ),
    ([{"step": "columns", "index": [1]}, {"step": "step-function", "edges": [1.0], "values": [0.0]}], "one more"),
    ([{"step": "sum", "parts": []}], "lists of steps"),
    ([{"step": "sum", "parts": [[], [{"step": "columns", "index": [0]}]]}], "differ in columns"),
    ([{"step": "one-vs-rest", "parts": [[], []]}], "3 parts are expected"),
    (
        [
            {
                "step": "trees",
                "features": [[3]],
                "subtracted": [[-1]],
                "thresholds": [[0.0]],
                "values": [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
            }
        ],
        "there are 3 columns",
    ),
    ([{"step": "levels", "intercept": [[1.0]], "slope": [[1.0]]}], "intercept and slope should have 2 columns"),
    ([{"step": "levels", "intercept": [[1.0, 1.0]], "slope": [[1.0, 1.0]] * 2}], "intercept and slope should have"),
    ([{"step": "columns", "index": [1]}, {"step": "lead"}], "at least two columns"),
    ([{"step": "join", "parts": [[{"step": "columns", "index": [3]}]]}], "numbers below 3"),
    ([{"step": "join", "parts": [[], []]}], "a part should start with columns or join"),
    ([{"step": "join", "parts": [[{"step": "softmax"}]]}] * 2, "a part should start with columns or join"),
    (
        [{"step": "trees", "features": [[0]], "subtracted": [[-1]], "thresholds": [[0.0]], "values": [[[], []]]}],
        "values should have shape",
    ),
    ("softmax", "a list of steps"),
]


@pytest.mark.parametrize(("steps", "message"), WRONG)
def test_wrong_steps_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        check_steps(decode(steps), 3)


def test_lists_cannot_nest_without_end():
    steps: list = [{"step": "softmax"}]
    for _ in range(50):
        steps = [{"step": "sum", "parts": [steps]}]
    with pytest.raises(ValueError, match="a list of steps"):
        decode(steps)


@pytest.mark.parametrize("name", ["auto, thorough", "isotonic, ovo", "spline", "venn-abers"])
def test_encoding_keeps_every_bit(name):
    steps = encode(fitted(name, 3)[0].steps())
    assert encode(decode(json.loads(json.dumps(steps)))) == steps


def test_damaged_numbers_give_errors_or_numbers_and_nothing_else():
    """Random damage inside of stored steps: refused, or a map that gives distributions."""
    rng = random.Random(0)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    for name in ("auto", "isotonic, ovo", "spline", "kernel", "sms"):
        plain = json.dumps(fitted(name, 3)[0].to_map().to_json())
        for _ in range(60):
            value = json.loads(plain)
            damage(value, rng)
            try:
                found = runtime.Map.from_json(value)
            except runtime.FileError:
                continue
            if len(found.classes) != 3 or found.logits:
                continue
            with np.errstate(all="ignore"), suppress(runtime.FileError):
                p = found.predict_proba(rows)
                np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-3)


def damage(value, rng):
    """Change one place of nested lists and objects."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.9:
            value = value[key]
            continue
        value[key] = rng.choice([None, -1, 0, 7, 1e300, 0.5, "x", [], [1.0], {}, True, float("nan")])
        return


def test_files_that_hold_no_map_say_why(tmp_path):
    calibrator, _ = fitted("ts", 3)
    path = tmp_path / "cal.json"
    calibrant.save(calibrator, path)
    text = path.read_text()
    path.write_text(text.replace('"map_sha256": "', '"map_sha256": "0'))
    for load in (runtime.load, calibrant.load):
        with pytest.raises(ValueError, match="its map does not match its checksum"):
            load(path)
    path.write_text(text.replace('"renormalize":false', '"renormalize":1e999'))  # more than a double holds
    with pytest.raises(runtime.FileError, match=r"cal\.json: This file is damaged"):
        runtime.load(path)
    document = json.loads(text)
    path.write_text(json.dumps({key: item for key, item in document.items() if not key.startswith("map")}))
    with pytest.raises(runtime.FileError, match=r"written by calibrant 0\.1\.0"):
        runtime.load(path)
    for other in ("{}", "not JSON"):
        path.write_text(other)
        with pytest.raises(runtime.FileError, match="not a calibrator file"):
            runtime.load(path)
