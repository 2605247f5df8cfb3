"""Rows in batches against rows in memory: processor time per row, resident memory, growth with the number of rows.

Writes a synthetic parquet file in batches, deletes it in the end, and fits to it in fresh processes, so that memory is
that of one fit. Every ratio is of processor times measured in one run of this script.

    python benchmarks/scale.py                     # 2 million rows, ten classes, about 100 MB
    python benchmarks/scale.py --rows 20000000     # about 1 GB
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from calibrant.text_table import aligned

#: Rows of a batch of the file, and of the fit in memory that batches are compared with.
BATCH = 1 << 18
IN_MEMORY = 1_000_000
METHODS = ("ts", "sms")


def write(path: Path, n: int, k: int, seed: int = 0) -> None:
    """Over-confident float32 predictions that confuse classes, with labels, batch by batch."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    schema = pa.schema([*((f"p_{j}", pa.float32()) for j in range(k)), ("y", pa.int32())])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, n, BATCH):
            z = 1.5 * rng.standard_normal((min(BATCH, n - start), k), dtype=np.float32)
            y = (z + 0.2 * np.roll(z, 1, axis=1) + rng.gumbel(size=z.shape)).argmax(axis=1)
            p = np.exp(1.6 * z)
            p /= p.sum(axis=1, keepdims=True)
            writer.write_table(pa.table([*p.T, y.astype(np.int32)], schema=schema))


def peak_mib() -> float:
    """The largest resident memory of this process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def measure(kind: str, path: str, method: str, rows: int) -> dict[str, float]:
    """One fit in this process."""
    import pyarrow.parquet as parquet

    from calibrant import get_calibrator, open_batches

    names = [name for name in parquet.ParquetFile(path).schema_arrow.names if name != "y"]
    if kind == "memory":  # as many rows as a laptop would hold
        file = parquet.ParquetFile(path)
        batches = []
        for batch in file.iter_batches(batch_size=BATCH):
            batches.append(batch)
            if sum(part.num_rows for part in batches) >= rows:
                break
        p = np.concatenate([np.column_stack([b.column(name).to_numpy() for name in names]) for b in batches])[:rows]
        y = np.concatenate([b.column("y").to_numpy() for b in batches])[:rows]
        get_calibrator(method).fit(p[:5000], y[:5000])  # compiled, so that it does not count
        start = time.process_time()
        fitted = get_calibrator(method).fit(p, y)
        n, passes = len(y), 0
    else:
        warm = np.random.default_rng(0).dirichlet(np.ones(len(names)), size=2000)
        get_calibrator(method).fit_batches((warm, np.arange(2000) % len(names)), memory_mb=0.1)
        start = time.process_time()
        fitted = get_calibrator(method).fit_batches(open_batches(path, "y"))
        n, passes = fitted.batches_["rows"], fitted.batches_["passes"]
    seconds = time.process_time() - start
    gap = float(getattr(fitted, "duality_gap_", np.nan))
    return {"rows": n, "seconds": seconds, "passes": passes, "peak": peak_mib(), "gap": gap}


def in_process(*arguments: object) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def command_line(path: Path, method: str) -> tuple[float, float]:
    """Processor seconds and peak memory in MiB of `calibrant fit`."""
    code = (
        "import json, resource, sys; from calibrant.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "u = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([u.ru_utime + u.ru_stime, u.ru_maxrss / 1024]), file=sys.stderr)"
    )
    words = ["fit", str(path), "--label", "y", "--method", method, "-o", str(path.with_suffix(".json")), "--force"]
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stderr.splitlines()[-1])
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--folder", default=None, help="where the file is written; it is deleted in the end")
    parser.add_argument("--measure", nargs=4, metavar=("KIND", "FILE", "METHOD", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        kind, path, method, rows = given.measure
        print(json.dumps(measure(kind, path, method, int(rows))))
        return
    with tempfile.TemporaryDirectory(prefix="calibrant-scale-", dir=given.folder) as folder:
        whole, half = Path(folder) / "whole.parquet", Path(folder) / "half.parquet"
        write(whole, given.rows, given.classes)
        write(half, given.rows // 2, given.classes)
        size = whole.stat().st_size / 2**20
        print(f"{given.rows:,} rows, {given.classes} classes, {size:,.0f} MiB of parquet", flush=True)
        table = [["method", "in", "rows", "µs per row", "to memory", "passes", "peak MiB", "gap"]]
        for method in METHODS:
            base = in_process("memory", whole, method, min(IN_MEMORY, given.rows))
            unit = base["seconds"] / base["rows"]
            found = [("memory", base), ("batches, half", in_process("batches", half, method, 0))]
            found.append(("batches", in_process("batches", whole, method, 0)))
            for where, one in found:
                per_row = one["seconds"] / one["rows"]
                cells = [f"{one['rows']:,}", f"{1e6 * per_row:.2f}", f"{per_row / unit:.2f}", f"{one['passes']:g}"]
                table.append([method, where, *cells, f"{one['peak']:.0f}", f"{one['gap']:.1g}"])
                print(*table[-1], file=sys.stderr, flush=True)
            seconds, peak = command_line(whole, method)
            per_row = seconds / given.rows
            cells = [f"{given.rows:,}", f"{1e6 * per_row:.2f}", f"{per_row / unit:.2f}", "", f"{peak:.0f}", ""]
            table.append([method, "calibrant fit", *cells])
            print(*table[-1], file=sys.stderr, flush=True)
        print(aligned(table, left=2), flush=True)


if __name__ == "__main__":
    main()
