"""What predictions of exported calibrators cost beside `predict_proba`: ONNX Runtime and torch, all rows and one row.

One process and thread, the programs in turn: throughput is the best of several runs, latency the median over many
calls, in CPU time. The calibrators are fitted to cifar10 predictions (`CALIBRANT_PREDICTIONS`); the size of the ONNX
model is printed, too. Usage: python benchmarks/exported.py [rows] [methods ...] [--defaults]; with ``--defaults``
every program takes as many threads as it likes: then wall time and the CPU time of all threads are compared, and ONNX
Runtime is there a second time, without threads that spin while they wait.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import timing  # first: it limits the threads

# isort: split
import numpy as np
import onnxruntime
import torch

import calibrant
from latency import microseconds, seconds
from parity import load

METHODS = ("ts", "sms", "isotonic", "auto-fast", "auto")


def session(model: Any, *, spinning: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    if not timing.DEFAULTS:
        options.intra_op_num_threads = 1
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    run = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    return lambda rows: run(None, {"predictions": rows})


def module(written: Any) -> Any:
    def run(rows: Any) -> Any:
        with torch.no_grad():
            return written(torch.as_tensor(rows)).numpy()

    return run


def wall_and_cpu(calls: dict[str, Any], repeats: int = 5) -> dict[str, tuple[float, float]]:
    """Least wall time of each and least CPU time, the programs in turn."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter(), time.process_time()
            call()
            times[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {name: (min(wall for wall, _ in found), min(cpu for _, cpu in found)) for name, found in times.items()}


def compare_defaults(name: str, n_rows: int) -> None:
    """Print wall and CPU time of all rows as multiples of those of `predict_proba`, every program with its threads."""
    calibrator, test = fitted(name)
    model = calibrant.export(calibrator, to="onnx")
    programs = {
        "predict_proba": calibrator.predict_proba,
        "onnx": session(model),
        "onnx that does not spin": session(model, spinning=False),
        "torch": module(calibrant.export(calibrator, to="torch")),
    }
    rows = np.resize(test, (n_rows, 10))
    found = wall_and_cpu({key: partial(run, rows) for key, run in programs.items()})
    wall, cpu = found.pop("predict_proba")
    ratios = ", ".join(f"{key} {w / wall:.2f} (CPU {c / cpu:.2f})" for key, (w, c) in found.items())
    print(f"{name}: {n_rows} rows {wall:.2f} s (CPU {cpu:.2f} s), times that: {ratios}", flush=True)


def fitted(name: str) -> tuple[Any, Any]:
    """The calibrator, and rows to predict."""
    p, y, test = load(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrant.get_calibrator(name).fit(p, y), test


def measure(name: str, n_rows: int) -> dict[str, Any]:
    calibrator, test = fitted(name)
    result: dict[str, Any] = {}
    for dtype in ("float64", "float32"):
        model = calibrant.export(calibrator, to="onnx", dtype=dtype)
        programs = {
            "predict_proba": calibrator.predict_proba,
            "onnx": session(model),
            "torch": module(calibrant.export(calibrator, to="torch", dtype=dtype)),
        }
        rows = np.resize(test, (n_rows, 10)).astype(dtype)
        many = seconds({key: partial(run, rows) for key, run in programs.items()})
        one = microseconds({key: partial(run, rows[:1]) for key, run in programs.items()}, batches=20, size=50)
        result[dtype] = {"seconds": many, "one row, microseconds": one, "onnx bytes": model.ByteSize()}
    return result


def main() -> None:
    if not timing.DEFAULTS:
        torch.set_num_threads(1)
    arguments = [argument for argument in sys.argv[1:] if argument != "--defaults"]
    n_rows = int(arguments[0]) if arguments else 1_000_000
    names = arguments[1:] or METHODS
    if timing.DEFAULTS:
        for name in names:
            compare_defaults(name, n_rows)
        return
    results = {}
    for name in names:
        results[name] = measure(name, n_rows)
        for dtype, part in results[name].items():
            many, one = part["seconds"], part["one row, microseconds"]
            ratios = ", ".join(f"{key} {many[key] / many['predict_proba']:.2f}" for key in ("onnx", "torch"))
            print(
                f"{name}, {dtype}: {n_rows} rows {many['predict_proba']:.2f} s, times that: {ratios}; one row "
                + ", ".join(f"{key} {value:.0f} µs" for key, value in one.items())
                + f"; {part['onnx bytes']:,} bytes of ONNX",
                flush=True,
            )
    timing.write_json("exported", results)


if __name__ == "__main__":
    main()
