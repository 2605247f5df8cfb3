"""Metrics of a table of predictions, overall and by segment, in one reading.

Rows are kept up to a size that leaves memory free, and then all metrics and a test of calibration are computed from
them. What is a sum is taken in chunk by chunk from larger tables, and from segments; what needs all rows at once is
then that of a uniform sample, of whole groups where rows belong together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.row_checks import TableRows
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import ValidationTable, calibration_test, confidence_interval, validation_table
from calibrant.metrics import evaluate as metrics_of
from calibrant.metrics.result_types import CalibrationTest, Estimate
from calibrant.metrics.running import RunningMetrics
from calibrant.sample import Sample, Size
from calibrant.threads import limited

#: Numbers (rows × classes) up to which all rows are kept. What needs all of them at once takes a uniform sample of
#: this size from a larger table, or so many rows if the classes are many, unless these would hold too many numbers.
MEMORY_CELLS = 2_000_000
SAMPLE_ROWS = 5_000
MOST_SAMPLED = 5_000_000
#: Numbers up to which intervals come from the bootstrap; above, normal intervals are as good and far cheaper.
BOOTSTRAP_CELLS = 50_000
METRICS = ("log_loss", "brier", "accuracy", "auroc", "positive_gap", "confidence_gap", "ece", "smooth_ece")
#: Segments whose metrics are computed; a column with more of them is hardly one of segments.
MOST_SEGMENTS = 1000


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a table; values are `Estimate`s, whose intervals are NaN unless asked for.

    `sampled` names the metrics that are, as the test is, of a sample of such a size only; the size is None if none are.
    """

    size: Size
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    metrics: dict[str, Estimate]
    test: CalibrationTest | None
    in_chunks: bool
    segments: dict[str, Evaluation] = field(default_factory=dict)
    sampled: tuple[tuple[str, ...], Size | None] = ((), None)


class Taken:
    """Metrics of rows that are taken in chunk by chunk, and how many these are."""

    def __init__(self, names: Sequence[str]) -> None:
        self.metrics = RunningMetrics(names)
        self._rows, self._total = 0, 0.0
        self._counted, self._groups = False, None

    _groups: NDArray[Any] | None

    def add(self, part: Sample) -> None:
        """Take in more rows."""
        self.metrics.add(part)
        self._rows += part.size.rows
        self._total += part.total
        self._counted |= part.counts is not None
        if part.groups is not None:
            self._groups = np.unique(part.groups if self._groups is None else np.append(self._groups, part.groups))

    @property
    def size(self) -> Size:
        """How much was taken in."""
        groups = None if self._groups is None else len(self._groups)
        return Size(self._rows, self._total if self._counted else None, groups)


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


def omnibus_test(data: Sample, cells: int = 200_000_000) -> CalibrationTest:
    """The score test of calibration, with as many draws of labels as `cells`, rows × classes × draws, allow."""
    draws = int(np.clip(cells // max(data.proba.size, 1), 199, 999))
    return calibration_test(data.y, data.proba, "omnibus", n_resamples=draws, **given(data))


def given(data: Sample) -> dict[str, Any]:
    """What the functions of `calibrant.metrics` are told of a sample beside labels and probabilities."""
    grouped = {} if data.groups is None else {"groups": data.groups}
    return {"sample_weight": data.counts, "classes": data.names, **grouped}


@limited
def evaluate(reader: RowReader, *, level: float | None = None, progress: Any = iter) -> Evaluation:
    """Metrics of all usable rows of a table.

    Parameters
    ----------
    reader : RowReader
        With a label column, columns of segments if metrics by segment are wanted, and of groups if there are any.
    level : float, optional
        Confidence level of intervals. With groups these are as wide as those of the groups that are kept in memory.
    progress : callable, optional
        Wraps the iteration over chunks.
    """
    taken: dict[str | None, Taken] = {}
    rows, data, texts = read_sample(reader, lambda part, segments: take_in(taken, part, segments), progress)
    parts = {} if texts is None else dict(split_segments(texts))
    found = {
        name: Evaluation(
            entry.size,
            rows.classes,
            rows.columns,
            from_sums(entry.metrics, data if name is None else data.take(parts.get(name, np.arange(0))), level),
            None,
            True,
        )
        for name, entry in sorted(taken.items(), key=lambda item: str(item[0] or ""))
    }
    whole = replace(found.pop(None), segments={str(name): entry for name, entry in found.items()})
    names = metric_names(data.n_classes)
    if not rows.sampled:
        return replace(whole, metrics=metrics_in_memory(data, level, names), test=omnibus_test(data), in_chunks=False)
    from_sample = [name for name in names if name not in whole.metrics]
    metrics = {**metrics_in_memory(data, level, from_sample), **whole.metrics}
    metrics = {name: metrics[name] for name in names}
    return replace(whole, metrics=metrics, test=omnibus_test(data), sampled=(tuple(from_sample), data.size))


@limited
def validate(reader: RowReader, *, level: float = 0.95, ordered: bool = False, progress: Any = iter) -> ValidationTable:
    """All named tests and measures of a table; of a large one those of a uniform sample."""
    rows, data, _ = read_sample(reader, lambda part, segments: None, progress)
    kept = {**given(data), "classes": list(rows.classes)}
    return validation_table(np.array(rows.classes)[data.y], data.proba, level=level, ordered=ordered, **kept)


def read_sample(
    reader: RowReader, take: Callable[[Sample, Any], None], progress: Any = iter
) -> tuple[TableRows, Sample, Any]:
    """Read a labelled table once: the rows to keep, as a sample with the segment of each.

    `take` is given every chunk as such a sample, with its segments. Of a large table a uniform sample is kept.
    """

    def watched(chunks: Iterator[TableRows]) -> Iterator[TableRows]:
        for rows in progress(chunks):
            part, segments = rows.sample(reader.layout)
            if part.n_rows:
                take(part, segments)
            yield rows

    rows = read_all(reader, sample_rows, through=watched)
    data, texts = rows.sample(reader.layout)
    if not data.n_rows:
        raise TableError(f"{reader.table.name} has no usable rows: all weights are zero")
    return rows, data, texts


def take_in(taken: dict[str | None, Taken], part: Sample, segments: Any, names: Sequence[str] | None = None) -> None:
    """Add rows to the metrics of all rows, under None, and to those of their segments."""
    names = running_names(part.n_classes) if names is None else names
    taken.setdefault(None, Taken(names)).add(part)
    if segments is not None:
        # Smooth ECE takes time and needs more rows than most segments have.
        few = [name for name in names if name != "smooth_ece"]
        for name, rows in split_segments(segments):
            taken.setdefault(name, Taken(few)).add(part.take(rows))
            if len(taken) > MOST_SEGMENTS:
                raise _too_many()


def split_segments(segments: Any) -> list[tuple[str, Any]]:
    """Names of the segments with the positions of their rows, sorted by name; missing ones are called `(none)`."""
    names = np.array(["(none)" if name in (None, "") else name for name in segments], dtype=object)
    found, codes = np.unique(names.astype(str), return_inverse=True)
    if len(found) > MOST_SEGMENTS:
        raise _too_many()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    return [(str(name), rows) for name, rows in zip(found, np.split(order, ends[:-1]))]


def _too_many() -> TableError:
    return TableError(f"there are more than {MOST_SEGMENTS} different segments; is this a column of segments?")


def from_sums(metrics: RunningMetrics, sample: Sample, level: float | None) -> dict[str, Estimate]:
    """The metrics of all rows; where rows belong together, their intervals are as wide as those of the sample."""
    if level is not None and sample.groups is None:
        return metrics.result(level)
    values: dict[str, float] = metrics.result()
    if level is None or not sample.n_rows:
        return {name: _plain(value) for name, value in values.items()}
    kept = metrics_in_memory(sample, level, list(values))
    return {
        name: Estimate(
            value, value + kept[name].low - kept[name].value, value + kept[name].high - kept[name].value, level
        )
        for name, value in values.items()
    }


def metrics_in_memory(data: Sample, level: float | None, names: Sequence[str]) -> dict[str, Estimate]:
    """All metrics of rows in memory, with intervals by the bootstrap while that is affordable."""
    with warnings.catch_warnings():
        # What too few rows cannot tell the report says itself.
        warnings.filterwarnings("ignore", message="no interval", category=CalibrationWarning)
        return _metrics_in_memory(data, level, names)


def _metrics_in_memory(data: Sample, level: float | None, names: Sequence[str]) -> dict[str, Estimate]:
    if level is not None and data.groups is not None:
        draws = 1000 if data.proba.size <= BOOTSTRAP_CELLS else 200
        options: dict[str, Any] = {"level": level, "n_resamples": draws, **given(data)}
        return {name: confidence_interval(name, data.y, data.proba, **options) for name in names}
    plain = given(replace(data, groups=None))
    values = metrics_of(data.y, data.proba, names, **plain)
    if level is None:
        return {name: _plain(value) for name, value in values.items()}
    running = RunningMetrics([name for name in running_names(data.n_classes) if name in names])
    found = {**{name: _plain(value) for name, value in values.items()}, **running.add(data).result(level)}
    if data.proba.size <= BOOTSTRAP_CELLS:
        # A replicate of smooth ECE costs as much as all others together, and its cells give the same interval.
        resampled = [name for name in names if name != "smooth_ece"]
        found.update(metrics_of(data.y, data.proba, resampled, level=level, **plain))
    return {name: found[name] for name in names}


def _plain(value: float) -> Estimate:
    return Estimate(value, float("nan"), float("nan"), float("nan"))
