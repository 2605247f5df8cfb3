"""Metrics of predictions that come in parts, with intervals, in memory that does not grow with their number.

A metric that is a function of sums over rows (see `calibrant.metrics.sums`) is taken in part by part: sums of parts are
added, and the value is computed from them as it is from one table. Intervals come from sums as well. Means have their
standard error. Calibration errors move with `Σ w (hit - score)` over cells of the score: resampling rows with
replacement moves such a sum like a normal variable of variance `Σ w² (hit - score)²` once cells are full, so replicates
of the errors are drawn from the sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrant.inputs.dense import labelled_rows
from calibrant.inputs.words import METRIC
from calibrant.metrics.inputs import Forecasts, check_predictions
from calibrant.metrics.intervals import DEFAULT_METRICS, Estimate, interval
from calibrant.metrics.random import generator
from calibrant.metrics.scalars import SCALARS, TABLES, find_scalar
from calibrant.metrics.sums import Distance, Form, Mean, Summed
from calibrant.threads import limited
from calibrant.typing import FloatArray

if TYPE_CHECKING:
    from typing_extensions import Self

REPLICATES = 200


class Sums:
    """Sums of a metric over the rows taken in so far, and the form that makes them its value."""

    def __init__(self) -> None:
        self._form: Form | None = None
        self._sums: FloatArray = np.zeros(0)
        self._spread: FloatArray = np.zeros(0)

    def add(self, statistic: Summed, weight: Any) -> None:
        """Take in the rows of a prepared statistic."""
        self._add(statistic.form, statistic.sums(weight), statistic.spread(weight))

    def merge(self, other: Sums) -> None:
        """Take in what another has taken in."""
        if other._form is not None:
            self._add(other._form, other._sums, other._spread)

    def _add(self, form: Form, sums: FloatArray, spread: FloatArray) -> None:
        if self._form is None:
            self._form, self._sums, self._spread = form, sums.copy(), spread.copy()
        else:
            self._sums += sums
            self._spread += spread

    def value(self) -> Any:
        """The metric of all rows."""
        if self._form is None:
            raise ValueError("no row was taken in: call update first")
        return self._form.value(self._sums)

    def estimate(self, level: float) -> Estimate:
        """The metric of all rows with its interval."""
        value = self.value()
        if isinstance(self._form, Mean):
            half = float(ndtri((1 + level) / 2)) * self._form.deviation(self._sums, self._spread)
            return Estimate(value, value - half, value + half, level)
        if not isinstance(value, float):
            raise ValueError("a table holds its own intervals: give level= as an option of the metric, not of result")
        form, rng, deviation = cast(Distance, self._form), generator(0), np.sqrt(self._spread)
        moved = [
            form.value(form.moved(self._sums, rng.standard_normal(deviation.shape) * deviation))
            for _ in range(REPLICATES)
        ]
        return interval(value, np.array(moved), level=level, method="corrected", lower=0.0, upper=1.0)


class TakesRows(ABC):
    """What takes in rows part by part: validated here, added up by a subclass."""

    #: The label of every column, once it is known.
    classes: Any

    @limited
    def update(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        axis: int | None = None,
        ignore_index: Any = None,
    ) -> Self:
        """Validate more rows and take them in; the arguments are those of `evaluate`."""
        if axis is not None or ignore_index is not None:
            y_prob, y_true, sample_weight = labelled_rows(
                y_prob, y_true, sample_weight, axis, ignore_index, METRIC, may_be_empty=True
            )
        if len(cast(Any, y_true)):
            data = check_predictions(y_true, y_prob, sample_weight, self.classes)
            self.classes = data.classes
            self.add(data)
        return self

    @abstractmethod
    def add(self, data: Forecasts) -> Self:
        """Take in more rows that have been validated."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Take in what another has taken in."""

    @abstractmethod
    def result(self, level: float | None = None) -> Any:
        """What all rows say, with intervals if there is a level."""


class Running(TakesRows):
    """One metric of rows that arrive in parts, in constant memory.

    The result is that of the function on all rows at once, however they were parted, up to rounding. Parts may be taken
    in by several instances, one per process or Dask partition say, sent as pickles and merged in any order.

    Parameters
    ----------
    metric : str or function
        Name or function of a metric that is a sum over rows or a histogram: `log_loss`, `brier`, `accuracy`,
        `confidence_gap`, `positive_gap`, `ece`, `rms_calibration_error`, `maximum_calibration_error` (all with bins of
        equal width), `smooth_ece`, `reliability_table`, `classwise_reliability_tables`, `calibration_in_the_large`.
    classes : sequence, optional
        The label of every column of `y_prob`. Needed when labels are neither column numbers nor all present in the
        first part.
    **options
        Options of the metric.

    Attributes
    ----------
    rows : int
        Number of rows taken in.

    Examples
    --------
    >>> from calibrant.metrics import Running
    >>> first = Running("ece", n_bins=10).update([0, 1], [0.2, 0.6])
    >>> second = Running("ece", n_bins=10).update([1, 0], [0.9, 0.3])
    >>> round(first.merge(second).result(), 3), first.rows
    (0.25, 4)
    >>> print(first.result(level=0.9))
    0.25 [...]
    """

    def __init__(
        self, metric: str | Callable[..., Any], *, classes: Sequence[Any] | None = None, **options: Any
    ) -> None:
        self.metric = _name(metric)
        self.classes: Any = classes
        self.options = options
        self.rows = 0
        self._sums = Sums()

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Running({self.metric!r}{options}) of {self.rows} rows"

    @limited
    def add(self, data: Forecasts) -> Running:
        """Take in more rows that have been validated."""
        if data.n_rows:
            self._sums.add(_prepare(self.metric, data, self.options), data.weight)
            self.rows += data.n_rows
        return self

    def merge(self, other: Running) -> Running:
        """Take in what another has taken in."""
        if (self.metric, self.options) != (other.metric, other.options):
            raise ValueError(f"{self} and {other} measure different things and cannot be merged")
        self.classes = _same_classes(self.classes, other.classes)
        self._sums.merge(other._sums)
        self.rows += other.rows
        return self

    @limited
    def result(self, level: float | None = None) -> Any:
        """The metric of all rows: a number or a table, or an `Estimate` with an interval at this level."""
        return self._sums.value() if level is None else self._sums.estimate(level)


class RunningMetrics(TakesRows):
    """Several running metrics of the same rows, validated once: `evaluate` for rows that arrive in parts.

    Parameters
    ----------
    metrics : sequence of str, optional
        Names of metrics that are sums or histograms (see `Running`); by default those of `evaluate` that are.
    classes : sequence, optional
        The label of every column of `y_prob`. Needed when labels are neither column numbers nor all present in the
        first part.
    options : mapping, optional
        Options of each metric by its name, such as `{"ece": {"n_bins": 10}}`.

    Examples
    --------
    >>> from calibrant.metrics import RunningMetrics
    >>> first, second = RunningMetrics(), RunningMetrics()
    >>> _ = first.update([0, 1], [[0.8, 0.2], [0.4, 0.6]])
    >>> _ = second.update([1, 0], [[0.1, 0.9], [0.7, 0.3]])
    >>> first.merge(second).rows, round(first.result()["log_loss"], 4)
    (4, 0.299)
    """

    def __init__(
        self,
        metrics: Sequence[str] | None = None,
        *,
        classes: Sequence[Any] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.classes: Any = classes
        metrics = [name for name in DEFAULT_METRICS if SCALARS[name].of_sums] if metrics is None else metrics
        self._metrics = {name: Running(name, **(options or {}).get(name, {})) for name in metrics}

    @property
    def rows(self) -> int:
        """Number of rows taken in."""
        return max((running.rows for running in self._metrics.values()), default=0)

    @limited
    def add(self, data: Forecasts) -> RunningMetrics:
        """Take in more rows that have been validated."""
        for running in self._metrics.values():
            running.add(data)
        return self

    def merge(self, other: RunningMetrics) -> RunningMetrics:
        """Take in what another has taken in."""
        if self._metrics.keys() != other._metrics.keys():
            raise ValueError(f"the metrics {list(self._metrics)} and {list(other._metrics)} cannot be merged")
        self.classes = _same_classes(self.classes, other.classes)
        for name, running in self._metrics.items():
            running.merge(other._metrics[name])
        return self

    @limited
    def result(self, level: float | None = None) -> dict[str, Any]:
        """All metrics by name: numbers, or `Estimate` objects with intervals at this level."""
        return {name: running.result(level) for name, running in self._metrics.items()}


def _name(metric: str | Callable[..., Any]) -> str:
    """The registered name of a metric given by name or as a function."""
    if callable(metric) and getattr(metric, "__name__", "") in TABLES:
        return str(getattr(metric, "__name__", ""))
    if isinstance(metric, str) and metric in TABLES:
        return metric
    entry = find_scalar(metric)
    if entry is None:
        raise ValueError(f"{metric!r} is no metric of this package: there is no telling how its parts add up")
    if not entry.of_sums:
        known = ", ".join(sorted([name for name, other in SCALARS.items() if other.of_sums] + list(TABLES)))
        raise ValueError(f"{entry.name} needs all rows at once; what can be taken in by parts is {known}")
    return entry.name


def _prepare(metric: str, data: Forecasts, options: Mapping[str, Any]) -> Summed:
    prepare = TABLES[metric] if metric in TABLES else SCALARS[metric].prepare
    statistic = prepare(data, **options)
    if not isinstance(statistic, Summed):
        raise ValueError(f"{metric} with {dict(options)} needs all rows at once: bins of equal width do not")
    return statistic


def _same_classes(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if list(first) != list(second):
        raise ValueError(
            f"the parts name their columns {list(first)} and {list(second)}: pass classes= with each column's label"
        )
    return first
