"""CPU seconds of the flagship on stored predictions, beside those of another version of the package, in turn.

    CALIBRANT_PREDICTIONS=folder python benchmarks/flagship_cost.py other/src [--suite tabular-multiclass] [--sample 60]

Each version runs in a process of its own, in one thread, and both wait for one another: the second starts to fit an
experiment when the first is done with it, so that a busy machine is so for both. The time is that of a fit and of the
prediction of the test rows, the median of three after a warm-up; experiments are a seeded sample of all folds. Prints
the medians over experiments and of the ratios, and writes `benchmarks/out/flagship_cost.json`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import timing  # first: it limits the threads

# isort: split
import h5py
import numpy as np

REPEAT = 3
HERE = Path(__file__).resolve().parents[1] / "src"


def worker(path: str) -> None:
    """Answer names of experiments, read from standard input, with CPU seconds."""
    from calibrant import get_calibrator

    with h5py.File(path) as file:
        for line in sys.stdin:
            group = file[line.strip()]
            stored = (group[name][...].astype(float) for name in ("probas_cal", "probas_test"))
            p, q = (a / a.sum(axis=1, keepdims=True) for a in stored)
            y = group["labels_cal"][...]
            start = time.process_time()
            get_calibrator("auto").set_params(classes=np.arange(p.shape[1])).fit(p, y).predict_proba(q)
            print(time.process_time() - start, flush=True)


def start(source: Path, path: Path) -> subprocess.Popen[str]:
    """A worker that imports the package from `source`."""
    command = [sys.executable, "-W", "ignore", __file__, "worker", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(name, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="source folder of the other version")
    parser.add_argument("--suite", default="tabular-multiclass")
    parser.add_argument("--sample", type=int, default=60)
    arguments = parser.parse_args()
    path = Path(os.environ["CALIBRANT_PREDICTIONS"]) / f"{arguments.suite}.h5"
    with h5py.File(path) as file:
        names = [f"{d}/{m}/{f}" for d in file for m in file[d] for f in file[d][m]]
    chosen = np.random.default_rng(0).permutation(names)[: arguments.sample].tolist()
    both = [start(source, path) for source in (HERE, arguments.other)]
    found = {}
    for name in chosen:
        runs = [[ask(process, name) for process in both] for _ in range(REPEAT + 1)][1:]
        found[name] = [median(times) for times in zip(*runs, strict=True)]
    for process in both:
        process.communicate()
    timing.write_json("flagship_cost", found)
    own, other = np.array(list(found.values())).T
    low, middle, high = np.quantile(own / other, [0.1, 0.5, 0.9])
    print(
        f"{arguments.suite}, {len(found)} experiments: median {np.median(own):.3f} s CPU, other "
        f"{np.median(other):.3f} s; ratio {middle:.2f} in the median, {low:.2f} to {high:.2f} in four of five"
    )


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1:2] == ["worker"] else main()
