"""Timing for the benchmarks: CPU seconds of one thread, best of several runs, peers in the same process.

Import this module before NumPy: it limits the number of threads, for the peers' sake (calibrant limits its own; what a
user gets without any setting is measured by `defaults.py`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

OUT = Path(__file__).parent / "out"


def cpu_seconds(run: Callable[[], Any], *, repeat: int = 7, budget: float = 10.0) -> float:
    """Least CPU time of `run` over `repeat` runs (fewer once `budget` seconds are spent), after one warm-up."""
    run()
    best, spent = float("inf"), 0.0
    for _ in range(repeat):
        start = time.process_time()
        run()
        took = time.process_time() - start
        best, spent = min(best, took), spent + took
        if spent > budget:
            break
    return best


def write_json(name: str, results: Any) -> Path:
    """Write results to ``benchmarks/out/<name>.json``."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(results, indent=1))
    return path
