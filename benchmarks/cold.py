"""What the first fit of a fresh environment costs: CPU seconds beyond imports with an empty cache of compiled code.

Every row is a process of its own with an empty `NUMBA_CACHE_DIR`. The imports (calibrant, scikit-learn, numba) are
told apart; beyond them are the fit and all compiling. `again` is the same fit once more in that process, `loaded` the
first fit of a second process that finds the cache. Predicting with a stored calibrator must compile nothing: the last
column counts what it did compile. Usage: python benchmarks/cold.py [method ...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import timing

#: The most CPU seconds of each kind.
TARGETS = {"auto": 3.0, "sqs": 3.0, "svs": 2.0, "sms": 2.0}
METHODS = ("ts", "logistic", "beta", "isotonic", "venn-abers", "spline", "platt", "svs", "sms", "sqs", "auto")

_COUNT = """
def compiled():
    dispatchers = {
        id(value): value
        for name, module in list(sys.modules.items()) if name.startswith("calibrant")
        for value in vars(module).values() if hasattr(value, "nopython_signatures")
    }
    return sum(
        1 for d in dispatchers.values() for signature in d.signatures if not d.stats.cache_hits.get(signature)
    )
"""

_FIT = (
    """
import sys, time
start = time.process_time()
import numpy as np, calibrant, numba
calibrant.get_calibrator(sys.argv[1])
imports = time.process_time() - start
"""
    + _COUNT
    + """
rng = np.random.default_rng(0)
k = int(sys.argv[2])
z = 1.5 * rng.normal(size=(2000, k))
y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
p = np.exp(2.0 * z - (2.0 * z).max(axis=1, keepdims=True))
p /= p.sum(axis=1, keepdims=True)
took = []
for _ in range(2):
    wall, cpu = time.perf_counter(), time.process_time()
    fitted = calibrant.get_calibrator(sys.argv[1]).fit(p, y)
    took += [time.process_time() - cpu, time.perf_counter() - wall]
calibrant.save(fitted, sys.argv[3])
print(imports, *took, compiled())
"""
)

_PREDICT = (
    "import sys"
    + _COUNT
    + """
import numpy as np, calibrant
calibrant.load(sys.argv[1]).predict_proba(np.random.default_rng(0).dirichlet(np.ones(int(sys.argv[2])), size=500))
print(compiled(), int("numba" in sys.modules))
"""
)


def run(code: str, cache: str, *arguments: str) -> list[float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments], env=environment, check=True, capture_output=True
    )
    return [float(word) for word in done.stdout.split()]


def measure(method: str, k: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        stored = str(Path(folder) / "stored.json")
        imports, cpu, wall, again, _, compiled = run(_FIT, f"{folder}/cache", method, str(k), stored)
        loaded = run(_FIT, f"{folder}/cache", method, str(k), stored)[1]
        in_prediction, numba = run(_PREDICT, f"{folder}/empty", stored, str(k))
    return {
        "classes": k, "import_s": imports, "cpu_s": cpu, "wall_s": wall, "again_s": again, "loaded_s": loaded,
        "compiled": compiled, "compiled_in_prediction": in_prediction, "prediction_imports_numba": numba,
    }  # fmt: skip


def main() -> None:
    results = {}
    print(f"{'method':<12}{'k':>3}{'import':>8}{'CPU s':>8}{'target':>8}{'wall s':>8}{'again':>8}{'loaded':>8}"
          f"{'compiled':>9}{'in prediction':>14}")  # fmt: skip
    for method in sys.argv[1:] or METHODS:
        for k in (2, 4):
            found = results[f"{method} k={k}"] = measure(method, k)
            print(
                f"{method:<12}{k:>3}{found['import_s']:>8.2f}{found['cpu_s']:>8.2f}{TARGETS.get(method, 1.0):>8.1f}"
                f"{found['wall_s']:>8.2f}{found['again_s']:>8.3f}{found['loaded_s']:>8.2f}{found['compiled']:>9.0f}"
                f"{found['compiled_in_prediction']:>14.0f}",
                flush=True,
            )
    print("written to", timing.write_json("cold", results))


if __name__ == "__main__":
    main()
