"""What calibrated predictions cost in production: one row, a batch, loading a file, torch and the command line.

    CALIBRANT_PREDICTIONS=folder python benchmarks/serving.py [row | batch | torch | cli | postgres ...]

Calibrators are fitted to 5000 rows of penbased by logistic regression and by LightGBM (10 classes), for which `auto`
grows trees. Times are CPU time of one thread, the programs in turn:

- ``row``: µs of one row in `calibrant.runtime` and in the package, beside scikit-learn's `CalibratedClassifierCV` of a
  classifier that returns its input, and beside temperature scaling written by hand without any check.
- ``batch``: loading a stored map, and 100,000 rows, in `calibrant.runtime` as multiples of the package.
- ``torch``: the exported module on 100,000 rows, as a multiple of `predict_proba`.
- ``cli``: `calibrant apply` on 2,000,000 rows of CSV and of Parquet, as a multiple of a process in which polars reads
  and writes the same file.
- ``postgres``: the exported query on 100,000 rows in a private PostgreSQL server, as a multiple of `predict_proba`.

Without names all of them run; what is not installed is left out and named.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timing  # first: it limits the threads

# isort: split
import h5py
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

import calibrant
from calibrant import runtime

METHODS = ("ts", "sms", "isotonic", "auto")
#: What one row may take in `calibrant.runtime`, in microseconds.
WANTED = {"ts": 20, "sms": 30, "auto": 80}
#: scikit-learn's counterpart of a method.
PEERS = {"ts": "temperature", "isotonic": "isotonic"}
FIT_ROWS, BATCH_ROWS, FILE_ROWS = 5000, 100_000, 2_000_000


def rows_of(model: str) -> tuple[Any, Any, Any]:
    """Calibration predictions and labels, and rows to predict."""
    with h5py.File(Path(os.environ["CALIBRANT_PREDICTIONS"]) / "tabular-multiclass.h5") as file:
        found = file[f"penbased/{model}/0"]
        p, y, test = (np.array(found[name]) for name in ("probas_cal", "labels_cal", "probas_test"))
    p, test = p.astype(np.float64), test.astype(np.float64)
    return p[:FIT_ROWS], y[:FIT_ROWS], test / test.sum(axis=1, keepdims=True)


def fitted(method: str, model: str = "LGBM") -> tuple[Any, runtime.Map, Any, str]:
    """The calibrator, its stored map, rows to predict, and what the map is."""
    p, y, test = rows_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = calibrant.get_calibrator(method, renormalize=True).fit(p, y)
        calibrator.renormalize = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.json"
        calibrant.save(calibrator, path)
        trees = f", {len(calibrator.tree_features_)} trees" if method == "auto" else ""
        return calibrator, runtime.load(path), test, f"{method} of {model}{trees}, {path.stat().st_size / 1000:.0f} kB"


class AsGiven(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities."""

    def fit(self, X: Any, y: Any) -> AsGiven:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return self.classes_[X.argmax(axis=1)]


def by_hand(inverse_temperature: float) -> Callable[[Any], Any]:
    def temperature(p: Any) -> Any:
        z = inverse_temperature * np.log(p)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return temperature


def one_row() -> None:
    from latency import microseconds

    p, y, test = rows_of("LGBM")
    row = test[:1]
    calls: dict[str, Callable[[], Any]] = {"temperature by hand, no checks": partial(by_hand(0.8), row)}
    for peer in PEERS.values():
        known = CalibratedClassifierCV(FrozenEstimator(AsGiven().fit(p, y)), method=peer).fit(p, y)
        calls[f"scikit-learn, {peer}"] = partial(known.predict_proba, row)
    wanted = {}
    for method, model in [*((method, "LGBM") for method in METHODS), ("auto", "LR")]:
        calibrator, stored, _, what = fitted(method, model)
        calls[f"runtime, {what}"] = partial(stored.predict_proba, row)
        calls[f"package, {what}"] = partial(calibrator.predict_proba, row)
        wanted[f"runtime, {what}"] = WANTED.get(method)
    print("| one row, 10 classes | CPU µs | wanted |\n|---|---|---|")
    for name, found in microseconds(calls, batches=25, size=100).items():
        print(f"| {name} | {found:.1f} | {wanted.get(name) or ''} |")


def batch() -> None:
    print("\n| map | loading, times the package | 100,000 rows, times the package | seconds |\n|---|---|---|---|")
    for method, model in [*((method, "LGBM") for method in METHODS), ("auto", "LR")]:
        calibrator, stored, test, what = fitted(method, model)
        rows = np.resize(test, (BATCH_ROWS, 10))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "map.json")
            calibrant.save(calibrator, path)
            load = timing.in_turn(partial(runtime.load, path), partial(calibrant.load, path), repeat=15)
        many = timing.in_turn(partial(stored.predict_proba, rows), partial(calibrator.predict_proba, rows), repeat=5)
        print(f"| {what} | {load[0] / load[1]:.2f} | {many[0] / many[1]:.2f} | {many[0]:.2f} |", flush=True)


def torch_modules() -> None:
    import torch

    torch.set_num_threads(1)
    print("\n| map | torch, 100,000 rows, times predict_proba |\n|---|---|")
    for method, model in (("ts", "LGBM"), ("sms", "LGBM"), ("auto", "LGBM"), ("auto", "LR")):
        calibrator, _, test, what = fitted(method, model)
        module = calibrant.export(calibrator, to="torch")
        rows = np.resize(test, (BATCH_ROWS, 10))
        tensor = torch.as_tensor(rows)
        with torch.no_grad():
            ours, theirs = timing.in_turn(partial(calibrator.predict_proba, rows), partial(module, tensor), repeat=5)
        print(f"| {what} | {theirs / ours:.2f} |", flush=True)


def _cpu_of(command: list[str]) -> float:
    """CPU seconds of a process, all its threads counted."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command_line() -> None:
    import polars as pl

    print(f"\n| calibrant apply, {FILE_ROWS:,} rows | CPU s | times polars |\n|---|---|---|")
    rows = np.random.default_rng(0).dirichlet(np.ones(10), FILE_ROWS)
    frame = pl.DataFrame({"id": np.arange(FILE_ROWS)} | {f"p{j}": rows[:, j] for j in range(10)})
    with tempfile.TemporaryDirectory() as folder:
        for method in ("ts", "sms"):
            calibrator, _, _, what = fitted(method)
            stored = os.path.join(folder, "map.json")
            calibrant.save(calibrator, stored)
            for suffix in ("parquet", "csv"):
                given, made = os.path.join(folder, f"in.{suffix}"), os.path.join(folder, f"out.{suffix}")
                getattr(frame, f"write_{suffix}")(given)
                apply = [sys.executable, "-m", "calibrant", "apply", stored, given, "-o", made, "--force"]
                copy = f"import polars as pl; pl.read_{suffix}({given!r}).write_{suffix}({made!r})"
                ours, theirs = np.min(
                    [[_cpu_of(apply), _cpu_of([sys.executable, "-c", copy])] for _ in range(3)], axis=0
                )
                print(f"| {what}, {suffix} | {ours:.2f} | {ours / theirs:.2f} |", flush=True)


def postgres() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    from databases import MissingServerError
    from databases import postgres as server

    spent = "SELECT split_part(pg_read_file('/proc/self/schedstat', 0, 100), ' ', 1);\n"
    rows = np.random.default_rng(0).dirichlet(np.ones(10), BATCH_ROWS)
    names = [f"p{j}" for j in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        np.savetxt(os.path.join(folder, "rows.tsv"), rows, fmt="%.17g", delimiter="\t")
        try:
            with server() as run:
                run(f"CREATE TABLE predictions ({', '.join(f'{name} float8' for name in names)});")
                run(f"COPY predictions FROM '{folder}/rows.tsv'; VACUUM ANALYZE predictions;")
                print(f"\n| PostgreSQL, {BATCH_ROWS:,} rows | CPU s | times predict_proba |\n|---|---|---|")
                for method in ("ts", "sms"):
                    calibrator, _, _, what = fitted(method)
                    query = calibrant.export(calibrator, to="sql", dialect="postgres", columns=names)
                    asked = f"{spent}EXPLAIN (ANALYZE, TIMING OFF) {query};\n{spent}"
                    asked = f"SET max_parallel_workers_per_gather = 0;\n{asked}"
                    found = [run(asked) for _ in range(5)]
                    theirs = min(int(cells[-1][0]) - int(cells[0][0]) for cells in found) / 1e9
                    (ours,) = timing.in_turn(partial(calibrator.predict_proba, rows))
                    print(f"| {what} | {theirs:.2f} | {theirs / ours:.1f} |")
        except MissingServerError as error:
            raise ImportError(str(error)) from None


PARTS = {"row": one_row, "batch": batch, "torch": torch_modules, "cli": command_line, "postgres": postgres}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        try:
            PARTS[name]()
        except ImportError as error:
            print(f"\n{name}: left out, {error}")


if __name__ == "__main__":
    main()
