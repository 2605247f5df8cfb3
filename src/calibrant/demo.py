"""`python -m calibrant.demo`: all methods of this package on the predictions that come with it.

Real predictions of four models on sixteen real datasets, no network. Calibration rows are drawn from thousands, methods
are tested on the others, and a table for two classes and one for more show what each gains with so many rows.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path
from textwrap import fill
from typing import TextIO

SIZES = (100, 300, 1000)
"""Numbers of calibration rows that are drawn from every experiment."""


def main(out: Path | None = None, jobs: int | None = None, stream: TextIO = sys.stdout) -> Path:
    """Run the demonstration and write its tables to `stream`; returns the result folder."""
    from calibrant.bench.building.embedded import embedded_predictions
    from calibrant.bench.runs.drawn_rows import Draw
    from calibrant.bench.runs.method_spec import native_methods
    from calibrant.bench.runs.run_plan import Options
    from calibrant.bench.runs.runner import run_benchmark
    from calibrant.bench.runs.store import ResultFolder
    from calibrant.bench.study.run_summary import WIDTH, describe, findings

    source, methods = embedded_predictions(), native_methods()
    experiments = source.experiments()
    datasets, models = ({getattr(e, field) for e in experiments} for field in ("dataset", "model"))
    about = (
        f"{len(methods)} methods on the predictions of {len(models)} models ({', '.join(sorted(models))}) on "
        f"{len(datasets)} real datasets. From each of these {len(experiments)} experiments "
        f"{', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]} rows are drawn to calibrate, and the thousands of others "
        "test. This takes a few minutes."
    )
    stream.write(fill(about, WIDTH) + "\n")
    stream.flush()
    start = time.perf_counter()
    folder = out or Path("results", time.strftime("demo-%Y%m%d-%H%M%S"))
    run_benchmark(source, methods, folder, options=Options(draw=Draw(SIZES, repeats=1)), n_jobs=jobs)
    seconds = time.perf_counter() - start
    rows = list(ResultFolder(folder).rows().values())
    command = [_from_here(sys.executable), "-m", "calibrant", "bench", "report", str(folder)]
    stream.write(
        f"{describe(rows)}\n{len(rows)} fits in {seconds:.0f} s. Results: {folder / 'results.parquet'}\n\n"
        f"{findings(rows)}\nFor tables, figures and a leaderboard page, run:\n"
        f"{shlex.join(command)} \\\n  --out {shlex.quote(str(folder / 'report'))}\n"
    )
    return folder


def _from_here(path: str) -> str:
    """A path as seen from the working folder if it lies inside, so that commands stay short; links are kept."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m calibrant.demo", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="result folder; by default a new one in ./results")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each core")
    arguments = parser.parse_args()
    main(arguments.out, arguments.jobs)
