"""How often 95 % intervals hold the true value: two and ten classes, rare and saturated, independent and grouped rows.

True probabilities follow from normal log-odds; predictions are what a model that is a little too sure would give. With
groups, ten rows share a normal shift of their log-odds that the predictions do not know. The true value of a metric is
that of 400,000 rows. `python benchmarks/levels.py --only intervals` runs it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax

from calibrant.metrics import RunningMetrics, evaluate

LEVEL = 0.95
METRICS = ("log_loss", "brier", "accuracy", "auroc", "ece", "smooth_ece", "kuiper")
NAMED = (
    "gini",
    "ks_separation",
    "integrated_calibration_index",
    "two_bin_calibration_error",
    "brier_skill_score",
    "scaled_brier",
    "ranked_probability_score",
)
RUNNING = ("log_loss", "brier", "accuracy", "ece")
GROUP_SIZE = 10
SIZES = (50, 200, 2000)
Row = tuple[str, str, float, float, int]

#: Classes, log-odds of the frequencies of all but the first class, and decimals that predictions are rounded to.
CASES: dict[str, tuple[int, Any, int | None]] = {
    "2 classes": (2, 0.0, None),
    "2 classes, 0.6 % positive": (2, -6.0, None),
    "2 classes, saturated": (2, 0.0, 2),
    "10 classes": (10, 0.0, None),
    "10 classes, skewed": (10, -np.arange(9.0), None),
    "10 classes, saturated": (10, 0.0, 2),
}


def draw(case: str, n: int, grouped: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions and groups of so many rows of a case."""
    return draw_rows(*CASES[case], n, grouped, rng)


def draw_rows(
    k: int, shift: Any, decimals: int | None, n: int, grouped: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions and groups of rows with so many classes, frequencies and decimals."""
    groups = np.arange(n) // GROUP_SIZE
    z = rng.normal(0, 1.3 if decimals is None else 3.0, (n, k))
    z[:, 1:] += shift
    shared = rng.normal(0, 1.0, (n // GROUP_SIZE + 1, k))[groups] if grouped else 0.0
    truth = softmax(z + shared, axis=1)
    y = np.minimum((truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)
    p = softmax(1.15 * z, axis=1)
    if decimals is not None:
        p = np.round(p, decimals)
        p /= p.sum(axis=1, keepdims=True)
    return y, p, groups


@cache
def true_values(case: str, grouped: bool) -> dict[str, float]:
    """The metrics of very many rows."""
    y, p, _ = draw(case, 400_000, grouped, np.random.default_rng(7))
    return evaluate(y, p, METRICS + NAMED, classes=range(p.shape[1]))


def bootstrapped(y: np.ndarray, p: np.ndarray, groups: Any, seed: int) -> dict[str, Any]:
    return evaluate(
        y, p, METRICS, level=LEVEL, n_resamples=200, random_state=seed, classes=range(p.shape[1]), groups=groups
    )


def named(y: np.ndarray, p: np.ndarray, groups: Any, seed: int) -> dict[str, Any]:
    return evaluate(
        y, p, NAMED, level=LEVEL, n_resamples=200, random_state=seed, classes=range(p.shape[1]), groups=groups
    )


def from_sums(y: np.ndarray, p: np.ndarray, groups: Any, seed: int) -> dict[str, Any]:
    return RunningMetrics(RUNNING, classes=range(p.shape[1])).update(y, p, groups=groups).result(LEVEL)


def coverage(
    intervals: Callable[..., dict[str, Any]], case: str, n: int, grouped: bool, seeds: range
) -> dict[str, tuple[float, float, int]]:
    """Share of runs without an interval, with one that holds the truth, and the number of the latter's runs."""
    rng, truth = np.random.default_rng([n, seeds.start]), true_values(case, grouped)
    held: dict[str, list[float]] = {}
    for run in seeds:
        y, p, groups = draw(case, n, grouped, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no interval: counted as such
            found = intervals(y, p, groups if grouped else None, run)
        for name, one in found.items():
            inside = one.low <= truth[name] <= one.high
            held.setdefault(name, []).append(np.nan if np.isnan(one.low) else float(inside))
    return {
        name: (
            float(np.mean(np.isnan(each))),
            float(np.nanmean(each)) if not np.isnan(each).all() else np.nan,
            int(np.sum(~np.isnan(each))),
        )
        for name, each in held.items()
    }


def rows(seeds: range, wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """Rows of (promise, case, nominal, measured, runs); runs without an interval are not among them."""
    for kind, intervals in (("evaluate", bootstrapped), ("named measures", named), ("RunningMetrics", from_sums)):
        for case, grouped, n in product(CASES, (False, True), SIZES):
            words = f"{case}, {'groups of 10' if grouped else 'independent'}, n = {n}"
            if wanted(f"({kind})", words):
                for name, (_, share, known) in coverage(intervals, case, n, grouped, seeds).items():
                    yield f"interval of {name} ({kind})", words, LEVEL, share, known
