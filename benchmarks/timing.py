"""Timing for the benchmarks: CPU seconds of one thread, peers in the same process.

Import this module before NumPy: it limits the number of threads, for the peers' sake (calibrant limits its own). With
``--defaults`` among the arguments it does not, and a neighbour process keeps one core busy: what a user gets who sets
nothing (`defaults.py` has that for all methods).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

DEFAULTS = "--defaults" in sys.argv

if not DEFAULTS:
    for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_variable, "1")
elif any(name.endswith("_NUM_THREADS") for name in os.environ):  # start again without: libraries read them once
    _clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    sys.exit(subprocess.run([sys.executable, *sys.argv], env=_clean, check=False).returncode)

_PAUSE = 0.3
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


def in_turn(*runs: Callable[[], Any], repeat: int = 7, budget: float = 20.0) -> list[float]:
    """Median CPU time of each of several runs, in turn after a warm-up: a busy machine is so for all of them."""
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeat):
        for run, found in zip(runs, times, strict=True):
            if DEFAULTS:  # threads of the run before may still spin, at our expense
                time.sleep(_PAUSE)
            start = time.process_time()
            run()
            found.append(time.process_time() - start)
        if sum(map(sum, times)) > budget:
            break
    return [median(found) for found in times]


@contextmanager
def neighbour() -> Iterator[None]:
    """A process that keeps one core busy, with ``--defaults``."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if DEFAULTS else None
    try:
        yield
    finally:
        if other is not None:
            other.kill()


def write_json(name: str, results: Any) -> Path:
    """Write results to ``benchmarks/out/<name>.json``."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(results, indent=1))
    return path
