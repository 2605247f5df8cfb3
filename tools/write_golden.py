"""Write the stored calibrators of this version to tests/files/golden, beside what they predict.

Every later version must load these files and predict the same (tests/files/test_golden.py). Run it before a release
and after adding a method; files that are there stay as they are.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant.deployment import ChainedCalibrator, adapt

GOLDEN = Path(__file__).parents[1] / "tests" / "files" / "golden"
#: Rows to fit to, as some methods store each of them, and trees to keep.
ROWS, TREES = 80, 4
CLASSES = (2, 3, 11)


def sample(n: int, k: int) -> tuple[Any, Any, dict[str, list[Any]]]:
    """Predictions that are too extreme, above all in the north and for the old, with labels and segments."""
    rng = np.random.default_rng(k)
    z = rng.normal(size=(n, k))
    frame = {"region": rng.choice(["north", "south", ""], n).tolist(), "age": rng.integers(18, 80, n).tolist()}
    north = np.array(frame["region"]) == "north"
    y = (z + np.outer(north, np.arange(k)) + rng.gumbel(size=(n, k))).argmax(axis=1)
    p = np.exp(np.where(np.array(frame["age"])[:, None] > 50, 2.5, 1.2) * z)
    return p / p.sum(axis=1, keepdims=True), y, frame


def rows(k: int) -> Any:
    """What is predicted: rows of any kind, exact zeros, equal numbers, numbers too small for a logarithm in single."""
    p = np.random.default_rng(100 + k).dirichlet(np.full(k, 0.7), 12)
    p[0], p[1], p[2] = np.eye(k)[0], np.full(k, 1.0 / k), np.eye(k)[-1]
    p[2, :2] = [1e-300, p[2, 1]] if k > 2 else [1e-300, 1.0]
    return p


def segments() -> dict[str, list[Any]]:
    """The segments of these rows: known, new and missing."""
    regions = ["north", "south", "", "west", None, "north"] * 2
    return {"region": regions, "age": [18, 30.5, None, 79, 200, 51, 50, 49.5, 18, 20, 64, 35]}


def with_few_trees(calibrator: Any) -> Any:
    """The same calibrator with its first trees only: a file of hundreds tests nothing more."""
    for name in ("tree_features_", "tree_subtracted_", "tree_thresholds_", "tree_values_"):
        setattr(calibrator, name, getattr(calibrator, name)[:TREES])
    return calibrator


def fitted() -> dict[str, Any]:
    """Every method that can be stored, and what else a file may hold, by the name of its file."""
    get, segmented, found = calibrant.get_calibrator, calibrant.SegmentedCalibrator, {}
    for k in (2, 3):
        p, y, _ = sample(ROWS, k)
        for info in calibrant.list_calibrators():
            if info.stores and info.supports(k):
                found[f"{info.name}-{k}"] = info.make().fit(p, y)
        found[f"sms-logits-{k}"] = get("sms", input="logits").fit(np.log(p), y)
        found[f"monotone-{k}"] = get("auto", monotone=True).fit(*sample(400, k)[:2])
    p, y, _ = sample(ROWS, 3)
    labels = np.array(["owl", "cat", "ant"])
    found["columns-3"] = get("svs", classes=labels, renormalize=True).fit(p, labels[y])
    found["ovo-isotonic-3"] = get("isotonic", multiclass="ovo").fit(p, y)
    found["landmarks-3"] = get("sqs", n_landmarks=5).fit(p, y)
    found["chained-3"] = ChainedCalibrator(get("isotonic"), get("ts")).fit(p, y)
    found["adapted-3"] = adapt(found["columns-3"], prior={"owl": 0.2, "cat": 0.5, "ant": 0.3})
    found["adapted-bbse-3"] = adapt(found["ts-3"], unlabelled=p[:60], labelled=(p, y), method="bbse")
    truth = (np.random.default_rng(0).random(p.shape) < p).astype(int)
    found["multilabel-3"] = calibrant.MultilabelCalibrator(["owl", "cat", "ant"]).fit(p, truth)
    X, target = make_classification(120, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    found["classifier-3"] = calibrant.CalibratedClassifier(LogisticRegression(), "ts", cv=2).fit(X, target)
    found["trees-3"] = with_few_trees(get("auto").fit(*sample(1500, 3)[:2]))
    for k in CLASSES:
        p, y, frame = sample(1000, k)
        found[f"segmented-{k}"] = with_few_trees(segmented(get("ts")).fit(p, y, segments=frame))
        if k < CLASSES[-1]:
            found[f"crossed-{k}"] = segmented(get("ts"), crossed=True, trees=False).fit(p, y, segments=frame)
    found["adapted-segmented-2"] = adapt(found["segmented-2"], prior=[0.7, 0.3])
    return found


def main() -> None:
    """Fit, store, and write down what is predicted."""
    folder = GOLDEN / re.sub(r"\.dev\d+", "", calibrant.__version__)
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrators = fitted()
    listed = folder / "expected.json"
    expected: dict[str, Any] = json.loads(listed.read_text())["expected"] if listed.exists() else {}
    for name, calibrator in calibrators.items():
        if f"{name}.json" in expected:
            continue
        calibrant.save(calibrator, folder / f"{name}.json")
        one = calibrator.calibrators_[0] if name.startswith("classifier") else calibrator
        k, logits = len(one.classes_), one.input == "logits"
        X = np.log(np.maximum(rows(k), 1e-12)) if logits else rows(k)
        beside = {"segments": segments()} if getattr(one, "segment_columns_", None) else {}
        proba = one.predict_proba(X, **beside).tolist()
        expected[f"{name}.json"] = {"k": k, "logits": logits, "segmented": bool(beside), "proba": proba}
    record = {"rows": {k: rows(k).tolist() for k in CLASSES}, "segments": segments(), "expected": expected}
    listed.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
