"""Statistics that are functions of sums over rows, so that rows may be taken in part by part and in any order.

A prepared statistic of this kind gives its sums for any weights, and a *form* turns sums into the value. The functions
on arrays and their running forms share both: a value is `form.value(sums)` whether the sums come from one table or
from a thousand parts. `spread` gives further sums, from which intervals come without resampling of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calibrant.typing import AnyFloatArray, FloatArray

OfWeights = Callable[["AnyFloatArray | None"], FloatArray]


class Form(Protocol):
    """What turns sums over rows into a result; it holds options and no rows, and can be pickled."""

    def value(self, sums: FloatArray) -> Any: ...


class Distance(Protocol):
    """A form whose value is a distance between what was expected and what was observed."""

    def value(self, sums: FloatArray) -> float: ...

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        """The sums after the observed ones have moved, by as many numbers as `spread` has."""


class Summed:
    """A statistic of weights that is a function of sums over rows."""

    def __init__(self, form: Form, sums: OfWeights, spread: OfWeights) -> None:
        self.form = form
        self.sums = sums
        self.spread = spread

    def __call__(self, weight: AnyFloatArray | None) -> Any:
        return self.form.value(self.sums(weight))


def no_spread(weight: AnyFloatArray | None) -> FloatArray:
    """The further sums of results that bring their own intervals."""
    return np.empty(0)


class Mean:
    """A weighted mean: `Σw` and `Σwx`, with `Σw²`, `Σw²x` and `Σw²x²` for its standard error.

    Examples
    --------
    >>> mean = summed_mean(np.array([1.0, 2.0, 6.0]))
    >>> mean(None), mean(np.array([1.0, 1.0, 0.0]))
    (3.0, 1.5)
    """

    def value(self, sums: FloatArray) -> float:
        return float(sums[1] / sums[0])

    def deviation(self, sums: FloatArray, spread: FloatArray) -> float:
        """Standard error of the mean, whatever the weights mean (the sandwich)."""
        mean = self.value(sums)
        variance = spread[2] - 2 * mean * spread[1] + mean**2 * spread[0]
        return float(np.sqrt(max(variance, 0.0)) / sums[0])


def summed_mean(rows: AnyFloatArray) -> Summed:
    """Weighted mean of one number per row."""

    def sums(weight: AnyFloatArray | None) -> FloatArray:
        if weight is None:
            return np.array([len(rows), rows.sum(dtype=np.float64)])
        return np.array([weight.sum(), weight @ rows], dtype=np.float64)

    def spread(weight: AnyFloatArray | None) -> FloatArray:
        squared = np.ones(len(rows)) if weight is None else weight**2
        return np.array([squared.sum(), squared @ rows, squared @ rows**2], dtype=np.float64)

    return Summed(Mean(), sums, spread)


@dataclass(frozen=True)
class OverClasses:
    """The same distance for every class against the rest, combined to one."""

    of_class: Distance
    combine: Callable[[AnyFloatArray], float]

    def value(self, sums: FloatArray) -> float:
        return float(self.combine(np.array([self.of_class.value(part) for part in sums])))

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        return np.stack([self.of_class.moved(part, step) for part, step in zip(sums, by)])
