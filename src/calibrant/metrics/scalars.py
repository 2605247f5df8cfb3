"""The scalar metrics of the package by name, and how each is prepared for many sets of weights.

Preparing a metric does the work that does not depend on the weights (sorting, gathering, assigning to bins) and
returns a function of the weights. A bootstrap replicate is then one cheap call with the counts of a resample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from inspect import signature
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.metrics.inputs import check_predictions
from calibrant.metrics.sums import summed_mean
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

Statistic = Callable[["AnyFloatArray | None"], float]
Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)


class Metric(Protocol[Returned]):
    """A metric as it is called."""

    def __call__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        **options: Any,
    ) -> Returned: ...


@dataclass(frozen=True)
class Scalar:
    """A metric that returns one number.

    `plug_in_bias` marks metrics whose sample value lies above the population's on average (calibration errors are
    distances), which their intervals must correct for; `of_sums` those that are functions of sums over rows, at least
    with their default options.
    """

    name: str
    function: Callable[..., float]
    prepare: Callable[..., Statistic]
    lower: float
    upper: float
    plug_in_bias: bool
    greater_is_better: bool
    of_sums: bool
    description: str


SCALARS: dict[str, Scalar] = {}
#: Metrics whose result is a table, by name: what prepares them, as for scalars.
TABLES: dict[str, Callable[..., Callable[[AnyFloatArray | None], Any]]] = {}


def public(prepare: Callable[..., Callable[[AnyFloatArray | None], Result]]) -> Metric[Result]:
    """A function of labels and probabilities from one that prepares validated predictions."""

    def metric(
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        **options: Any,
    ) -> Result:
        data = check_predictions(y_true, y_prob, sample_weight, classes)
        return prepare(data, **options)(data.weight)

    shared = signature(metric)
    y_true, y_prob, *common = list(shared.parameters.values())[:-1]
    options = list(signature(prepare).parameters.values())[1:]
    function: Any = update_wrapper(metric, prepare)
    function.__signature__ = shared.replace(parameters=[y_true, y_prob, *options, *common])
    return cast("Metric[Result]", limited(describe_parameters(function)))


def scalar(
    name: str,
    *,
    lower: float = 0.0,
    upper: float = np.inf,
    plug_in_bias: bool = False,
    greater_is_better: bool = False,
    of_sums: bool = False,
) -> Callable[[Callable[..., Statistic]], Metric[float]]:
    """Turn `prepare(predictions, **options)` into a public metric of labels and probabilities, registered as `name`."""

    def register(prepare: Callable[..., Statistic]) -> Metric[float]:
        function = public(prepare)
        description = (prepare.__doc__ or "").strip().splitlines()[0]
        SCALARS[name] = Scalar(
            name, function, prepare, lower, upper, plug_in_bias, greater_is_better, of_sums, description
        )
        return function

    return register


def table(prepare: Callable[..., Callable[[AnyFloatArray | None], Result]]) -> Metric[Result]:
    """Turn `prepare(predictions, **options)` into a public function that returns a table, registered by its name."""
    TABLES[prepare.__name__] = prepare
    return public(prepare)


def find_scalar(metric: str | Callable[..., float]) -> Scalar | None:
    """Registered metric of that name or function; None for a function of the user's."""
    if callable(metric):
        return next((entry for entry in SCALARS.values() if entry.function is metric), None)
    if metric not in SCALARS:
        raise ValueError(f"unknown metric {metric!r}; there are {', '.join(sorted(SCALARS))}")
    return SCALARS[metric]


def mean_statistic(rows: AnyFloatArray) -> Statistic:
    """Weighted mean of one number per row that depends on other rows, too: its sums cannot be taken in part by part."""
    return summed_mean(rows).__call__
