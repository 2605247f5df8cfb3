"""The scalar metrics of the package by name, and how each is prepared for many sets of weights.

Preparing a metric does the work that does not depend on the weights (sorting, gathering, assigning to bins) and
returns a function of the weights. A bootstrap replicate is then one cheap call with the counts of a resample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

Statistic = Callable[["AnyFloatArray | None"], float]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Scalar:
    """A metric that returns one number.

    `plug_in_bias` marks metrics whose sample value lies above the population's on average (calibration errors are
    distances), which their intervals must correct for.
    """

    name: str
    function: Callable[..., float]
    prepare: Callable[..., Statistic]
    lower: float
    upper: float
    plug_in_bias: bool
    greater_is_better: bool
    description: str


SCALARS: dict[str, Scalar] = {}


def scalar(
    name: str,
    prepare: Callable[..., Statistic],
    *,
    lower: float = 0.0,
    upper: float = np.inf,
    plug_in_bias: bool = False,
    greater_is_better: bool = False,
) -> Callable[[Function], Function]:
    """Register a public function as the scalar metric `name`, prepared by `prepare(predictions, **options)`."""

    def register(function: Function) -> Function:
        function = limited(function)
        description = (function.__doc__ or "").strip().splitlines()[0]
        SCALARS[name] = Scalar(name, function, prepare, lower, upper, plug_in_bias, greater_is_better, description)
        return function

    return register


def find_scalar(metric: str | Callable[..., float]) -> Scalar | None:
    """Registered metric of that name or function; None for a function of the user's."""
    if callable(metric):
        return next((entry for entry in SCALARS.values() if entry.function is metric), None)
    if metric not in SCALARS:
        raise ValueError(f"unknown metric {metric!r}; there are {', '.join(sorted(SCALARS))}")
    return SCALARS[metric]


def mean_statistic(rows: AnyFloatArray) -> Statistic:
    """Weighted mean of one number a row."""

    def mean(weight: AnyFloatArray | None) -> float:
        if weight is None:
            return float(rows.mean(dtype=np.float64))
        return float(weight @ rows / weight.sum())

    return mean
