"""The command line's own cost: help beside importing its library, `apply` beside the same in memory, `report`.

Each figure is a ratio of times taken in turn in one run, best of several; CPU seconds stand beside elapsed ones.
Prints a table and writes `benchmarks/out/cli.json`. Usage: python benchmarks/cli.py [rows of apply] [rows of report]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import calibrant
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table_rows import RowReader
from calibrant.workflows.applying import apply

CLASSES = 10


def best(function: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Least elapsed and least CPU seconds, child processes included."""
    elapsed, cpu = [], []
    for _ in range(repeats):
        start, before = time.perf_counter(), os.times()
        function()
        after = os.times()
        elapsed.append(time.perf_counter() - start)
        cpu.append(sum(after[:4]) - sum(before[:4]))
    return min(elapsed), min(cpu)


def predictions(n_rows: int) -> pa.Table:
    """Over-confident predictions of ten classes, with an identifier and labels."""
    rng = np.random.default_rng(0)
    z = 1.5 * rng.standard_normal((n_rows, CLASSES))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    q = np.exp(1.6 * z) / np.exp(1.6 * z).sum(axis=1, keepdims=True)
    return pa.table({"id": np.arange(n_rows), **{f"p_{j}": q[:, j] for j in range(CLASSES)}, "y": y})


def python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def measure_help() -> dict[str, tuple[float, float]]:
    code = "import sys; sys.argv = ['calibrant', '--help']; from calibrant.cli import main; main()"
    return {"calibrant --help": best(python(code), 9), "import typer": best(python("import typer"), 9)}


def measure_apply(folder: Path, n_rows: int) -> dict[str, tuple[float, float]]:
    source, target = folder / "new.parquet", folder / "out.parquet"
    table = predictions(n_rows)
    pyarrow.parquet.write_table(table, source)
    names = [f"p_{j}" for j in range(CLASSES)]
    few = np.column_stack([table[name].to_numpy()[:5000] for name in names])
    fitted = calibrant.get_calibrator("sms").fit(few, table["y"].to_numpy()[:5000])

    def in_memory() -> None:
        read = pyarrow.parquet.read_table(source)
        calibrated = fitted.predict_proba(np.column_stack([read[name].to_numpy() for name in names]))
        for j, name in enumerate(names):
            read = read.set_column(read.column_names.index(name), name, pa.array(calibrated[:, j]))
        pyarrow.parquet.write_table(read, folder / "memory.parquet")

    def in_chunks() -> None:
        apply(fitted, RowReader(open_table(source), Layout()), target, force=True)

    in_memory()
    return {"calibrant apply": best(in_chunks, 3), "read, predict, write in memory": best(in_memory, 3)}


def measure_report(folder: Path, n_rows: int) -> dict[str, tuple[float, float]]:
    source = folder / "labelled.parquet"
    pyarrow.parquet.write_table(predictions(n_rows), source)
    arguments = ["calibrant", "report", str(source), "--label", "y", "-o", str(folder / "r.html"), "--force"]
    return {
        f"calibrant report, {n_rows} × {CLASSES}": best(
            python(f"import sys; sys.argv = {arguments!r}; from calibrant.cli import main; main()"), 1
        )
    }


def main() -> None:
    apply_rows, report_rows = (int(text) for text in (sys.argv[1:] + ["1000000", "100000"][len(sys.argv) - 1 :])[:2])
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measures = (
            measure_help,
            lambda: measure_apply(folder, apply_rows),
            lambda: measure_report(folder, report_rows),
        )
        for measure in measures:
            times = measure()
            for what, (elapsed, cpu) in times.items():
                print(f"{what:34s} {elapsed:8.3f} s elapsed {cpu:8.3f} s CPU", flush=True)
                figures[what] = {"elapsed": elapsed, "cpu": cpu}
            if len(times) == 2:
                ours, theirs = times.values()
                print(f"{'ratio':34s} {ours[0] / theirs[0]:8.2f} {ours[1] / theirs[1]:18.2f}", flush=True)
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "cli.json").write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
