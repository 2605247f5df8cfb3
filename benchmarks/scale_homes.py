"""Rows on a device, on a cluster, and of a vocabulary: what the homes of rows beside arrays and batches cost.

Processor times in alternation with the array home (torch), wall and processor times of one and two workers on the same
partitions (Dask), and peak resident memory of a fresh process (fifty thousand classes).

    python benchmarks/scale_homes.py torch
    python benchmarks/scale_homes.py dask --methods ts,sms --rows 1600000
    python benchmarks/scale_homes.py wide --methods ts,svs
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from calibrant import get_calibrator
from calibrant.text_table import aligned


def predictions(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident probabilities with some confusion between classes, and labels."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    x = 1.3 * z + 0.3 * rng.normal(size=(n, k))
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def measure_torch(repeat: int) -> None:
    """SMS on tensors of the processor beside SMS on arrays."""
    import torch

    rows = [["rows", "classes", "arrays, CPU s", "tensors, CPU s", "ratio", "largest difference of a coefficient"]]
    for n, k in ((5000, 100), (2500, 1000)):
        p, y = predictions(n, k)
        tensor = torch.as_tensor(p)
        times: dict[str, list[float]] = {"arrays": [], "tensors": []}
        fitted: dict[str, Any] = {}
        for turn in range(repeat + 1):  # the first turn compiles and warms up
            for home, X in (("arrays", p), ("tensors", tensor)):
                start = time.process_time()
                fitted[home] = get_calibrator("sms").fit(X, y)
                if turn:
                    times[home].append(time.process_time() - start)
        best = {home: min(values) for home, values in times.items()}
        off = np.abs(fitted["tensors"].coef_ - fitted["arrays"].coef_).max()
        ratio = f"{best['tensors'] / best['arrays']:.2f}"
        rows.append([str(n), str(k), f"{best['arrays']:.3f}", f"{best['tensors']:.3f}", ratio, f"{off:.1e}"])
    print(aligned(rows))


def _partition(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return predictions(size, 10, seed)


def measure_dask(methods: list[str], n: int, repeat: int) -> None:
    """One and two workers of one thread each on the same partitions.

    What a fit waits for is the busiest worker and the client: on a busy machine their processor times say more than the
    clock.
    """
    import dask
    import dask.array as da
    import distributed

    size, rows = n // 32, [["method", "workers", "wall s", "busiest worker, CPU s", "client, CPU s", "sum"]]
    for name in methods:
        for workers in [1, 2] * repeat:
            options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": "CRITICAL"}
            with (
                distributed.LocalCluster(n_workers=workers, memory_limit=0, **options) as cluster,
                distributed.Client(cluster) as client,
            ):
                parts = [dask.delayed(_partition, nout=2)(seed, size) for seed in range(32)]
                X = da.concatenate([da.from_delayed(p, (size, 10), float) for p, _ in parts]).persist()
                y = da.concatenate([da.from_delayed(labels, (size,), int) for _, labels in parts]).persist()
                distributed.wait([X, y])
                get_calibrator(name).fit(X[: 2 * size], y[: 2 * size])  # imports and compiled code
                busy = client.run(time.process_time)
                own, start = time.process_time(), time.perf_counter()
                get_calibrator(name).fit(X, y)
                wall = time.perf_counter() - start
                own = time.process_time() - own
                used = max(now - busy[worker] for worker, now in client.run(time.process_time).items())
                rows.append([name, str(workers), *(f"{number:.2f}" for number in (wall, used, own, used + own))])
    print(aligned(rows))


def measure_wide(methods: list[str], n: int, k: int) -> None:
    """Peak memory of fits to single-precision logits of a vocabulary, each in a process of its own."""
    for name in methods:
        subprocess.run([sys.executable, __file__, "one-wide", "--methods", name, "--rows", str(n), "--classes", str(k)])


def one_wide(name: str, n: int, k: int) -> None:
    """One such fit."""
    rng = np.random.default_rng(0)
    X, y = np.empty((n, k), dtype=np.float32), np.empty(n, dtype=np.int64)
    for i in range(n):
        z = 2.0 * rng.standard_normal(k, dtype=np.float32)
        z[rng.integers(k, size=5)] += 10.0
        p = np.cumsum(np.exp(z - z.max()), dtype=np.float64)
        y[i], X[i] = np.searchsorted(p, rng.random() * p[-1]), 1.5 * z
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    get_calibrator(name, input="logits", classes=range(k)).fit(X, y)
    peak, took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time() - start
    print(
        f"{name}: n = {n}, k = {k}: {took:.0f} CPU s, peak {peak / 2**20:.2f} GiB, of which {before / 2**20:.2f} before"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["torch", "dask", "wide", "one-wide"])
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--methods", default="ts,svs,auto")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    if given.what == "torch":
        measure_torch(given.repeat)
    elif given.what == "dask":
        measure_dask(given.methods.split(","), given.rows or 1_600_000, given.repeat)
    elif given.what == "wide":
        measure_wide(given.methods.split(","), given.rows or 5000, given.classes)
    else:
        one_wide(given.methods, given.rows or 5000, given.classes)


if __name__ == "__main__":
    main()
