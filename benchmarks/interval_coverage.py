"""How often intervals hold the true value, and how often the test of calibration rejects calibrated predictions.

True probabilities are uniform; scores are shrunk towards 1/2 or shifted by a known amount, so that the population's ECE
and Kuiper distance are known. Prints a table and writes `benchmarks/out/interval_coverage.json`.
Usage: python benchmarks/interval_coverage.py [runs]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.metrics import calibration_test, confidence_interval

LEVEL = 0.9
STRENGTHS = (0.0, 0.05, 0.1, 0.25, 0.5)
BINS: dict[str, Any] = {"n_bins": 10, "strategy": "quantile"}


def shrunk(p: np.ndarray, strength: float) -> np.ndarray:
    return (1 - strength) * p + strength / 2


def shifted(p: np.ndarray, strength: float) -> np.ndarray:
    return np.clip(p + strength / 4, 0, 1)


def truth(metric: str, distort: Callable[..., np.ndarray], strength: float) -> float:
    """ECE and Kuiper distance of the population, from a fine grid."""
    p = (np.arange(100_000) + 0.5) / 100_000
    difference = p - distort(p, strength)
    if metric == "ece":
        return float(np.abs(difference).mean())
    path = np.append(0.0, np.cumsum(difference) / len(p))
    return float(path.max() - path.min())


def coverage(metric: str, distort: Callable[..., np.ndarray], strength: float, n_rows: int, runs: int) -> list[float]:
    """Share of intervals that hold the truth, that lie above it and that lie below it."""
    rng = np.random.default_rng(1)
    value = truth(metric, distort, strength)
    options = BINS if metric == "ece" else {}
    counts = np.zeros(3)
    for run in range(runs):
        p = rng.random(n_rows)
        y = (rng.random(n_rows) < p).astype(int)
        found = confidence_interval(
            metric, y, distort(p, strength), level=LEVEL, n_resamples=200, random_state=run, **options
        )
        counts += [found.low <= value <= found.high, value < found.low, value > found.high]
    return (counts / runs).tolist()


def size(statistic: Any, n_classes: int, runs: int) -> float:
    """Share of calibrated data sets of 100 rows that the test rejects at level 0.1."""
    rng = np.random.default_rng(2)
    rejected = 0
    for run in range(runs):
        p = rng.dirichlet(np.full(n_classes, 0.7), size=100)
        y = (np.cumsum(p, axis=1) < rng.random(100)[:, None]).sum(axis=1)
        y = np.minimum(y, n_classes - 1)
        classes = range(n_classes)
        rejected += calibration_test(y, p, statistic, n_resamples=99, random_state=run, classes=classes).p_value <= 0.1
    return rejected / runs


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    results: list[dict[str, Any]] = []
    print(f"nominal {LEVEL:.0%} intervals, {runs} runs: held the truth / lay above it / lay below it")
    for metric in ("ece", "kuiper"):
        for distort in (shrunk, shifted):
            for strength in STRENGTHS:
                for n_rows in (300, 2000):
                    shares = coverage(metric, distort, strength, n_rows, runs)
                    results.append(
                        {"metric": metric, "scores": distort.__name__, "strength": strength, "rows": n_rows,
                         "shares": shares}
                    )  # fmt: skip
                    print(f"{metric:<7}{distort.__name__:<8}{strength:<5}{n_rows:<5}", *(f"{s:.3f}" for s in shares))
    held = [result["shares"][0] for result in results]
    print(f"held the truth: {min(held):.3f} to {max(held):.3f}")
    print(f"test of calibration at level 0.1, {5 * runs} data sets of 100 rows: rejected")
    sizes = {}
    for statistic in ("kuiper", "kolmogorov_smirnov", "ece", "temperature", "score"):
        for n_classes in (2, 5):
            sizes[f"{statistic}, {n_classes} classes"] = size(statistic, n_classes, 5 * runs)
            print(f"{statistic:<20}{n_classes} classes  {sizes[f'{statistic}, {n_classes} classes']:.3f}")
    target = Path(__file__).parent / "out" / "interval_coverage.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"level": LEVEL, "intervals": results, "size": sizes}, indent=2) + "\n")


if __name__ == "__main__":
    main()
