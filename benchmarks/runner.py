"""What the benchmark runner costs, and what a second dask worker brings.

`overhead`: share of the processes' time in a run of all native methods on the embedded predictions that is neither
fitting, predicting nor measuring. `dask`: wall time of 200 experiments whose fits dominate, on one and two workers.

    python benchmarks/runner.py [overhead] [dask]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from calibrant.bench.building.embedded import embedded_predictions
from calibrant.bench.runs.method_spec import native_methods
from calibrant.bench.runs.one_fit import Options
from calibrant.bench.runs.runner import run_benchmark
from calibrant.files.prediction_sets.experiments import MemorySource, SplitPredictions
from calibrant.files.prediction_sets.hdf5 import write_hdf5
from calibrant.files.prediction_sets.open_set import open_predictions

JOBS = 2
EXPERIMENTS = 200


class Busy:
    """A method that computes for a fixed CPU time, so that two workers have twice the work of one to share."""

    def __init__(self, seconds: float = 0.1) -> None:
        self.seconds = seconds

    def fit(self, p: np.ndarray, y: np.ndarray) -> Busy:
        start = time.process_time()
        while time.process_time() - start < self.seconds * (len(y) > 100):
            np.exp(p).sum()
        return self

    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return p


def overhead() -> None:
    with tempfile.TemporaryDirectory() as folder:
        methods = native_methods()
        start = time.perf_counter()
        run_benchmark(embedded_predictions(), methods, folder, n_jobs=JOBS)
        wall = time.perf_counter() - start
        rows = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]
    parts = {
        p: sum(r[f"{p}_seconds"] for r in rows if r["status"] == "ok") for p in ("fit", "predict", "measure", "warm_up")
    }
    busy = sum(parts.values())
    rest, with_warm_up = 1 - busy / (wall * JOBS), 1 - (busy - parts["warm_up"]) / (wall * JOBS)
    detail = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())
    print(f"{len(methods)} methods, {len(rows)} fits on {JOBS} processes: {wall:.1f} s wall")
    print(f"{detail}; rest {rest:.1%} of the processes' time, with warm-up {with_warm_up:.1%}")


def dask() -> None:
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(5), 400), rng.integers(5, size=400)
    arrays = SplitPredictions.checked(p[:300], y[:300], p[300:], y[300:])
    with tempfile.TemporaryDirectory() as folder:
        memory = MemorySource({(f"d{i}", "m", 0): arrays for i in range(EXPERIMENTS)})
        path = Path(folder) / "plan.h5"
        write_hdf5(path, [(e, memory.load(e)) for e in memory.experiments()])
        source, walls = open_predictions(path), {}
        for workers in (1, 2):
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                few = source.experiments()[: 2 * workers]
                # The cluster is up and its fitting processes run before the clock starts, as they would on a long plan.
                run_benchmark(source, ["runner:Busy"], Path(folder) / f"warm{workers}", experiments=few, dask=client)
                start = time.perf_counter()
                options = Options(time_limit=60)
                run_benchmark(source, ["runner:Busy"], Path(folder) / str(workers), options=options, dask=client)
                walls[workers] = time.perf_counter() - start
    print(f"{EXPERIMENTS} experiments, one worker {walls[1]:.1f} s, two {walls[2]:.1f} s: {walls[1] / walls[2]:.2f}x")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["overhead", "dask"]:
        {"overhead": overhead, "dask": dask}[name]()
