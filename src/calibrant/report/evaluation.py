"""Metrics of a table of predictions, overall and by group, in one reading.

Rows are kept up to a size that leaves memory free, and then all metrics and a test of calibration are computed from
them. What is a sum is taken in chunk by chunk from larger tables, and from groups; what needs all rows at once is then
that of a uniform sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.calibrators.streaming import Reservoir
from calibrant.files.tables.columns import ProbabilityColumns
from calibrant.files.tables.rows import Labelled, RowReader, Rows, as_probabilities
from calibrant.files.tables.table import TableError
from calibrant.metrics import calibration_test, evaluate
from calibrant.metrics.hypothesis import CalibrationTest
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.running import RunningMetrics
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

#: Numbers (rows × classes) up to which all rows are kept. What needs all of them at once takes a uniform sample of
#: this size from a larger table, or so many rows if the classes are many, unless these would hold too many numbers.
MEMORY_CELLS = 2_000_000
SAMPLE_ROWS = 5_000
MOST_SAMPLED = 5_000_000
#: Numbers up to which intervals come from the bootstrap; above, normal intervals are as good and far cheaper.
BOOTSTRAP_CELLS = 50_000
METRICS = ("log_loss", "brier", "accuracy", "auroc", "positive_gap", "confidence_gap", "ece", "smooth_ece")
#: Groups whose metrics are computed; a column with more of them is hardly one of groups.
MOST_GROUPS = 1000


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a table; values are `Estimate`s, whose intervals are NaN unless asked for.

    `sampled` names the metrics that are, as the test is, of a sample of so many rows only; it is empty if none are.
    """

    rows: int
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    metrics: dict[str, Estimate]
    test: CalibrationTest | None
    in_chunks: bool
    groups: dict[str, Evaluation] = field(default_factory=dict)
    sampled: tuple[tuple[str, ...], int] = ((), 0)


def metric_names(n_classes: int) -> list[str]:
    """The metrics of so many classes: for two the means are judged by the second one, for more by the confidence.

    Examples
    --------
    >>> metric_names(2)
    ['log_loss', 'brier', 'accuracy', 'auroc', 'positive_gap', 'ece', 'smooth_ece']
    """
    return [name for name in METRICS if name != ("confidence_gap" if n_classes == 2 else "positive_gap")]


def sample_rows(n_classes: int) -> int:
    """Rows of a table with so many classes that are kept for what needs them all at once.

    Examples
    --------
    >>> sample_rows(10), sample_rows(1000), sample_rows(50_000)
    (200000, 5000, 100)
    """
    return max(1, min(max(MEMORY_CELLS, SAMPLE_ROWS * n_classes), MOST_SAMPLED) // n_classes)


def running_names(n_classes: int) -> list[str]:
    """The metrics of `metric_names` that can be taken in chunk by chunk."""
    return [name for name in metric_names(n_classes) if name != "auroc"]


def omnibus_test(data: Forecasts) -> CalibrationTest:
    """The score test of calibration, with as many draws of labels as the size allows."""
    draws = int(np.clip(200_000_000 // max(data.proba.size, 1), 199, 999))
    classes = data.classes.tolist()
    return calibration_test(
        data.y, data.proba, "omnibus", n_resamples=draws, sample_weight=data.weight, classes=classes
    )


@limited
def evaluate_table(reader: RowReader, *, level: float | None = None, progress: Any = iter) -> Evaluation:
    """Metrics of all usable rows of a table.

    Parameters
    ----------
    reader : RowReader
        With a label column, and a group column if metrics by group are wanted.
    level : float, optional
        Confidence level of intervals.
    progress : callable, optional
        Wraps the iteration over chunks.
    """
    columns = reader.find()
    running: dict[str | None, RunningMetrics] = {}
    sample = Reservoir(sample_rows(len(columns.classes)), seed=0)
    for part, group in _parts(progress(reader.read(columns)), reader):
        take_in(running, part, group)
        sample.add([part.proba, part.y, *([] if part.weight is None else [part.weight])])
    if not sample.seen:
        raise TableError(f"{reader.table.name} has no usable rows")
    proba, y, *weight = sample.take()
    data = Forecasts(proba, y, weight[0] if weight else None, np.arange(proba.shape[1]))
    found, names = _from_sums(running, columns, level), metric_names(data.n_classes)
    if data.n_rows == sample.seen:
        return replace(found, metrics=metrics_in_memory(data, level, names), test=omnibus_test(data), in_chunks=False)
    whole = [name for name in names if name not in found.metrics]
    metrics = {**metrics_in_memory(data, level, whole), **found.metrics}
    metrics = {name: metrics[name] for name in names}
    return replace(found, metrics=metrics, test=omnibus_test(data), sampled=(tuple(whole), data.n_rows))


def _parts(chunks: Iterable[Rows], reader: RowReader) -> Iterator[tuple[Forecasts, Any]]:
    for rows in chunks:
        part, group = as_predictions(as_probabilities(rows.values, reader.layout), rows)
        if part.n_rows:
            yield part, group


def as_predictions(proba: AnyFloatArray, rows: Rows | Labelled) -> tuple[Forecasts, Any]:
    """Rows of a table as predictions, and their groups; rows of no weight are absent."""
    assert rows.codes is not None
    proba, group = np.ascontiguousarray(proba), rows.group
    data = Forecasts(proba, rows.codes, rows.weight, np.arange(proba.shape[1]))
    if rows.weight is None or rows.weight.all():
        return data, group
    present = rows.weight > 0
    return data.take(present), None if group is None else group[present]


def take_in(
    running: dict[str | None, RunningMetrics], part: Forecasts, group: Any, names: Sequence[str] | None = None
) -> None:
    """Add rows to the metrics of all rows, under None, and to those of their groups."""
    names = running_names(part.n_classes) if names is None else names
    running.setdefault(None, RunningMetrics(names)).add(part)
    if group is not None:
        # Smooth ECE takes time and needs more rows than most groups have.
        few = [name for name in names if name != "smooth_ece"]
        for name, rows in split_groups(group):
            running.setdefault(name, RunningMetrics(few)).add(part.take(rows))
            if len(running) > MOST_GROUPS:
                raise TableError(
                    f"there are more than {MOST_GROUPS} groups; the column of groups should hold a few segments"
                )


def split_groups(group: Any) -> list[tuple[str, Any]]:
    """Names of the groups with the positions of their rows, sorted by name; missing ones are called `(none)`."""
    names = np.array(["(none)" if name in (None, "") else name for name in group], dtype=object)
    found, codes = np.unique(names.astype(str), return_inverse=True)
    if len(found) > MOST_GROUPS:
        raise TableError(f"there are more than {MOST_GROUPS} groups; the column of groups should hold a few segments")
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    return [(str(name), rows) for name, rows in zip(found, np.split(order, ends[:-1]))]


def _from_sums(
    running: dict[str | None, RunningMetrics], columns: ProbabilityColumns, level: float | None
) -> Evaluation:
    whole = running.pop(None)

    def one(metrics: RunningMetrics, groups: dict[str, Evaluation]) -> Evaluation:
        found = metrics.result(level)
        estimates = {name: _plain(value) for name, value in found.items()} if level is None else found
        return Evaluation(metrics.rows, columns.classes, columns.names, estimates, None, True, groups)

    return one(
        whole, {str(name): one(part, {}) for name, part in sorted(running.items(), key=lambda item: str(item[0]))}
    )


def metrics_in_memory(data: Forecasts, level: float | None, names: Sequence[str]) -> dict[str, Estimate]:
    """All metrics of rows in memory, with intervals by the bootstrap while that is affordable."""
    wanted: dict[str, Any] = {"sample_weight": data.weight, "classes": data.classes.tolist()}
    values = evaluate(data.y, data.proba, names, **wanted)
    if level is None:
        return {name: _plain(value) for name, value in values.items()}
    running = RunningMetrics([name for name in running_names(data.n_classes) if name in names])
    found = {**{name: _plain(value) for name, value in values.items()}, **running.add(data).result(level)}
    if data.proba.size <= BOOTSTRAP_CELLS:
        # A replicate of smooth ECE costs as much as all others together, and its cells give the same interval.
        resampled = [name for name in names if name != "smooth_ece"]
        found.update(evaluate(data.y, data.proba, resampled, level=level, **wanted))
    return {name: found[name] for name in names}


def _plain(value: float) -> Estimate:
    return Estimate(value, float("nan"), float("nan"), float("nan"))
