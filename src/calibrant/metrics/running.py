"""Metrics of predictions that come in parts, with intervals, in memory that does not grow with their number.

A metric that is a function of sums over rows (see `Summed`) is computed part by part: sums of parts are
added, and the value is computed from them as it is from one table. Intervals come from sums as well. Means have their
standard error and Student's t, shares Wilson's interval. Calibration errors move with `Σ c (hit - score)` over cells of
the score: resampling rows with replacement moves such a sum like a normal variable of variance `Σ c (hit - score)²`
once cells are full, so replicates of the errors are drawn from the sums. With groups the replicates are drawn part by
part (see `cell_spread`).

Few rows may lack the outcomes that matter most, which sums cannot tell: rows are kept while they are few, and
intervals are those of `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from calibrant.confidence import independent_trials, wilson_interval
from calibrant.docs import describe_parameters
from calibrant.inputs.dense import labelled_rows
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import METRIC
from calibrant.metrics.intervals import DEFAULT_METRICS, estimates, interval, too_few
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import (
    SCALARS,
    TABLES,
    Form,
    Scalar,
    Summed,
    find_scalar,
    moved_values,
)
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import FloatArray, Label

#: Numbers (rows × classes) that are kept, so that intervals of few rows are those of `evaluate`, and its resamples.
KEPT_ENTRIES = 40_000
RESAMPLES = 1000


class Sums:
    """Sums of a metric over the rows added so far, and the form that makes them its value."""

    def __init__(self) -> None:
        self.form: Form | None = None
        #: Sums of the value; what they vary by; and replicates of how far groups move them.
        self._sums: dict[str, FloatArray] = {}

    def add(self, statistic: Summed, data: Sample) -> None:
        """Take in the rows of a prepared statistic."""
        self._add(statistic.form, {"value": statistic.sums(data.each), **statistic.named_spread(data)})

    def merge(self, other: Sums) -> None:
        """Add the rows of another."""
        if other.form is not None:
            self._add(other.form, other._sums)

    def _add(self, form: Form, sums: Mapping[str, FloatArray]) -> None:
        self.form = form
        for name, part in sums.items():
            self._sums[name] = self._sums[name] + part if name in self._sums else part

    def value(self) -> Any:
        """The metric of all rows."""
        if self.form is None:
            raise ValueError("there are no rows yet: call update first")
        return self.form.value(self._sums["value"])

    def estimate(self, level: float, entry: Scalar | None = None) -> Estimate:
        """The metric of all rows with its interval, inside the range of possible values."""
        value, sums = self.value(), self._sums["value"]
        lower, upper = (-np.inf, np.inf) if entry is None else (entry.lower, entry.upper)
        assert self.form is not None
        if self.form.kind in ("mean", "frequency"):
            spread = self._sums["variance"]
            units = float(sums[0] ** 2 / spread[0])
            if too_few(units):
                return Estimate(value, float("nan"), float("nan"), level)
            if self.form.kind == "frequency":
                trials = independent_trials(sums[1:] / sums[0], sums[:1], spread[:, None])
                low, high = (float(end[0]) for end in wilson_interval(sums[1:] / sums[0], trials, level))
            else:
                # The standard error of the mean: `√(Σ (S - m W)²) / N` over units.
                variance = max(spread[2] - 2 * value * spread[1] + value**2 * spread[0], 0.0) * units / (units - 1)
                half = float(stdtrit(units - 1, (1 + level) / 2) * np.sqrt(variance) / sums[0])
                low, high = value - half, value + half
            return Estimate(value, max(low, lower), min(high, upper), level)
        if not isinstance(value, float):
            raise ValueError("a table has its own intervals: give level= as an option of the metric, not of result")
        moved = moved_values(self.form, sums, self._sums, generator(0))
        return interval(value, moved, level=level, kind="corrected", lower=0.0, upper=1.0)


def refuse_blocks(blocks: int | None) -> None:
    """Places of dense outputs have no order in which they could be consecutive."""
    if blocks is not None:
        raise ValueError("blocks are consecutive rows; for dense outputs give groups in the shape of the labels")


class RunningMetrics:
    """Several metrics of rows that arrive in parts, validated once and in constant memory: `evaluate` part by part.

    The result is that of the functions on all rows at once, however they were parted, up to rounding. Parts may be
    added to several instances, one per process or Dask partition say, sent as pickles and merged in any order.

    Parameters
    ----------
    metrics : sequence of str, optional
        Names of metrics that are sums or histograms (see `Running`); by default those of `evaluate` that are.
    classes : sequence, optional
        The label of every column of `y_prob`. Needed when labels are neither column numbers nor all present in the
        first part.
    options : mapping, optional
        Options of each metric by its name, such as `{"ece": {"n_bins": 10}}`.

    Attributes
    ----------
    rows : int
        Number of rows added so far.

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
        classes: Sequence[object] | None = None,
        options: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self.classes: Any = classes
        self.rows = 0
        metrics = [name for name in DEFAULT_METRICS if SCALARS[name].of_sums] if metrics is None else metrics
        self._options = {_name(metric): dict((options or {}).get(metric, {})) for metric in metrics}
        self._sums = {name: Sums() for name in self._options}
        #: The rows themselves while they are few, and the groups of the last part.
        self._kept: list[Sample] | None = []
        self._last_groups: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self._options} of {self.rows} rows"

    @limited
    def update(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: object = None,
        blocks: int | None = None,
        axis: int | None = None,
        ignore_index: Label = None,
    ) -> Self:
        """Validate more rows and take them in; the arguments are those of `evaluate`.

        All rows of a group must come in one part, else they would count as several independent groups. A group that
        is met again in the next part is an error.
        """
        if groups is not None:
            here = frozenset(np.unique(np.asarray(groups).astype(str)).tolist())
            if again := here & self._last_groups:
                raise ValueError(f"group {min(again)!r} is in two parts: all rows of a group must be in one update")
            self._last_groups = here
        if axis is not None or ignore_index is not None:
            refuse_blocks(blocks)
            beside = {"sample_weight": sample_weight, "groups": groups}
            y_prob, y_true, sample_weight, groups = labelled_rows(
                y_prob, y_true, axis, ignore_index, METRIC, may_be_empty=True, **beside
            )
        if len(cast(Any, y_true)):
            data = check_sample(y_true, y_prob, sample_weight, self.classes, groups=groups, blocks=blocks)
            self.classes = data.classes
            self.add(data)
        return self

    @limited
    def add(self, data: Sample) -> Self:
        """Take in more rows that have been validated."""
        if data.n_rows:
            for name, options in self._options.items():
                self._sums[name].add(_prepare(name, data, options), data)
            self.rows += data.n_rows
            self._keep([data])
        return self

    def merge(self, other: Self) -> Self:
        """Add the rows of another."""
        if self._options != other._options:
            raise ValueError(f"{self} and {other} measure different things and cannot be merged")
        self.classes = _same_classes(self.classes, other.classes)
        for name, sums in self._sums.items():
            sums.merge(other._sums[name])
        self.rows += other.rows
        self._keep(other._kept)
        return self

    def _keep(self, parts: list[Sample] | None) -> None:
        """Keep the rows of numbers while they are few: their intervals have to allow for what they lack."""
        kept = None if self._kept is None or parts is None else [*self._kept, *parts]
        few = kept is not None and sum(part.values.size for part in kept) <= KEPT_ENTRIES
        self._kept = kept if few and any(name in SCALARS for name in self._options) else None

    @limited
    def result(self, level: float | None = None) -> Any:
        """All metrics by name: numbers or tables, or `Estimate` objects with intervals at this level."""
        if level is None:
            return {name: sums.value() for name, sums in self._sums.items()}
        # Wilson's interval of a frequency allows for what was not seen; that of other numbers needs the rows.
        forms = {name: sums.form for name, sums in self._sums.items() if name in SCALARS}
        names = [name for name, form in forms.items() if form is not None and form.kind != "frequency"]
        found: dict[str, Estimate] = {}
        if self._kept and names:
            wanted = [(SCALARS[name], self._options[name]) for name in names]
            found = dict(zip(names, estimates(wanted, Sample.joined(self._kept), level, RESAMPLES, 0)))
        return {
            name: found[name] if name in found else sums.estimate(level, SCALARS.get(name))
            for name, sums in self._sums.items()
        }


@describe_parameters
class Running(RunningMetrics):
    """One metric of rows that arrive in parts, in constant memory; see `RunningMetrics`.

    Parameters
    ----------
    metric : str or function
        Name or function of a metric that is a sum over rows or a histogram: `log_loss`, `brier`, `accuracy`,
        `confidence_gap`, `positive_gap`, `ece`, `rms_calibration_error`, `maximum_calibration_error` (all with bins of
        equal width), `smooth_ece`, `reliability_table`, `classwise_reliability_tables`, `calibration_in_the_large`.
    **options
        Options of the metric.

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
        self, metric: str | Callable[..., Any], *, classes: Sequence[Label] | None = None, **options: object
    ) -> None:
        self.metric = _name(metric)
        super().__init__([self.metric], classes=classes, options={self.metric: options})

    def result(self, level: float | None = None) -> Any:
        """The metric of all rows: a number or a table, or an `Estimate` with an interval at this level."""
        return super().result(level)[self.metric]


def _name(metric: str | Callable[..., Any]) -> str:
    """The registered name of a metric given by name or as a function."""
    name = metric if isinstance(metric, str) else str(getattr(metric, "__name__", ""))
    if name in TABLES:
        return name
    entry = find_scalar(metric)
    if entry is None:
        raise ValueError(f"{metric!r} is not a metric of this package, so its parts cannot be combined")
    if not entry.of_sums:
        known = ", ".join(sorted([name for name, other in SCALARS.items() if other.of_sums] + list(TABLES)))
        raise ValueError(f"{entry.name} needs all rows at once; metrics that can be updated in parts are {known}")
    return entry.name


def _prepare(metric: str, data: Sample, options: Mapping[str, object]) -> Summed:
    prepare = TABLES[metric] if metric in TABLES else SCALARS[metric].prepare
    statistic = prepare(data, **options)
    if not isinstance(statistic, Summed):
        raise ValueError(f"{metric} with {dict(options)} needs all rows at once; bins of equal width do not")
    return statistic


def _same_classes(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if list(first) != list(second):
        raise ValueError(
            f"the parts name their columns {list(first)} and {list(second)}: pass classes= with each column's label"
        )
    return first
