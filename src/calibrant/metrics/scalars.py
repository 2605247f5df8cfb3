"""The scalar metrics of the package by name, and how each is prepared for many sets of counts.

Preparing a metric does the work that does not depend on the counts (sorting, gathering, assigning to bins) and
returns a function of the counts, one for each row. A bootstrap replicate is then one cheap call with the counts of a
resample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper, wraps
from inspect import signature
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.sums import summed_mean
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

Statistic = Callable[[AnyFloatArray], float]
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
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Any] | None = None,
        **options: Any,
    ) -> Returned: ...


@dataclass(frozen=True)
class Scalar:
    """A metric that returns one number.

    `plug_in_bias` marks metrics whose sample value lies above the population's on average (calibration errors are
    distances), which their intervals must correct for; `of_sums` those that are functions of sums over rows, at least
    with their default options; `by_class` those that are means over classes; `unseen` others that outcomes which a
    small sample lacks could change.
    """

    name: str
    function: Callable[..., float]
    prepare: Callable[..., Statistic]
    lower: float
    upper: float
    plug_in_bias: bool
    of_sums: bool
    by_class: bool
    unseen: bool
    description: str

    @property
    def may_miss(self) -> bool:
        """Whether outcomes that a small sample lacks could change the value: all but those of fitted calibrators."""
        return self.of_sums or self.by_class or self.plug_in_bias or self.unseen

    def units(self, data: Sample) -> float:
        """How many independent observations the value rests on.

        For a mean over classes with `m_j` each it is `(Σ 1/m_j)² / Σ 1/m_j³` (Satterthwaite, variances being about
        `1/m_j`): few observations of one class count for little if other classes have many.
        """
        if not self.by_class:
            return data.units
        seen = data.class_counts[data.class_counts > 0] * data.units / data.total
        return float(np.sum(1 / seen) ** 2 / np.sum(1 / seen**3))


SCALARS: dict[str, Scalar] = {}
#: Metrics whose result is a table, by name: what prepares them, as for scalars.
TABLES: dict[str, Callable[..., Callable[[AnyFloatArray], Any]]] = {}


def public(compute: Callable[..., Result], *, grouped: bool = True) -> Metric[Result]:
    """A function of labels and probabilities from one of validated predictions.

    It has the parameters `groups` and `blocks` if the result depends on them: by its intervals or by folds.
    """

    def metric(
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        classes: Sequence[Any] | None = None,
        **options: Any,
    ) -> Result:
        if not grouped and not (groups is None and blocks is None):
            raise TypeError(f"{compute.__name__} has one value whatever the groups are; its interval depends on them")
        data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
        return compute(data, **options)

    shared = signature(metric)
    y_true, y_prob, *common = list(shared.parameters.values())[:-1]
    common = [one for one in common if grouped or one.name not in ("groups", "blocks")]
    options = list(signature(compute).parameters.values())[1:]
    function: Any = update_wrapper(metric, compute)
    function.__signature__ = shared.replace(parameters=[y_true, y_prob, *options, *common])
    return cast("Metric[Result]", limited(describe_parameters(function)))


def _of_all_rows(prepare: Callable[..., Callable[[AnyFloatArray], Result]]) -> Callable[..., Result]:
    """The value with the counts of the sample, from what prepares it for any counts."""

    @wraps(prepare)
    def compute(data: Sample, **options: Any) -> Result:
        return prepare(data, **options)(data.each)

    return compute


def scalar(
    *,
    lower: float = 0.0,
    upper: float = np.inf,
    plug_in_bias: bool = False,
    of_sums: bool = False,
    by_class: bool = False,
    unseen: bool = False,
    grouped: bool = False,
) -> Callable[[Callable[..., Statistic]], Metric[float]]:
    """Turn `prepare(predictions, **options)` into a public metric of labels and probabilities, under its name."""

    def register(prepare: Callable[..., Statistic]) -> Metric[float]:
        function = public(_of_all_rows(prepare), grouped=grouped)
        name, description = prepare.__name__, (prepare.__doc__ or "").strip().splitlines()[0]
        facts = (lower, upper, plug_in_bias, of_sums, by_class, unseen)
        SCALARS[name] = Scalar(name, function, prepare, *facts, description)
        return function

    return register


def table(prepare: Callable[..., Callable[[AnyFloatArray], Result]]) -> Metric[Result]:
    """Turn `prepare(predictions, **options)` into a public function that returns a table, registered by its name."""
    TABLES[prepare.__name__] = prepare
    return public(_of_all_rows(prepare))


def find_scalar(metric: str | Callable[..., float]) -> Scalar | None:
    """Registered metric of that name or function; None for a function of the user's."""
    if callable(metric):
        return next((entry for entry in SCALARS.values() if entry.function is metric), None)
    if metric not in SCALARS:
        raise ValueError(f"unknown metric {metric!r}; there are {', '.join(sorted(SCALARS))}")
    return SCALARS[metric]


def mean_statistic(rows: AnyFloatArray) -> Statistic:
    """Mean of one number per row that depends on other rows, too: its sums cannot be taken in part by part."""
    return summed_mean(rows).__call__
