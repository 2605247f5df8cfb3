"""Small files of real predictions in the layout of the large ones, from what ships with the packages.

Where `CALIBRANT_PREDICTIONS` names no folder, tests marked `predictions` read these: embedded predictions of two and
of more classes, a forest on handwritten digits with exact zeros, and a thousand columns of which most never occur.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from calibrant.bench import load_embedded
from tests.needs import needs

ROWS = 300
EMBEDDED = {
    "tabular-binary": [("spam7", "LR"), ("arrests", "LR")],
    "tabular-multiclass": [("diamonds", "LR"), ("gss_occupation", "LR")],
}


def write_stand_in(folder: Path) -> Path:
    """Write the files with their indices into a folder, and return it."""
    for name, chosen in EMBEDDED.items():
        found = {}
        for dataset, model in chosen:
            data = load_embedded(dataset, model)
            # One column, as binary files of others have it.
            cut = (lambda p: p[:ROWS, 1]) if name.endswith("binary") else (lambda p: p[:ROWS])
            parts = cut(data.probas_cal), data.labels_cal[:ROWS], cut(data.probas_test), data.labels_test[:ROWS]
            found[dataset, model] = (*parts, data.probas_cal.shape[1])
        _write(folder / f"{name}.h5", found)
    X, y = load_digits(return_X_y=True)
    p = RandomForestClassifier(20, random_state=0).fit(X[:500], y[:500]).predict_proba(X[500:])
    many = np.full((len(p), 1000), 1e-6)
    many[:, ::100] += p
    halves = slice(None, 600), slice(600, None)
    forest = [part for rows in halves for part in (p[rows], y[500:][rows])]
    wide = [
        part for rows in halves for part in (many[rows] / many[rows].sum(axis=1, keepdims=True), 100 * y[500:][rows])
    ]
    _write(folder / "vision-text.h5", {("digits", "RF"): (*forest, 10), ("digits_of_1000", "RF"): (*wide, 1000)})
    return folder


def _write(path: Path, found: dict[tuple[str, str], tuple]) -> None:
    names = ("probas_cal", "labels_cal", "probas_test", "labels_test")
    with (
        needs("h5py").File(path, "w") as target,
        path.with_name(f"{path.stem}-experiments.csv").open("w", newline="") as index,
    ):
        rows = csv.writer(index)
        rows.writerow(["dataset", "model", "fold", "cal_size", "test_size", "n_classes"])
        for (dataset, model), (*parts, k) in found.items():
            for name, part in zip(names, parts):
                kind = np.float32 if name.startswith("probas") else np.int16
                target[f"{dataset}/{model}/0/{name}"] = part.astype(kind)
            rows.writerow([dataset, model, 0, len(parts[1]), len(parts[3]), k])
