"""How often 95 % intervals of what decisions cost and save hold the true value, and proven precisions are kept.

Rows are those of `levels_intervals`: predictions a little too sure, independent or in groups of ten that share a shift.
Calibration is the exact temperature. True values are those of 400,000 rows.
`python benchmarks/levels.py --only decisions` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from calibrant import DecisionRule
from calibrant.decisions import choose_threshold, compare_decisions, decision_cost, decision_curve, risk_coverage
from levels_intervals import LEVEL, Row, draw_rows

#: Classes, log-odds of the frequencies of all but the first class, and the costs.
CASES: dict[str, tuple[int, float, Any]] = {
    "2 classes, 1:1": (2, 0.0, [[0, 1], [1, 0]]),
    "2 classes, 1:20": (2, -2.0, [[0, 20], [1, 0]]),
    "2 classes, 2 % positive, 1:20": (2, -5.0, [[0, 20], [1, 0]]),
    "3 classes, 4 actions": (3, -1.0, [[0, 5, 20], [1, 0, 5], [3, 2, 0], [1, 1, 1]]),
}
SIZES = (100, 500, 2000)
THRESHOLDS = (0.05, 0.2, 0.5)
PRECISION = 0.6


def draw(case: str, n: int, grouped: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Labels, predictions, calibrated predictions and groups."""
    k, shift, _ = CASES[case]
    y, p, groups = draw_rows(k, shift, None, n, grouped, rng)
    calibrated = p ** (1 / 1.15)
    return y, p, calibrated / calibrated.sum(axis=1, keepdims=True), groups


def intervals(case: str, y: Any, p: Any, after: Any, n_resamples: int, **more: Any) -> dict[str, tuple[float, ...]]:
    """The ends of every interval, or with few resamples the values that are called true."""
    k, _, costs = CASES[case]
    rule, options = DecisionRule(costs, classes=range(k)), {"n_resamples": n_resamples, "level": LEVEL, **more}
    found = {"decision_cost": decision_cost(y, p, rule, **options)}
    compared = compare_decisions(y, p, after, rule, **options)
    found["what calibration saves"] = compared.saved
    found["area under risk_coverage"] = risk_coverage(y, p, rule, classes=range(k), **options).area
    ends = {f"interval of {name}": (one.low, one.high, one.value) for name, one in found.items()}
    curve = decision_curve(y, p, thresholds=THRESHOLDS, pos_label=1, classes=range(k), **options)
    for at, *three in zip(curve.threshold, curve.low, curve.high, curve.net_benefit):
        ends[f"interval of net benefit at {at:g}"] = tuple(three)
    return ends


@cache
def true_values(case: str, grouped: bool) -> dict[str, float]:
    """What very many rows cost, save and bring."""
    y, p, after, _ = draw(case, 400_000, grouped, np.random.default_rng(7))
    return {name: ends[2] for name, ends in intervals(case, y, p, after, 2).items()}


@cache
def true_precision(case: str, grouped: bool) -> tuple[np.ndarray, np.ndarray]:
    """Every threshold, descending, and the precision of alarms from it on, of very many rows."""
    y, p, _, _ = draw(case, 400_000, grouped, np.random.default_rng(7))
    order = np.argsort(-p[:, 1])
    return -p[order, 1], np.cumsum(y[order] == 1) / np.arange(1, len(y) + 1)


def rows(seeds: range, wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """Rows of (promise, case, nominal, measured, runs)."""
    for case, grouped, n in product(CASES, (False, True), SIZES):
        words = f"{case}, {'groups of 10' if grouped else 'independent'}, n = {n}"
        if not wanted("", words):
            continue
        truth, (scores, precision) = true_values(case, grouped), true_precision(case, grouped)
        rng, held = np.random.default_rng([n, seeds.start]), {}  # type: ignore[var-annotated]
        for run in seeds:
            y, p, after, groups = draw(case, n, grouped, rng)
            together = {"groups": groups if grouped else None, "random_state": run}
            for name, (low, high, _) in intervals(case, y, p, after, 200, **together).items():
                held.setdefault(name, []).append(low <= truth[name] <= high)
            if not (y == 1).any():
                continue
            chosen = choose_threshold(
                y, p, precision=PRECISION, proven=True, pos_label=1, classes=range(p.shape[1]), **together
            )
            place = np.searchsorted(scores, -chosen.threshold, side="right") - 1
            kept = np.isinf(chosen.threshold) or precision[max(place, 0)] >= PRECISION
            held.setdefault("a proven precision is kept", []).append(kept)
        for name, each in held.items():
            yield name, words, LEVEL, float(np.mean(each)), len(each)
