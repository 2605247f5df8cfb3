"""What a prediction of a fitted SMS costs beside probmetrics 1.3.0: one row, 10⁶ rows, and the memory these take.

One process, one thread, the two packages in turn: latency is the median over many calls, throughput the best of
several, in CPU time. Memory is the peak of `tracemalloc` in arrays of the input's size, the result included. Prints
ratios and writes `benchmarks/out/latency.json`. Usage: python benchmarks/latency.py [rows] [classes]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import timing  # first: it limits the threads

# isort: split
import numpy as np
import torch
from probmetrics.calibrators import get_calibrator as get_reference

from calibrant import get_calibrator


def microseconds(calls: dict[str, Callable[[], Any]], batches: int = 40, size: int = 100) -> dict[str, float]:
    """Median CPU time of a call, in batches, the functions in turn so that a busy machine is busy for both."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(batches):
        for name, call in calls.items():
            start = time.process_time_ns()
            for _ in range(size):
                call()
            times[name].append((time.process_time_ns() - start) / size / 1e3)
    return {name: float(np.median(values)) for name, values in times.items()}


def seconds(calls: dict[str, Callable[[], Any]], repeats: int = 3) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def peak_bytes(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def measure(n_rows: int, k: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), size=2000)
    y = (p.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    fitted = {"calibrant": get_calibrator("sms").fit(p, y), "probmetrics": get_reference("sms")}
    fitted["probmetrics"].fit(p, y)
    results: dict[str, Any] = {"rows": n_rows, "classes": k}
    for dtype in (np.float64, np.float32):
        row = p[:1].astype(dtype)
        large = np.resize(p, (n_rows, k)).astype(dtype)
        one = microseconds({name: partial(c.predict_proba, row) for name, c in fitted.items()})
        many = seconds({name: partial(c.predict_proba, large) for name, c in fitted.items()})
        peak = peak_bytes(partial(fitted["calibrant"].predict_proba, large))
        results[np.dtype(dtype).name] = {
            "one row, microseconds": one,
            "one row, times faster": one["probmetrics"] / one["calibrant"],
            "all rows, seconds": many,
            "all rows, times faster": many["probmetrics"] / many["calibrant"],
            "peak memory, inputs": peak / large.nbytes,
        }
    return results


def main() -> None:
    n_rows, k = (int(given) for given in (*sys.argv[1:], *("1000000", "10")[len(sys.argv) - 1 :]))
    torch.set_num_threads(1)
    results = measure(n_rows, k)
    timing.write_json("latency", results)
    for dtype in ("float64", "float32"):
        part = results[dtype]
        one, many = part["one row, microseconds"], part["all rows, seconds"]
        print(
            f"{dtype}: one row {one['calibrant']:.0f} µs against {one['probmetrics']:.0f} µs, "
            f"{part['one row, times faster']:.1f} times faster; {n_rows} rows {many['calibrant']:.2f} s against "
            f"{many['probmetrics']:.2f} s, {part['all rows, times faster']:.1f} times faster; peak "
            f"{part['peak memory, inputs']:.2f} arrays of the input's size"
        )


if __name__ == "__main__":
    main()
