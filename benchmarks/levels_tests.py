"""How often tests of calibration reject calibrated predictions, and how often intervals miss.

Labels are drawn from the predictions. Groups of ten rows are of two kinds: "latent", with a common normal variable of
correlation one half behind the labels, and "copies", ten rows of one prediction and one label.

`python benchmarks/levels.py --only tests` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from calibrant.metrics import (
    calibration_belt,
    calibration_in_the_large,
    calibration_test,
    cox_calibration,
    expected_observed_ratio,
    hosmer_lemeshow,
    miscalibration,
    segment_calibration,
    spiegelhalter,
    split_likelihood_ratio,
)

ALPHA = 0.05
STATISTICS = ("kuiper", "kolmogorov_smirnov", "ece", "smooth_ece", "temperature", "score", "omnibus")
GROUP = 10
Array = NDArray[np.float64]


class Level(NamedTuple):
    """How often something that was promised not to happen more often than `nominal` did."""

    promise: str
    case: str
    nominal: float
    measured: float
    runs: int


class Case(NamedTuple):
    """Calibrated predictions: rows, classes, their shape ("plain", "skewed", "saturated") and their dependence."""

    n: int
    k: int
    shape: str = "plain"
    groups: str = ""

    def __str__(self) -> str:
        return ", ".join([f"n={self.n}", f"k={self.k}", self.shape, self.groups or "independent"])

    def predictions(self, n: int, rng: np.random.Generator) -> Array:
        if self.k == 2:
            positive = rng.random(n)
            if self.shape == "skewed":
                positive = expit(0.8 * rng.standard_normal(n) - 5.4)
            p = np.column_stack([1.0 - positive, positive])
        else:
            rare = np.full(self.k, 0.7)
            if self.shape == "skewed":
                rare = 0.7 * np.geomspace(0.05, 5.0, self.k)
            p = rng.dirichlet(rare, size=n)
        if self.shape == "saturated":
            p = p**4 / (p**4).sum(axis=1, keepdims=True)
            p[p < 0.02] = 0.0
            p /= p.sum(axis=1, keepdims=True)
        return p

    def draw(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array, NDArray[np.int64] | None]:
        """Labels, predictions, and groups if there are any."""
        group = np.arange(self.n) // GROUP
        p = self.predictions(self.n, rng)
        uniform = rng.random(self.n)
        if self.groups == "copies":
            p, uniform = p[group * GROUP], uniform[group]
        elif self.groups == "latent":
            uniform = ndtr((rng.standard_normal(self.n)[group] + rng.standard_normal(self.n)) / np.sqrt(2))
        y = np.minimum((p.cumsum(axis=1) < uniform[:, None]).sum(axis=1), self.k - 1)
        last = self.k - 1 - np.argmax(p[:, ::-1] > 0, axis=1)
        return np.minimum(y, last), p, group if self.groups else None


def cases(rows: tuple[int, ...] = (50, 100, 300, 1000, 2000)) -> Iterator[Case]:
    """All cases, the plain ones with every number of rows, the others with three."""
    for k in (2, 10):
        for groups in ("", "latent", "copies"):
            for n in rows:
                yield Case(n, k, "plain", groups)
            for shape in ("skewed", "saturated"):
                for n in (100, 300, 2000):
                    yield Case(n, k, shape, groups)


def shares(
    promise: str,
    case: Case,
    seeds: range,
    nominal: float,
    fails: Callable[[np.random.Generator, int], list[bool]],
    names: list[str],
) -> list[Level]:
    """How often each of several promises fails on draws of one case."""
    found = np.array([fails(np.random.default_rng([run, case.n, case.k]), run) for run in seeds])
    return [
        Level(promise + name, str(case), nominal, float(share), len(seeds))
        for name, share in zip(names, found.mean(axis=0))
    ]


def statistic_levels(case: Case, seeds: range) -> list[Level]:
    """`calibration_test` with every statistic; smooth ECE, which takes long, with few draws of 300 rows."""
    names = [name for name in STATISTICS if name != "smooth_ece" or case.n == 300]

    def rejects(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        kept = {"classes": range(case.k), "groups": groups, "random_state": run}
        draws = {"smooth_ece": 39}
        return [
            calibration_test(y, p, name, n_resamples=draws.get(name, 199), **kept).p_value <= ALPHA for name in names
        ]

    return shares("calibration_test ", case, seeds, ALPHA, rejects, names)


def count_levels(case: Case, seeds: range) -> list[Level]:
    """P-values and intervals of class frequencies, and the smallest p-value of 20 segments."""

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        kept = {"classes": range(case.k), "groups": groups}
        table = calibration_in_the_large(y, p, **kept)
        segments = np.arange(case.n) // GROUP % 20
        by_segment = segment_calibration(y, p, segments, **kept)
        misses = (table.low[-1] > 1) | (table.high[-1] < 1)
        worst = by_segment.p_value.min() * len(by_segment.segments)
        return [table.p_value[-1] <= ALPHA, table.p_value[-1] <= 0.001, bool(misses), worst <= ALPHA]

    names = ["p at 0.05", "p at 0.001", "interval misses", "worst of 20 segments"]
    return [
        level._replace(nominal=0.001) if level.promise.endswith("0.001") else level
        for level in shares("frequencies ", case, seeds, ALPHA, fails, names)
    ]


def slope_levels(case: Case, seeds: range) -> list[Level]:
    """P-values of means and slope, and the interval of the slope; of 300 rows also the p-value of the rest."""
    names = ["means", "slope", *(["rest"] if case.n == 300 else []), "slope interval misses"]

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        after = {} if case.n == 300 else {"recalibrated": p}
        found = miscalibration(y, p, cv=2, classes=range(case.k), groups=groups, **after)
        rejected = [found.parts[name].p_value <= ALPHA for name in names[:-1]]
        return [*rejected, not found.fitted_slope.low <= 1.0 <= found.fitted_slope.high]

    return shares("miscalibration ", case, seeds, ALPHA, fails, names)


def belt_levels(case: Case, seeds: range) -> list[Level]:
    """The p-value of the belt, and whether it as a whole holds the diagonal."""

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        belt = calibration_belt(y, p, classes=range(case.k), groups=groups)
        inside = (belt.low <= belt.score + 1e-12) & (belt.score <= belt.high + 1e-12)
        return [belt.test.p_value <= ALPHA, not inside.all()]

    return shares("belt ", case, seeds, ALPHA, fails, ["p", "misses the diagonal"])


def named_levels(case: Case, seeds: range) -> list[Level]:
    """The tests that have names, and the intervals of Cox's intercept and of the expected-to-observed ratio."""
    names = ["hosmer_lemeshow", "hosmer_lemeshow e-test", "spiegelhalter", "cox_calibration joint"]
    names += ["intercept interval misses", "E:O interval misses"]
    names += ["split_likelihood_ratio"] if case.n == 300 else []

    def fails(rng: np.random.Generator, run: int) -> list[bool]:
        y, p, groups = case.draw(rng)
        kept = {"classes": range(case.k), "groups": groups}
        cox, ratio = cox_calibration(y, p, **kept), expected_observed_ratio(y, p, **kept)
        shift = list(cox.intercepts.values())[-1]
        found = [hosmer_lemeshow(y, p, **kept), hosmer_lemeshow(y, p, e_test=True, random_state=run, **kept)]
        found += [spiegelhalter(y, p, **kept), cox.test]
        misses = [not shift.low <= 0.0 <= shift.high, not ratio.low <= 1.0 <= ratio.high]
        if case.n == 300:
            misses.append(split_likelihood_ratio(y, p, n_splits=1, random_state=run, **kept).p_value <= ALPHA)
        return [*(test.p_value <= ALPHA for test in found), *misses]

    return shares("named ", case, seeds, ALPHA, fails, names)


SIMULATIONS = {
    "calibration_test ": statistic_levels,
    "frequencies ": count_levels,
    "miscalibration ": slope_levels,
    "belt ": belt_levels,
    "named ": named_levels,
}
#: P-values at 0.001 need so many times as many runs, which are fast.
MORE_RUNS = {"frequencies ": 10}


def levels(seeds: range, wanted: Callable[[str, str], bool]) -> Iterator[Level]:
    """Every promise in every case that is wanted."""
    for promise, simulate in SIMULATIONS.items():
        more = range(seeds.start, seeds.start + len(seeds) * MORE_RUNS.get(promise, 1))
        for case in cases():
            if wanted(promise, str(case)):
                yield from simulate(case, more)
