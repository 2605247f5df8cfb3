"""Log loss, Brier score and ECE together on 10⁶ × 10 predictions, beside probmetrics 1.3.0.

One process, one thread, CPU time, best of several, the two packages in turn. Prints ratios and values, and writes
`benchmarks/out/metrics.json`. Usage: python benchmarks/metrics.py [rows] [classes] [repeats]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from probmetrics.metrics import Metrics
from threadpoolctl import threadpool_limits

from calibrant.metrics import brier, evaluate, expected_calibration_error, log_loss


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def compare(proba: np.ndarray, y: np.ndarray, repeats: int) -> dict[str, Any]:
    theirs = Metrics.from_names(["logloss", "brier", "ece-15"])
    tensors = torch.as_tensor(y), torch.as_tensor(proba)
    names = ["log_loss", "brier", "ece"]
    runs: dict[str, Callable[[], Any]] = {
        "probmetrics": lambda: theirs.compute_all_from_labels_probs(*tensors),
        "calibrant, three calls": lambda: (
            log_loss(y, proba),
            brier(y, proba),
            expected_calibration_error(y, proba),
        ),
        "calibrant, evaluate": lambda: evaluate(y, proba, names),
    }
    times = {name: float("inf") for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name] = min(times[name], seconds(run))
    peer = {key: float(value) for key, value in runs["probmetrics"]().items()}
    return {"seconds": times, "values": evaluate(y, proba, names), "values of probmetrics": peer}


def main() -> None:
    n_rows, n_classes, repeats = (int(given) for given in (*sys.argv[1:], *("1000000", "10", "5")[len(sys.argv) - 1 :]))
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n_rows, n_classes))
    proba = np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    y = rng.integers(0, n_classes, n_rows)
    results: dict[str, Any] = {"rows": n_rows, "classes": n_classes}
    for dtype in ("float64", "float32"):
        result = compare(proba.astype(dtype), y, repeats)
        results[dtype] = result
        peer = result["seconds"]["probmetrics"]
        print(f"{dtype}, {n_rows} x {n_classes}: probmetrics {peer:.3f} s")
        for name, used in result["seconds"].items():
            if name != "probmetrics":
                result[f"ratio, {name}"] = peer / used
                print(f"  {name:<24} {used:.3f} s, {peer / used:.1f} times as fast")
        print(f"  values {result['values']}\n  beside {result['values of probmetrics']}")
    target = Path(__file__).parent / "out" / "metrics.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
