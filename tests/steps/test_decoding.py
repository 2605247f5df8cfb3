"""A stored list of steps is checked before anything is computed with it."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import numpy as np
import pytest

import calibrant
from calibrant import runtime
from calibrant.steps import Trees, check_steps, decode, encode
from tests.steps.maps import fitted

ONE, TWO = {"step": "columns", "index": [1]}, {"step": "columns", "index": [0, 1]}


def trees(depth=1, subtracted=-1, thresholds=1, leaves=2):
    """One tree, or what is none."""
    asked = {
        "features": [[0] * depth],
        "subtracted": [[subtracted] * depth],
        "thresholds": [[0.0] * depth * thresholds],
    }
    return {"step": "trees", **asked, "values": [[[0.0]] * (leaves if depth == 1 else 2)]}


#: Steps at the ends of what is allowed.
RIGHT = [
    ([{"step": "clip", "low": 1.0, "high": 1.0}], 3),
    ([{"step": "mix", "weight": 1}], 3),
    ([{"step": "mix", "weight": 0.0}], 3),
    ([{"step": "scale", "factor": 1e100, "shift": [-1e100, 0.0, 1.0]}], 3),
    ([{"step": "columns", "index": [2, 0, 2, 1]}], 4),
    ([{"step": "polynomial", "coefficients": [1.0]}], 3),
    ([{"step": "polynomial", "coefficients": [1.0] * 10}], 3),
    ([{"step": "lead"}], 2),
    ([TWO, {"step": "lead"}], 2),
    ([TWO, {"step": "log-odds"}], 1),
    ([ONE, {"step": "sigmoid"}], 2),
    ([ONE, {"step": "complement"}], 2),
    ([ONE, {"step": "line", "knots": [0.0], "values": [1.0], "extend": False}], 1),
    ([ONE, {"step": "line", "knots": [0.0, 1.0], "values": [1.0, 2.0], "extend": True}], 1),
    ([ONE, {"step": "step-function", "edges": [], "values": [1.0]}], 1),
    ([ONE, {"step": "spline", "knots": [0.0, 1.0], "values": [1.0] * 2, "curvature": [0.0] * 2, "extend": True}], 1),
    ([{"step": "kernel", "landmarks": [[0.0] * 6] * 5, "spread": 1e-100, "weight": 0.0, "bandwidth": 1e-100}], 5),
    ([{"step": "levels", "intercept": [[1.0] * 2], "slope": [[1.0] * 2]}], 2),
    ([TWO, {"step": "levels", "intercept": [[1.0]] * 3, "slope": [[1.0]] * 3}], 1),
    ([TWO, {"step": "one-vs-rest", "parts": [[], []]}], 2),
    ([TWO, {"step": "one-vs-one", "parts": [[]]}], 2),
    ([{"step": "one-vs-one", "parts": [[]] * 3}], 3),
    ([{"step": "keep-top", "parts": [[]]}], 3),
    ([{"step": "delta-ends", "parts": [[], []], "distance": 0.0}], 6),
    ([trees(subtracted=2)], 1),
]


@pytest.mark.parametrize(("steps", "width"), RIGHT, ids=range(len(RIGHT)))
def test_steps_at_the_ends_of_what_is_allowed(steps, width):
    decoded = decode(steps)
    assert check_steps(decoded, 3) == width
    assert encode(decode(encode(decoded))) == encode(decoded)


def test_trees_may_have_sixteen_levels():
    asked = np.zeros((1, 16), dtype=int)
    assert Trees(asked, asked, np.zeros((1, 16)), np.zeros((1, 2**16, 1))).check(1) == 1


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
    ([{"step": "columns", "index": []}], "numbers below 3"),
    ([{"step": "columns", "index": [-1]}], "numbers in"),
    ([{"step": "columns", "index": 1}], "expected 1 dimensions, found 0"),
    ([{"step": "polynomial", "coefficients": []}], "one to ten numbers"),
    ([{"step": "polynomial", "coefficients": [1.0] * 11}], "one to ten numbers"),
    ([{"step": "scale", "factor": 1.0, "shift": [1.0, 2.0]}], "shift should hold 3 numbers"),
    ([{"step": "linear", "matrix": [[], [], []], "shift": 0.0}], "matrix should have 3 rows"),
    ([{"step": "linear", "matrix": [[1.0]] * 3, "shift": [0.0, 1.0]}], "shift should hold 1 numbers"),
    ([{"step": "curves", "coefficients": [[1.0] * 3] * 2}], r"shape \(3, 3\)"),
    ([{"step": "kernel", "landmarks": [[0.0] * 5], "spread": 1.0, "weight": 1.0, "bandwidth": 1.0}], "6 columns"),
    ([{"step": "kernel", "landmarks": [], "spread": 1.0, "weight": 1.0, "bandwidth": 1.0}], "dimensions"),
    (
        [{"step": "kernel", "landmarks": [[0.0] * 6], "spread": 0.0, "weight": 1.0, "bandwidth": 1.0}],
        "expected a number",
    ),
    (
        [{"step": "kernel", "landmarks": [[0.0] * 6], "spread": 1.0, "weight": 1.0, "bandwidth": 0.0}],
        "expected a number",
    ),
    ([ONE, {"step": "line", "knots": [0.0], "values": [1.0], "extend": True}], "too few knots"),
    ([ONE, {"step": "line", "knots": [], "values": [], "extend": False}], "too few knots"),
    ([ONE, {"step": "line", "knots": [0.0, 1.0], "values": [1.0], "extend": False}], "as many as knots"),
    ([ONE, {"step": "line", "knots": [0.0, 1.0], "values": [1.0, 2.0], "extend": 1}], "true or false"),
    ([ONE, {"step": "line", "knots": [0.0, 1e-101], "values": [1.0, 2.0], "extend": True}], "does not increase"),
    ([ONE, {"step": "spline", "knots": [0.0], "values": [1.0], "curvature": [0.0], "extend": True}], "too few knots"),
    (
        [ONE, {"step": "spline", "knots": [0.0, 1.0], "values": [1.0] * 2, "curvature": [0.0], "extend": True}],
        "as many",
    ),
    (
        [ONE, {"step": "spline", "knots": [0.0, 1.0], "values": [1.0], "curvature": [0.0] * 2, "extend": True}],
        "as many",
    ),
    ([{"step": "step-function", "edges": [1.0], "values": [0.0, 1.0]}], "one column is expected, there are 3"),
    ([{"step": "sigmoid"}], "one column is expected, there are 3"),
    ([{"step": "keep-top", "parts": [[], []]}], "one part of equal width"),
    ([{"step": "keep-top", "parts": [[ONE]]}], "one part of equal width"),
    ([{"step": "one-vs-rest", "parts": [[ONE]] * 3}], "a part should return two columns"),
    ([ONE, {"step": "one-vs-rest", "parts": [[]]}], "1 parts are expected"),
    ([{"step": "one-vs-one", "parts": [[]] * 2}], "a part for each pair of 3"),
    ([ONE, {"step": "one-vs-one", "parts": [[]]}], "a part for each pair of 1"),
    ([{"step": "delta-ends", "parts": [[]], "distance": 1.0}], "two parts are expected"),
    ([{"step": "delta-ends", "parts": [[TWO], []], "distance": 1.0}], "a multiple of 3 columns"),
    ([{"step": "delta-ends", "parts": [[], []], "distance": -1.0}], "expected a number"),
    ([{"step": "levels", "intercept": [], "slope": []}], "dimensions"),
    ([ONE, {"step": "levels", "intercept": [[1.0]], "slope": [[1.0]]}], "two columns are expected"),
    ([trees(depth=17)], "trees of depth 17"),
    ([trees(subtracted=3)], "there are 3 columns"),
    ([trees(subtracted=-2)], "numbers in"),
    ([trees(thresholds=2)], "questions differ in number"),
    ([trees(leaves=3)], r"values should have shape \(1, 2, columns\)"),
    ("softmax", "a list of steps"),
    (["softmax"], "step 0 is not an object"),
    ([{"step": ["softmax"]}], "does not know"),
    ([{"step": "softmax"}, {"step": "mix", "weight": True}], r"step 1 \(mix\), weight: expected a number"),
    ([{"step": "mix", "weight": -1e-9}], "expected a number in"),
]


@pytest.mark.parametrize(("steps", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_steps_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        check_steps(decode(steps), 3)


def test_lists_cannot_nest_without_end():
    steps: list = [{"step": "softmax"}]
    for _ in range(6):
        steps = [{"step": "sum", "parts": [steps]}]
    assert encode(decode(steps)) == steps
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
