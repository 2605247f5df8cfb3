"""Segmented calibrators with every kind of correction, rows for them, and what they should predict."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
from scipy.special import log_softmax

from calibrant import SegmentedCalibrator, get_calibrator
from calibrant.simplex import log_probabilities
from tests.writers.test_source import HOSTILE

#: Levels of the first column: hostile texts, numbers, Booleans and a missing value.
REGIONS = [*HOSTILE, "', 'x') --", "5", "True", "__proto__", None]

#: Classes, and options of the calibrator.
CASES: list[tuple[int, dict[str, Any]]] = [
    (2, {}),
    (3, {"crossed": True}),
    (3, {"crossed": True, "trees": False}),
    (12, {}),
    (2, {"trees": False, "input": "logits"}),
]


def rows(n: int, k: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Predictions and their segments: many levels, few, numbers with holes."""
    rng = np.random.default_rng(seed)
    frame = {
        "region": rng.choice(np.array(REGIONS, dtype=object), n),
        "phone's": rng.random(n) < 0.5,
        "tier": rng.choice(["a", "b", "c"], n),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 80, n)),
    }
    return rng.dirichlet(np.ones(k), size=n), frame


@functools.cache
def segmented(case: int) -> SegmentedCalibrator:
    """A fitted calibrator whose trees are drawn, so that there are some, with questions about everything."""
    k, options = CASES[case]
    p, frame = rows(300, k, case)
    rng = np.random.default_rng(case)
    y = (p.cumsum(axis=1)[:, :-1] < rng.random((300, 1))).sum(axis=1)
    x = np.log(p) if options.get("input") == "logits" else p
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = SegmentedCalibrator(get_calibrator("ts"), strength=1.0, **options).fit(x, y, segments=frame)
    if calibrator.trees:
        asked = questions(np.log(p), frame, calibrator)
        features = rng.integers(0, asked.shape[1], (12, 3))
        calibrator.tree_features_, calibrator.tree_subtracted_ = features, np.full((12, 3), -1)
        calibrator.tree_thresholds_ = asked[rng.integers(0, 300, (12, 3)), features]
        calibrator.tree_thresholds_[0, 0] = np.inf  # a question that nobody answers by yes
        calibrator.tree_values_ = rng.normal(size=(12, 8, k))
    return calibrator


def questions(z: Any, frame: dict[str, Any], calibrator: SegmentedCalibrator) -> Any:
    """What trees ask about, written down once more."""
    k = z.shape[1]
    second, largest = np.sort(z, axis=1)[:, -2:].T
    found = [z[:, 1] - z[:, 0]] if k == 2 else list(z.T) if k <= 10 else [largest, largest - second]
    for name, levels in calibrator.segment_columns_.items():
        if name == "age":
            found.append(np.nan_to_num(np.clip(frame[name].astype(float), -1e99, 1e99), nan=-1e100))
            continue
        codes = np.array([place_of(value, levels) for value in frame[name].tolist()])
        if 2 < len(levels) <= 12:
            found += [1.0 * (codes == level) for level in range(len(levels))]
        else:
            found.append(codes)
    return np.column_stack(found).astype(float)


def place_of(value: Any, levels: Any) -> int:
    """The place of a text among levels."""
    text = "" if value is None else str(value)
    return levels.tolist().index(text) if text in levels.tolist() else -1


def expected(calibrator: SegmentedCalibrator, p: Any, frame: dict[str, Any]) -> Any:
    """Predictions, row by row, from the definition of the correction in the documentation."""
    q = calibrator.calibrator_.predict_proba(p)
    z = log_probabilities(q)
    asked = questions(z, frame, calibrator)
    out = []
    for i, row in enumerate(z):
        logits, start, cell, known = row.copy(), 0, [], True
        for name, levels in calibrator.segment_columns_.items():
            if name == "age":
                age, size = frame[name][i], len(levels) + 2
                code = size - 1 if np.isnan(age) else sum(age >= edge for edge in levels)
            else:
                code, size = place_of(frame[name][i], levels), len(levels)
            if code >= 0:
                logits += calibrator.intercept_[start + code] + calibrator.slope_[start + code] * row
            known &= code >= 0
            cell.append(code)
            start += size
        if cell in calibrator.cells_.tolist():
            place = start + calibrator.cells_.tolist().index(cell)
            logits += calibrator.intercept_[place] + calibrator.slope_[place] * row
        if known:
            for features, thresholds, values in zip(
                calibrator.tree_features_, calibrator.tree_thresholds_, calibrator.tree_values_
            ):
                logits += values[((asked[i, features] > thresholds) << np.arange(len(features))).sum()]
        out.append(np.exp(log_softmax(logits)))
    return np.array(out)
