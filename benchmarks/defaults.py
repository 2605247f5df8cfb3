"""Wall time with default settings beside that with one BLAS thread, with a busy neighbour and without.

No thread variable is set: what is measured is what a new user gets. Fits with defaults and inside
`threadpoolctl.threadpool_limits(1)` alternate in one process, so that whatever else the machine does is the same for
both; the ratio of the medians must be at most 1.3 beside a neighbour process that keeps one core busy, and about 1
without. `large` fits SMS with 1000 classes, where the free cores should help. CPU seconds are printed beside wall time:
threads that wait for one another show in both, a crowded machine in wall time only.
Usage: python benchmarks/defaults.py [busy] [idle] [large] [report] [method ...]; busy, idle and all methods by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any

if any(name.endswith("_NUM_THREADS") for name in os.environ):  # start again without: libraries read them once
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    sys.exit(subprocess.run([sys.executable, *sys.argv], env=clean, check=False).returncode)

import json
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from calibrant import get_calibrator, list_calibrators, threads

warnings.simplefilter("ignore")

SLOW = {"kernel", "catboost", "xgboost", "lightgbm", "svs-lasso"}  # threads of their own, or no matrix products
_BUSY = "while True: pass"
_MODES = ("busy", "idle", "large", "report")
METHODS = [word for word in sys.argv[1:] if word not in _MODES]


def predictions(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    logits = z @ (2.0 * np.eye(k) + 0.15 * rng.normal(size=(k, k)))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def compare(run: Callable[[], Any], budget: float, repeat: int = 5) -> dict[str, float]:
    """Median wall and CPU seconds with defaults and with one thread, in turn, until the budget is spent."""
    run()
    contexts: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "default": nullcontext,
        "one": lambda: threadpool_limits(1, user_api="blas"),
    }
    wall: dict[str, list[float]] = {name: [] for name in contexts}
    cpu: dict[str, list[float]] = {name: [] for name in contexts}
    began = time.perf_counter()
    while len(wall["one"]) < 1 or (len(wall["one"]) < repeat and time.perf_counter() - began < budget):
        for name, context in contexts.items():
            with context():
                start, cpu_start = time.perf_counter(), time.process_time()
                run()
                wall[name].append(time.perf_counter() - start)
                cpu[name].append(time.process_time() - cpu_start)
    found = {f"{name}_wall_s": median(times) for name, times in wall.items()}
    found |= {f"{name}_cpu_s": median(times) for name, times in cpu.items()}
    ratios = {
        "ratio": found["default_wall_s"] / found["one_wall_s"],
        "cpu_ratio": found["default_cpu_s"] / found["one_cpu_s"],
    }
    return {**found, **ratios, "repeats": len(wall["one"])}


def show(case: str, found: dict[str, float]) -> None:
    default, one = (
        f"{found[f'{name}_wall_s'] * 1e3:9.1f} ms (CPU {found[f'{name}_cpu_s'] * 1e3:9.1f})"
        for name in ("default", "one")
    )
    print(f"{case:<30} default {default}  one thread {one}  ratio {found['ratio']:.2f}", flush=True)


def fits(label: str) -> dict[str, Any]:
    names = METHODS or [info.name for info in list_calibrators() if info.name not in SLOW]
    results = {}
    for k in (3, 26, 100):
        p, y = predictions(5000, k)
        for name in names:
            case = f"{label} {name} k={k}"
            try:
                results[case] = compare(lambda name=name, p=p, y=y: get_calibrator(name).fit(p, y), budget=4.0)
            except (ImportError, ValueError):  # an extra is missing, or the method is for two classes
                continue
            show(case, results[case])
        fitted = get_calibrator("auto").fit(p, y)
        results[f"{label} predict k={k}"] = compare(lambda fitted=fitted, p=p: fitted.predict_proba(p), budget=2.0)
        show(f"{label} predict auto k={k}", results[f"{label} predict k={k}"])
    return results


def busy() -> dict[str, Any]:
    neighbour = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        return fits("busy")
    finally:
        neighbour.kill()


def idle() -> dict[str, Any]:
    return fits("idle")


def large() -> dict[str, Any]:
    """One product of the solver's size on one thread and on all, and a whole fit; needs a machine with idle cores."""
    print(f"{threads.free_cores()} of {os.cpu_count()} cores are free")
    p, y = predictions(5000, 1000)
    found = compare(lambda: get_calibrator("sms").fit(p, y), budget=120.0, repeat=3)
    show("large sms n=5000 k=1000", found)
    return {"sms n=5000 k=1000": {**found, "free_cores": threads.free_cores()}}


def report() -> dict[str, Any]:
    """What a report computes, on 2000 rows of 26 classes."""
    from calibrant.inputs.samples import check_sample
    from calibrant.report.analysis import Source, analyse

    p, y = predictions(2000, 26)
    data = check_sample(y, p)
    found = compare(lambda: analyse(data, range(26), Source("benchmark"), methods=["ts", "sms"]), budget=60.0, repeat=3)
    show("report n=2000 k=26", found)
    return {"report": found}


def main() -> None:
    chosen = [word for word in sys.argv[1:] if word in _MODES] or ["busy", "idle"]
    results = {name: {"busy": busy, "idle": idle, "large": large, "report": report}[name]() for name in chosen}
    for name in {"busy", "idle"} & set(chosen):
        for key, what in (("ratio", "wall time"), ("cpu_ratio", "CPU time")):
            ratios = {case: found[key] for case, found in results[name].items()}
            worst = max(ratios, key=lambda case: ratios[case])
            print(f"{name}, {what}: worst ratio {ratios[worst]:.2f} ({worst}), median {median(ratios.values()):.2f}")
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "defaults.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
