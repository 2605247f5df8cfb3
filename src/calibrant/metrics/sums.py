"""Statistics that are functions of sums over rows, so that rows may be taken in part by part and in any order.

A prepared statistic of this kind gives its sums for any counts, and a *form* turns sums into the value. The functions
on arrays and their running forms share both: a value is `form.value(sums)` whether the sums come from one table or
from a thousand parts. `spread` gives further sums, from which intervals come without resampling of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

#: Times that a distance is moved for its interval.
REPLICATES = 200


class Form(Protocol):
    """What turns sums over rows into a result; it holds options and no rows, and can be pickled."""

    def value(self, sums: FloatArray) -> Any: ...


class Distance(Protocol):
    """A form whose value is a distance between what was expected and what was observed."""

    def value(self, sums: FloatArray) -> float: ...

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        """The sums after the observed ones have moved, by as many numbers as `spread` has."""


class Summed:
    """A statistic of counts that is a function of sums over rows."""

    def __init__(
        self, form: Form, sums: Callable[[AnyFloatArray], FloatArray], spread: Callable[[Sample], FloatArray]
    ) -> None:
        self.form = form
        self.sums = sums
        self.spread = spread

    def __call__(self, counts: AnyFloatArray) -> Any:
        return self.form.value(self.sums(counts))

    def named_spread(self, data: Sample) -> dict[str, FloatArray]:
        """What the sums vary by, by what it is: variances, or moves of groups (see `cell_spread`)."""
        moves = data.groups is not None and not isinstance(self.form, Mean)
        return {"moves" if moves else "variance": self.spread(data)}


def no_spread(data: Sample) -> FloatArray:
    """The further sums of results that bring their own intervals."""
    return np.empty(0)


def moved_values(
    form: Distance,
    sums: FloatArray,
    spread: Mapping[str, FloatArray],
    rng: np.random.Generator,
    n: int = REPLICATES,
    unseen: Callable[[], FloatArray | float] = lambda: 0.0,
) -> FloatArray:
    """Values of a distance after its sums have moved at random, from variances of cells and moves of groups.

    `unseen` draws the sums over outcomes that may not have been seen, which have shown no variance.
    """
    n = min(n, REPLICATES)
    moves = spread.get("moves", np.zeros(1))[:n]
    if "variance" in spread:
        deviation = np.sqrt(spread["variance"])
        moves = moves + rng.standard_normal((n, *deviation.shape)) * deviation
    return np.array([form.value(form.moved(sums + unseen(), by)) for by in moves])


class Mean:
    """A mean: `N = Σ c` and `Σ c x`, with what its standard error is made of.

    That is `Σ W²`, `Σ W S` and `Σ S²` over independent units, with `W` the number of observations of a unit and `S`
    the sum of their `x`. A unit is a group, or a single observation where there are no groups.

    Examples
    --------
    >>> mean = summed_mean(np.array([1.0, 2.0, 6.0]))
    >>> mean(np.ones(3)), mean(np.array([1.0, 1.0, 0.0]))
    (3.0, 1.5)
    """

    def value(self, sums: FloatArray) -> float:
        return float(sums[1] / sums[0])

    def deviation(self, sums: FloatArray, spread: FloatArray) -> float:
        """Standard error of the mean: `√(Σ (S - m W)²) / N` over units."""
        mean = self.value(sums)
        variance = spread[2] - 2 * mean * spread[1] + mean**2 * spread[0]
        return float(np.sqrt(max(variance, 0.0)) / sums[0])


class Frequency(Mean):
    """A mean of zeros and ones."""


def summed_mean(rows: AnyFloatArray, form: type[Mean] = Mean) -> Summed:
    """Mean of one number per row."""

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.array([counts.sum(), counts @ rows], dtype=np.float64)

    def spread(data: Sample) -> FloatArray:
        counts = data.each
        if data.groups is None:
            return np.array([*sums(counts), counts @ rows**2], dtype=np.float64)
        size, total = data.group_sums(counts), data.group_sums(counts * rows)
        return np.array([size @ size, size @ total, total @ total])

    return Summed(form(), sums, spread)


@dataclass(frozen=True)
class OverClasses:
    """The same distance for every class against the rest, combined to one."""

    of_class: Distance
    combine: Callable[[AnyFloatArray], float]

    def value(self, sums: FloatArray) -> float:
        return float(self.combine(np.array([self.of_class.value(part) for part in sums])))

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        return np.stack([self.of_class.moved(part, step) for part, step in zip(sums, by)])


def cell_spread(data: Sample, values: AnyFloatArray, cells: Callable[[AnyFloatArray], FloatArray]) -> FloatArray:
    """How far sums of `c · values` over cells move when the sample is drawn anew.

    Without groups the cells move independently of each other, with the variances `Σ c values²`. A group moves all cells
    that it has rows in at once: its rows are multiplied by a common standard normal variable, `REPLICATES` times, and
    these moves are kept as rows of a matrix. They add up over parts as variances do.
    """
    if data.groups is None:
        return cells(data.each * values**2)
    weighed = data.each * values
    # The seed depends on the rows, so that parts move independently of each other.
    rng = np.random.default_rng(np.frombuffer(weighed[:64].tobytes(), dtype=np.uint32))
    return np.stack(
        [cells(weighed * rng.standard_normal(data.n_groups)[data.group_numbers]) for _ in range(REPLICATES)]
    )
