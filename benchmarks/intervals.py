"""Do intervals of single probabilities cover, and what do they cost?

`python benchmarks/intervals.py --runs 200` prints how often 90 % intervals cover the true calibrated probability, which
is known: labels are drawn from an exact map of the predictions, a temperature of 1 / 0.7 and, except for `ts`, an
intercept of the last class, which the logistic methods can express. Each cell has the standard error
`sqrt(0.09 / runs)`, 0.021 for 200 runs; cells outside 86 to 94 % are marked. `--cost` prints the CPU time of
`predict_interval` over that of `predict_proba` instead, and `--peer` compares with the intervals of netcal's logistic
calibration, which are quantiles of posterior samples: coverage, width on the scale of log-odds once every method's
intervals are stretched to cover in 90 % of the cases, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
import warnings
from functools import partial

from timing import in_turn  # isort: skip

import numpy as np

from calibrant import get_calibrator
from calibrant.simplex import softmax

LEVEL = 0.9
#: Probabilities of the last class at which intervals are looked at.
PLACES = (0.01, 0.1, 0.5, 0.9)
DELTA = {2: ("ts", "affine", "beta", "quadratic", "logistic"), 3: ("ts", "vs", "svs", "sms"), 10: ("ts", "svs", "sms")}
BOOTSTRAP = {2: ("isotonic", "auto-fast"), 3: ("isotonic",), 10: ()}


def rows(k: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Predictions of k classes, as logits."""
    return rng.normal(size=(n, k)) * 1.5


def truth(method: str, z: np.ndarray) -> np.ndarray:
    """The true probabilities: the logits are too large, and for methods with an intercept the last one is shifted."""
    shift = np.zeros(z.shape[1])
    shift[-1] = 0.0 if method == "ts" else -0.3
    return softmax(0.7 * z + shift)


def coverage(method: str, k: int, n: int, runs: int, n_resamples: int) -> list[float]:
    """Share of the runs whose interval covers, at each place."""
    rng = np.random.default_rng([k, n])
    new = np.array([[(1 - p) / (k - 1)] * (k - 1) + [p] for p in PLACES])
    right = truth(method, np.log(new))[:, -1]
    hits = np.zeros(len(PLACES))
    for _ in range(runs):
        z = rows(k, n, rng)
        y = (truth(method, z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        calibrator = get_calibrator(method, classes=range(k))
        p = softmax(z)
        calibrator.fit(p, y).fit_intervals(p, y, n_resamples=n_resamples)
        ends = calibrator.predict_interval(new, LEVEL)[:, -1]
        hits += (ends[:, 0] <= right) & (right <= ends[:, 1])
    return (hits / runs).tolist()


def cost() -> None:
    rng, n = np.random.default_rng(0), 100_000
    for k, method in ((10, "ts"), (10, "vs"), (10, "svs"), (10, "dirichlet"), (10, "sms"), (2, "affine"), (2, "beta")):
        p = softmax(rows(k, n, rng))
        y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        calibrator = get_calibrator(method).fit(p[:3000], y[:3000]).fit_intervals(p[:3000], y[:3000])
        alone, interval = in_turn(partial(calibrator.predict_proba, p), partial(calibrator.predict_interval, p))
        print(f"{method:10} k={k:<3} {interval / alone:.1f} times predict_proba", flush=True)


def netcal_ends(method: str, p: np.ndarray, y: np.ndarray, new: np.ndarray, **options: int) -> np.ndarray:
    """Quantiles of samples of netcal's logistic calibration, (places, 2)."""
    from netcal.scaling import LogisticCalibration

    model = LogisticCalibration(method=method, **options)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it leaves logs where it runs
        model.fit(p, y)
    return np.quantile(model.transform(new, num_samples=1000), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T


def calibrant_ends(p: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The same of `affine`."""
    calibrator = get_calibrator("affine").fit(p, y).fit_intervals(p, y)
    return np.asarray(calibrator.predict_interval(new, LEVEL)[:, 1])


def peer(runs: int, n: int) -> None:
    """Coverage, width at equal coverage and CPU seconds of three ways to the same intervals."""
    few = {"mcmc_steps": 200, "mcmc_warmup_steps": 100, "mcmc_chains": 1}
    ways = {
        "calibrant, delta method": (runs, calibrant_ends),
        "netcal, variational": (runs, partial(netcal_ends, "variational", vi_epochs=500)),
        "netcal, MCMC": (max(runs // 4, 2), partial(netcal_ends, "mcmc", **few)),
    }
    new = np.array(PLACES)
    right = np.log(new / (1 - new)) * 0.7 - 0.3
    for name, (times, ends_of) in ways.items():
        rng, off, widths, seconds = np.random.default_rng(0), [], [], 0.0
        for _ in range(times):
            z = 1.5 * np.sqrt(2.0) * rng.normal(size=n)
            y = (rng.random(n) < 1 / (1 + np.exp(0.3 - 0.7 * z))).astype(int)
            start = time.process_time()
            ends = ends_of(1 / (1 + np.exp(-z)), y, new)
            seconds += time.process_time() - start
            low, high = np.log(ends / (1 - ends)).T
            off.append(np.abs(right - (low + high) / 2) / ((high - low) / 2))
            widths.append(high - low)
        held, stretch = np.mean(np.array(off) <= 1), np.quantile(off, LEVEL)
        width = " | ".join(f"{w:.2f}" for w in stretch * np.mean(widths, axis=0))
        print(f"| {name} | {n} | {times} | {held:.0%} | {width} | {seconds / times:.3g} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 300, 1000, 3000])
    parser.add_argument("--only", choices=["delta", "bootstrap"], default=None)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cost:
        cost()
        return
    if options.peer:
        for n in options.sizes:
            peer(options.runs, n)
        return
    print("| method | classes | rows | " + " | ".join(f"at {p:.0%}" for p in PLACES) + " |")
    print("|---|---|---|" + "---|" * len(PLACES))
    for kind, methods in (("delta", DELTA), ("bootstrap", BOOTSTRAP)):
        if options.only in (None, kind):
            for k, names in methods.items():
                for method in names:
                    for n in options.sizes:
                        found = coverage(method, k, n, options.runs, options.resamples)
                        cells = [f"{c:.0%}" if 0.86 <= c <= 0.94 else f"**{c:.0%}**" for c in found]
                        print(f"| {method} | {k} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
