"""What predictions of exported calibrators cost beside `predict_proba`: ONNX Runtime and torch, all rows and one row.

One process and thread, the programs in turn: throughput is the best of several runs, latency the median over many
calls, in CPU time. The calibrators are fitted to cifar10 predictions (`CALIBRANT_PREDICTIONS`); the size of the ONNX
model is printed, too. Usage: python benchmarks/exported.py [rows] [methods ...] [--defaults]; with ``--defaults``
every program takes as many threads as it likes, and CPU time is that of all of them.
"""

from __future__ import annotations

import sys
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


def session(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    if not timing.DEFAULTS:
        options.intra_op_num_threads = 1
    run = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    return lambda rows: run(None, {"predictions": rows})


def module(written: Any) -> Any:
    def run(rows: Any) -> Any:
        with torch.no_grad():
            return written(torch.as_tensor(rows)).numpy()

    return run


def measure(name: str, n_rows: int) -> dict[str, Any]:
    p, y, test = load(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = calibrant.get_calibrator(name).fit(p, y)
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
    results = {}
    for name in arguments[1:] or METHODS:
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
