"""Harm of calibrating calibrated predictions: with groups of dependent rows, and with weights against repeated rows.

Labels are drawn from the predictions, so the best map is the identity and the mean divergence of the calibrated from
the original probabilities is all harm. In grouped data a share of the groups draws the labels of all its rows with one
random number; each row is calibrated by itself.

    python benchmarks/levels_calibrators.py --runs 30
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from calibrant import get_calibrator


def draw(n_groups: int, size: int, k: int, shared: float, rng: np.random.Generator):
    """Predictions, labels and groups; a share `shared` of the groups has one random number for all its labels."""
    z = 1.5 * rng.normal(size=(n_groups, 1, k)) + 0.3 * rng.normal(size=(n_groups, size, k))
    p = np.exp(z).reshape(-1, k)
    p /= p.sum(axis=1, keepdims=True)
    one = np.repeat(rng.random(n_groups), size)
    u = np.where(np.repeat(rng.random(n_groups) < shared, size), one, rng.random(n_groups * size))
    y = np.minimum((p.cumsum(axis=1) < u[:, None]).sum(axis=1), k - 1)
    y[:k] = np.arange(k)
    return p, y, np.repeat(np.arange(n_groups), size)


def harm(calibrator, k: int, rng: np.random.Generator) -> float:
    """Mean divergence of calibrated probabilities from the original ones, which are right."""
    p, _, _ = draw(400, 5, k, 0.0, rng)
    q = calibrator.predict_proba(p)
    return float(np.mean(np.sum(p * np.log(p / np.maximum(q, 1e-12)), axis=1)))


def grouped_harm(runs: int, k: int = 2, n_groups: int = 100, size: int = 10) -> list[tuple]:
    """Harm above that of temperature scaling: independent rows, dependent ones without and with their groups."""
    extra = {"independent rows": [], "dependent rows, no groups given": [], "dependent rows, groups given": []}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        for shared in (0.0, 0.7):
            p, y, groups = draw(n_groups, size, k, shared, rng)
            ts = harm(get_calibrator("ts").fit(p, y), k, np.random.default_rng(1))
            plain = harm(get_calibrator("auto").fit(p, y), k, np.random.default_rng(1)) - ts
            if not shared:
                extra["independent rows"].append(plain)
                continue
            extra["dependent rows, no groups given"].append(plain)
            given = harm(get_calibrator("auto").fit(p, y, groups=groups), k, np.random.default_rng(1)) - ts
            extra["dependent rows, groups given"].append(given)
    what = f"auto's harm above temperature scaling, {k} classes, {n_groups} groups of {size}"
    return [(what, case, 0.0, float(np.mean(values)), runs) for case, values in extra.items()]


def weighted_harm(runs: int, k: int = 2, n: int = 150, times: int = 5) -> list[tuple]:
    """Harm of auto with weights and with the same rows repeated, and the largest difference of their predictions."""
    harms, off = [], 0.0
    for seed in range(runs):
        p, _, _ = draw(n, 1, k, 0.0, np.random.default_rng(seed))
        votes = np.random.default_rng(seed).multinomial(times, p).astype(float)
        rows, y = np.nonzero(votes)
        counts = votes[rows, y]
        again = np.repeat(np.arange(len(rows)), counts.astype(int))
        weighted = get_calibrator("auto").fit(p[rows], y, counts)
        repeated = get_calibrator("auto").fit(p[rows][again], y[again])
        harms.append([harm(c, k, np.random.default_rng(1)) for c in (weighted, repeated)])
        off = max(off, float(np.abs(weighted.predict_proba(p) - repeated.predict_proba(p)).max()))
    what = f"auto's harm, {n} rows of {k} classes, each observed {times} times"
    means = np.mean(harms, axis=0)
    return [
        (what, "weights", float(means[1]), float(means[0]), runs),
        (what, "largest difference of weights and repeated rows", 0.0, off, runs),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    for k in (2, 3):
        for row in (*grouped_harm(runs, k), *weighted_harm(max(3, runs // 3), k)):
            print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
