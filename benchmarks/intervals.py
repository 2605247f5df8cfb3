"""Do intervals of single probabilities cover, and what do they cost?

`python benchmarks/intervals.py --runs 200` prints how often 90 % intervals cover the true calibrated probability, which
is known: labels are drawn from an exact map of the predictions, a temperature of 1 / 0.7 and, except for `ts`, an
intercept of the last class, which the logistic methods can express. Each cell has the standard error
`sqrt(0.09 / runs)`, 0.021 for 200 runs; cells outside 86 to 94 % are marked. `--cost` prints the time of
`predict_interval` over that of `predict_proba` instead.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 300, 1000, 3000])
    parser.add_argument("--only", choices=["delta", "bootstrap"], default=None)
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cost:
        cost()
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
