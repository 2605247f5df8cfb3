"""How often tests of grades reject right grades, how often intervals of rates miss, and how often Murphy's band does.

Grades are five quantiles of the predictions. In a grade labels are drawn at its mean prediction, so that its
probability is right and its halves are alike; for neighbours all rows have one rate. Groups are as in `levels_tests`.

`python benchmarks/levels.py --only grades` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrant.grades import MasterScale
from calibrant.metrics import calibration_in_the_large, expected_observed_ratio, murphy_diagram
from levels_tests import ALPHA, GROUP, Array, Case, Level, cases, shares

GRADES = 5
AT = np.arange(1, 20) / 20


def parts(case: Case, rng: np.random.Generator) -> tuple[Array, Array, NDArray[np.int64] | None]:
    """Predictions of the last class, uniform numbers behind the labels, and groups if there are any."""
    group, p, uniform = np.arange(case.n) // GROUP, case.predictions(case.n, rng)[:, -1], rng.random(case.n)
    if case.groups == "copies":
        p, uniform = p[group * GROUP], uniform[group]
    elif case.groups == "latent":
        uniform = ndtr((rng.standard_normal(case.n)[group] + rng.standard_normal(case.n)) / np.sqrt(2))
    return p, uniform, group if case.groups else None


def grade_levels(case: Case, seeds: range) -> list[Level]:
    """P-values at 0.05 of the worst grade and of all grades, lights, and the interval of the worst grade's rate."""

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        p, uniform, groups = parts(case, rng)
        scale = MasterScale.from_quantiles(p, GRADES)
        kept = {"groups": groups, "classes": [0, 1]}
        right = scale.inverse(scale.grade(p))
        found = scale.backtest((uniform < right).astype(int), p, **kept)
        flat = scale.backtest((uniform < p.mean()).astype(int), p, **kept)
        inside = found.low[-1] <= scale.probabilities[-1] <= found.high[-1]
        lights = any(light in ("yellow", "red") for light in found.light)
        rest = [found.hosmer_lemeshow.p_value, found.homogeneity[-1], flat.next_grade[0]]
        return [
            found.binomial[-1] <= ALPHA,
            found.jeffreys[-1] <= ALPHA,
            not inside,
            lights,
            *(q <= ALPHA for q in rest),
        ]

    names = ["binomial", "Jeffreys", "interval misses", "yellow or red among 5", "Hosmer-Lemeshow", "homogeneity"]
    found = shares("grades ", case, seeds, ALPHA, fails, [*names, "equal neighbours"])
    some = 1 - (1 - ALPHA) ** GRADES
    return [level._replace(nominal=some) if "yellow" in level.promise else level for level in found]


@cache
def true_difference(k: int, shape: str) -> Array:
    """Differences of elementary scores for very many rows."""
    rng = np.random.default_rng(5)
    y, p, _ = Case(200_000, k, shape).draw(rng)
    return murphy_diagram(y, p, sharper(p), thresholds=AT, n_resamples=2, classes=range(k)).difference


def sharper(p: Array) -> Array:
    return p**1.5 / (p**1.5).sum(axis=1, keepdims=True)


def murphy_levels(case: Case, seeds: range) -> list[Level]:
    """Whether the band misses the true difference at any threshold; and the interval of the most suspicious class."""
    truth = true_difference(case.k, case.shape)

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        kept = {"classes": range(case.k), "groups": groups}
        found = murphy_diagram(y, p, sharper(p), thresholds=AT, n_resamples=150, random_state=run, **kept)
        worst = 1 if case.k == 2 else int(np.argmin(calibration_in_the_large(y, p, **kept).p_value))
        level = 1 - ALPHA / (1 if case.k == 2 else case.k)
        ratio = expected_observed_ratio(y, p, pos_label=worst, level=level, **kept)
        return [bool(np.any((truth < found.low) | (truth > found.high))), not ratio.low <= 1.0 <= ratio.high]

    return shares("validation ", case, seeds, ALPHA, fails, ["Murphy band misses", "worst E:O interval misses"])


SIMULATIONS = {"grades ": grade_levels, "validation ": murphy_levels}


def levels(seeds: range, wanted: Callable[[str, str], bool]) -> Iterator[Level]:
    """Every promise in every case that is wanted."""
    for promise, simulate in SIMULATIONS.items():
        for case in cases((50, 300, 2000)):
            if wanted(promise, str(case)):
                yield from simulate(case, seeds)
