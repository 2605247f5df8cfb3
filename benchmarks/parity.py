"""How far every export is from its calibrator, on real predictions: all storable methods × all targets.

    CALIBRANT_PREDICTIONS=folder python benchmarks/parity.py run [methods ...]
    python benchmarks/parity.py show

`run` fits each method to predictions of 2, 3, 10 and 100 classes, writes it for every target, predicts other rows with
what was written (corner cases included, by the proof of each export) and appends the largest difference of a
probability from the NumPy definition to ``benchmarks/out/parity.csv``; a second call goes on where the first stopped.
A target whose program or package is not installed is left out and named at the end.
`show` prints a Markdown table with the largest of all numbers of classes, and puts it into docs/export-exact.md.
"""

from __future__ import annotations

import csv
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import h5py
import numpy as np

from calibrant import get_calibrator, list_calibrators
from calibrant.runtime import Map
from calibrant.writers.exporting import export_with_proof
from timing import OUT

#: A set of each number of classes.
SETS = {
    2: ("tabular-binary", "spambase/RF/0"),
    3: ("tabular-multiclass", "gss_happy/RF/0"),
    10: ("vision-text", "cifar10/resnet56/0"),
    100: ("vision-text", "cifar100/wrn16-4_netcal/0"),
}
#: Every target, with its precisions.
COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "Python": ("python", {}),
    "JavaScript": ("js", {}),
    "C": ("c", {}),
    "SQL (DuckDB)": ("sql", {"dialect": "duckdb"}),
    "SQL (SQLite)": ("sql", {"dialect": "sqlite"}),
    "ONNX": ("onnx", {}),
    "torch": ("torch", {}),
    "ONNX, float32": ("onnx", {"dtype": "float32"}),
    "torch, float32": ("torch", {"dtype": "float32"}),
}
FIELDS = ["method", "k", "target", "difference"]
CALIBRATION_ROWS = 2000
#: Rows to predict, beside those of the proof: fewer of many classes, which slow targets take long for.
TEST_ROWS = {2: 500, 3: 500, 10: 500, 100: 100}
FILE = OUT / "parity.csv"
DOCS = Path(__file__).parents[1] / "docs" / "export-exact.md"
START, END = "<!-- parity: benchmarks/parity.py -->\n", "<!-- end of parity -->\n"


def load(k: int) -> tuple[Any, Any, Any]:
    """Calibration predictions and labels, and rows to predict."""
    suite, group = SETS[k]
    with h5py.File(Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{suite}.h5") as file:
        found = file[group]
        p, y, test = (np.array(found[name]) for name in ("probas_cal", "labels_cal", "probas_test"))
    return p[:CALIBRATION_ROWS].astype(np.float64), y[:CALIBRATION_ROWS], test[: TEST_ROWS[k]].astype(np.float64)


def difference(fitted: Map, column: str, rows: Any) -> float:
    """The largest difference of a probability, on `rows` and on those of the proof."""
    to, options = COLUMNS[column]
    done = export_with_proof(fitted, to=to, rows=rows, **options)
    if done.difference is None:
        raise ImportError(done.missing)
    return done.difference


def run(methods: list[str]) -> None:
    OUT.mkdir(exist_ok=True)
    done = {(row["method"], row["k"], row["target"]) for row in read()}
    missing: dict[str, str] = {}
    for k in SETS:
        p, y, rows = load(k)
        for info in list_calibrators():
            left = [column for column in COLUMNS if (info.name, str(k), column) not in done]
            if not info.exports or not info.supports(k) or not left or (methods and info.name not in methods):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = get_calibrator(info.name).fit(p, y).to_map()
            for column in left:
                if column in missing:
                    continue
                try:
                    value = difference(fitted, column, rows)
                except ImportError as error:
                    missing[column] = str(error)
                    continue
                with FILE.open("a", newline="") as file:
                    csv.writer(file).writerow([info.name, k, column, repr(value)])
                print(f"{info.name}, {k} classes, {column}: {value:.1e}", flush=True)
    for column, reason in missing.items():
        print(f"left out: {column}, {reason}")


def read() -> list[dict[str, str]]:
    if not FILE.exists():
        return []
    with FILE.open(newline="") as file:
        return list(csv.DictReader(file, FIELDS))


def table() -> str:
    """The largest difference of each method and target."""
    cells_of: dict[tuple[str, int], dict[str, float]] = {}
    for row in read():
        cells_of.setdefault((row["method"], int(row["k"])), {})[row["target"]] = float(row["difference"])
    worst: dict[tuple[str, str], float] = {}
    classes: dict[str, set[int]] = {}
    for (method, k), cells in cells_of.items():
        classes.setdefault(method, set()).add(k)
        for column, value in cells.items():
            worst[method, column] = max(worst.get((method, column), 0.0), value)
    lines = [f"| method | classes | {' | '.join(COLUMNS)} |", "|---|---|" + "---|" * len(COLUMNS)]
    for info in list_calibrators():
        if info.name in classes:
            found = [worst.get((info.name, column)) for column in COLUMNS]
            numbers = ["–" if value is None else f"{value:.0e}" for value in found]
            sizes = ", ".join(map(str, sorted(classes[info.name])))
            lines.append(f"| `{info.name}` | {sizes} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def show() -> None:
    text = table()
    print(text)
    page = DOCS.read_text(encoding="utf-8")
    before, after = page[: page.index(START) + len(START)], page[page.index(END) :]
    DOCS.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    else:
        show()
