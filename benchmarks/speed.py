"""Speed of the engine beside probmetrics 1.3.0, as ratios in one run.

Usage: ``python benchmarks/speed.py [--defaults] [name ...]`` with names of groups (sms, real, large, svs, ts, binary,
sparse, predict, import); all by default. Real predictions are read from the folder that CALIBRANT_PREDICTIONS names.
Every case is measured in one process, in CPU time of one thread, both packages in turn, medians of several; objectives
are computed in plain NumPy from the fitted coefficients of both packages. With ``--defaults`` no number of threads is
set and one core is busy with something else; ``default_to_one`` is then our CPU time beside that with one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

# isort: off
# The peer's compiled cache cannot be read back by a later process ("underlying object has vanished"): start afresh.
os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.mkdtemp(prefix="calibrant-speed-"))

import timing  # before NumPy: it limits the threads
import numpy as np

import calibrant

# isort: on

warnings.simplefilter("ignore")


def overconfident(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of a model that doubles its logits and confuses classes, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    logits = z @ (2.0 * np.eye(k) + 0.15 * rng.normal(size=(k, k))).T + 0.5 * rng.normal(size=k)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def real_predictions(least: int, most: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name and calibration part of the real prediction sets with so many classes."""
    folder = os.environ.get("CALIBRANT_PREDICTIONS")
    if not folder:
        print("real predictions: set CALIBRANT_PREDICTIONS")
        return
    import h5py

    with h5py.File(Path(folder) / "vision-text.h5") as file:
        for name in (f"{dataset}/{model}" for dataset in file for model in file[dataset]):
            group = next(iter(file[name].values()))
            if least <= group["probas_cal"].shape[1] <= most:
                p = group["probas_cal"][:].astype(np.float64)
                yield name, p / p.sum(axis=1, keepdims=True), group["labels_cal"][:].astype(int)


def scaled_logs(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    ts = calibrant.TemperatureScalingCalibrator(classes=range(p.shape[1])).fit(p, y)
    return np.log(ts.predict_proba(p))


def objective(p: np.ndarray, y: np.ndarray, w: np.ndarray, b: np.ndarray, penalty: str = "ridge") -> float:
    """Mean loss plus penalty of matrix scaling with default strengths, in plain NumPy."""
    n, k = p.shape
    x = scaled_logs(p, y)
    z = x @ w.T + b
    top = z.max(axis=1)
    loss = np.mean(np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(n), y])
    v, m = np.diag(w) - 1.0, w - np.diag(np.diag(w))
    size = {"ridge": lambda t: np.sum(t * t), "lasso": lambda t: np.abs(t).sum(), "group_lasso": np.linalg.norm}[
        penalty
    ]
    return float(loss + k / n * (size(b) + size(v)) + k * (k - 1) / n * size(m))


def row(case: str, ours: float, theirs: float, target: float, **more: Any) -> dict[str, Any]:
    ratio = theirs / ours
    text = f"{case:<34} ours {ours * 1e3:9.2f} ms  reference {theirs * 1e3:9.2f} ms  "
    text += f"ratio {ratio:6.1f} (target {target:g})"
    for key, value in more.items():
        text += f"  {key} {value:.10g}" if isinstance(value, float) else f"  {key} {value}"
    print(text, flush=True)
    return {"case": case, "ours_s": ours, "reference_s": theirs, "ratio": ratio, "target": target, **more}


def both(own: Any, other: Any, p: np.ndarray, y: np.ndarray, repeat: int = 7) -> tuple[float, float, dict[str, float]]:
    """CPU seconds of two fits in turn, and with ``--defaults`` of ours beside that with one thread."""
    runs = [lambda: own.fit(p, y), lambda: other.fit(p, y)]
    if not timing.DEFAULTS:
        return *timing.in_turn(*runs, repeat=repeat), {}
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()  # made once: finding the libraries takes longer than a small fit

    def with_one() -> None:
        with controller.limit(limits=1, user_api="blas"):
            own.fit(p, y)

    ours, theirs, one = timing.in_turn(*runs, with_one, repeat=repeat)
    return ours, theirs, {"default_to_one": ours / one}


def compare_sms(case: str, p: np.ndarray, y: np.ndarray, target: float, penalty: str = "ridge") -> dict[str, Any]:
    import probmetrics.calibrators as reference

    k = p.shape[1]
    smooth = penalty == "ridge"
    tol = None if smooth else 1e-4
    own = calibrant.SMSCalibrator(penalty=penalty, tol=tol, classes=range(k))
    other = reference.SMSCalibrator(penalty=penalty, opt="bfgs" if smooth else "saga", print_init_info=False)
    ours, theirs, defaults = both(own, other, p, y)
    exact = calibrant.SMSCalibrator(penalty=penalty, tol=1e-13 if smooth else 1e-9, classes=range(k)).fit(p, y)
    best = objective(p, y, exact.coef_, exact.intercept_, penalty)
    w = np.asarray(other.W_, dtype=np.float64)
    return row(
        case,
        ours,
        theirs,
        target,
        ours_above_optimum=objective(p, y, own.coef_, own.intercept_, penalty) - best,
        reference_above_optimum=objective(p, y, w[:, :k], w[:, k], penalty) - best,
        gap=own.duality_gap_,
        **defaults,
    )


def sms() -> list[dict[str, Any]]:
    return [compare_sms(f"SMS ridge n=5000 k={k}", *overconfident(5000, k), target=10) for k in (3, 5, 10, 26)]


def real() -> list[dict[str, Any]]:
    return [
        compare_sms(f"SMS {name} n={len(p)} k={p.shape[1]}", p, y, target=4)
        for name, p, y in real_predictions(least=60, most=500)
    ]


def sparse() -> list[dict[str, Any]]:
    data, targets = overconfident(2000, 10), {"lasso": 15, "group_lasso": 5}
    return [compare_sms(f"SMS {name} n=2000 k=10", *data, target, name) for name, target in targets.items()]


def svs() -> list[dict[str, Any]]:
    import probmetrics.calibrators as reference

    results = []
    for k in (5, 10, 26):
        p, y = overconfident(5000, k)
        own, other = calibrant.SVSCalibrator(), reference.SVSCalibrator(print_init_info=False)
        ours, theirs, defaults = both(own, other, p, y)
        theirs_at = objective(p, y, np.diag(np.asarray(other.v_, dtype=float)), np.asarray(other.b_, dtype=float))
        ours_at = objective(p, y, np.diag(own.coef_), own.intercept_)
        results.append(
            row(
                f"SVS ridge n=5000 k={k}",
                ours,
                theirs,
                10,
                objective=ours_at,
                reference_objective=theirs_at,
                **defaults,
            )
        )
    return results


def ts() -> list[dict[str, Any]]:
    import probmetrics.calibrators as reference

    p, y = overconfident(5000, 10)
    own, other = calibrant.TemperatureScalingCalibrator(smoothing=False), reference.TemperatureScalingCalibrator()
    ours, theirs = timing.cpu_seconds(lambda: own.fit(p, y), repeat=20), timing.cpu_seconds(lambda: other.fit(p, y))
    loss = [float(-np.mean(np.log(c.predict_proba(p)[np.arange(len(y)), y]))) for c in (own, other)]
    return [row("TS n=5000 k=10", ours, theirs, 4, objective=loss[0], reference_objective=loss[1])]


def binary() -> list[dict[str, Any]]:
    import probmetrics.calibrators as reference

    p, y = overconfident(5000, 2)
    results = []
    for kind in ("affine", "quadratic"):
        own, other = calibrant.BinaryLogisticCalibrator(kind), reference.BinaryLogisticCalibrator(type=kind)
        ours = timing.cpu_seconds(partial(own.fit, p, y), repeat=20)
        theirs = timing.cpu_seconds(partial(other.fit, p, y), repeat=20)
        loss = [float(-np.mean(np.log(c.predict_proba(p)[np.arange(len(y)), y]))) for c in (own, other)]
        results.append(row(f"binary {kind} n=5000", ours, theirs, 5, objective=loss[0], reference_objective=loss[1]))
    return results


def predict() -> list[dict[str, Any]]:
    import probmetrics.calibrators as reference

    p, y = overconfident(5000, 10)
    many = np.tile(p, (200, 1))
    own, other = calibrant.SMSCalibrator().fit(p, y), reference.SMSCalibrator(print_init_info=False).fit(p, y)
    ours = timing.cpu_seconds(lambda: own.predict_proba(many), repeat=3)
    theirs = timing.cpu_seconds(lambda: other.predict_proba(many), repeat=3)
    import tracemalloc

    tracemalloc.start()
    own.predict_proba(many)
    arrays = 1.0 + tracemalloc.get_traced_memory()[1] / many.nbytes
    tracemalloc.stop()
    return [row("predict_proba 1e6 x 10", ours, theirs, 2, arrays_alive_with_input=arrays)]


_LARGE = """
import resource, time
import numpy as np
rng = np.random.default_rng(0)
n, k, d = 25000, 1000, 40
centres = rng.normal(size=(k, d)).astype(np.float32)
y = rng.integers(k, size=n)
h = centres[y] + 1.1 * rng.normal(size=(n, d)).astype(np.float32)
p = 2.0 * (h @ centres.T - 0.5 * (centres**2).sum(axis=1))
del h
p -= p.max(axis=1, keepdims=True)
np.exp(p, out=p)
p /= p.sum(axis=1, keepdims=True)
from calibrant import SMSCalibrator, threads
free = threads.free_cores()
start, cpu = time.perf_counter(), time.process_time()
sms = SMSCalibrator().fit(p, y)
took, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(took, cpu, peak, sms.objective_, sms.duality_gap_, free)
"""


def large() -> list[dict[str, Any]]:
    """A million parameters, on all cores of the machine, in a process of its own so that its memory can be told."""
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    output = subprocess.run([sys.executable, "-c", _LARGE], capture_output=True, text=True, env=environment, check=True)
    took, cpu, peak, value, gap, threads = (float(word) for word in output.stdout.split())
    print(
        f"SMS ridge n=25000 k=1000: {took:.1f} s (target 6), CPU {cpu:.1f} s, peak {peak:.2f} GiB (target 1.2), "
        f"gap {gap:.2g}, {threads:.0f} threads"
    )
    found = {"wall_s": took, "cpu_s": cpu, "peak_gib": peak, "objective": value, "gap": gap, "threads": threads}
    return [{"case": "SMS ridge n=25000 k=1000", **found}]


def _fresh(code: str, repeat: int = 5) -> float:
    """Least wall time of a fresh Python process that runs `code`, less that of one that runs nothing."""

    def best(text: str) -> float:
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        return min(times)

    return best(code) - best("pass")


_FIRST_FIT = """
import time
import numpy as np
from calibrant import SMSCalibrator
rng = np.random.default_rng(0)
p = rng.dirichlet(np.ones(10), size=2000)
y = rng.integers(10, size=2000)
times = []
for _ in range(2):
    start = time.perf_counter()
    SMSCalibrator().fit(p, y)
    times.append(time.perf_counter() - start)
print(times[0] - times[1])
"""


def imports() -> list[dict[str, Any]]:
    names = "calibrant.SMSCalibrator, calibrant.LogisticCalibrator, calibrant.get_calibrator"
    bare, used, sklearn = (
        _fresh(code) for code in ("import calibrant", f"import calibrant; {names}", "import sklearn.linear_model")
    )
    heavy = "torch", "pandas", "matplotlib", "numba"
    check = f"import sys, calibrant; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip()
    print(
        f"import calibrant {bare:.3f} s, with its calibrators {used:.3f} s, sklearn.linear_model {sklearn:.3f} s: "
        f"ratio {used / sklearn:.2f} (target 1.25); heavy modules loaded: {loaded}"
    )
    subprocess.run([sys.executable, "-c", _FIRST_FIT], check=True, capture_output=True)  # fills the compiled cache
    first_fit = partial(subprocess.run, [sys.executable, "-c", _FIRST_FIT], capture_output=True, text=True, check=True)
    extra = min(float(first_fit().stdout) for _ in range(3))
    print(f"first fit of a process: {extra:.2f} s more than the second (target 1)")
    return [{"case": "import", "bare_s": bare, "used_s": used, "sklearn_s": sklearn, "first_fit_extra_s": extra}]


GROUPS = {
    "sms": sms,
    "real": real,
    "svs": svs,
    "ts": ts,
    "binary": binary,
    "sparse": sparse,
    "predict": predict,
    "import": imports,
    "large": large,
}


def main() -> None:
    chosen = [word for word in sys.argv[1:] if word != "--defaults"] or list(GROUPS)
    with timing.neighbour():
        results = {name: GROUPS[name]() for name in chosen}
    print("written to", timing.write_json("speed-defaults" if timing.DEFAULTS else "speed", results))


if __name__ == "__main__":
    main()
