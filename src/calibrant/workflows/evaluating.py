"""A table of predictions in one reading: its metrics, overall and by segment, and the rows of a report.

Rows are kept up to a size that leaves memory free. Means and counts are sums, which are added chunk by chunk from
larger tables, and from segments. Fits, resamples and curves without bins need all rows at once: they use a uniform
sample, of whole groups where rows belong together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from calibrant.files.tables.row_checks import TableRows
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import ValidationTable, calibration_test, confidence_interval, validation_table
from calibrant.metrics import evaluate as metrics_of
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies, gap_of_ratio
from calibrant.metrics.losses import row_losses
from calibrant.metrics.result_types import CalibrationTest, Estimate
from calibrant.metrics.running import RESAMPLES, RunningMetrics
from calibrant.sample import Sample, Size
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited
from calibrant.typing import AnyArray, Label

#: Numbers (rows × classes) up to which all rows are kept. What needs all of them at once takes a uniform sample of
#: this size from a larger table, or so many rows if the classes are many, unless these would hold too many numbers.
MEMORY_CELLS = 2_000_000
SAMPLE_ROWS = 5_000
MOST_SAMPLED = 5_000_000
#: Numbers up to which intervals come from the bootstrap; above, normal intervals are as good and far cheaper.
BOOTSTRAP_CELLS = 50_000
METRICS = ("log_loss", "brier", "accuracy", "auroc", "positive_gap", "confidence_gap", "ece", "smooth_ece")
#: Metrics that a report shows of the unchanged predictions and that are sums.
SUMS = ("log_loss", "brier", "accuracy", "positive_gap", "confidence_gap", "ece")
#: Segments whose metrics are computed; a column with more of them is hardly one of segments.
MOST_SEGMENTS = 1000


class SizedMetrics(NamedTuple):
    """How many rows there are, and their metrics."""

    size: Size
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a table; values are `Estimate`s, whose intervals are NaN unless asked for.

    `sampled` names the metrics that are, as the test is, of a sample of such a size only; the size is None if none are.
    """

    size: Size
    classes: tuple[Label, ...]
    columns: tuple[str, ...]
    metrics: dict[str, Estimate]
    test: CalibrationTest | None
    in_chunks: bool
    segments: dict[str, SizedMetrics] = field(default_factory=dict)
    sampled: tuple[tuple[str, ...], Size | None] = ((), None)


@dataclass(frozen=True)
class Whole:
    """Sums over all rows of a table, of the unchanged predictions.

    `frequencies` are expected and observed counts of the classes; `ruled_out` are the rows whose class had probability
    zero, and what they add to log loss.
    """

    size: Size
    metrics: dict[str, Estimate]
    frequencies: ClassFrequencies
    ruled_out: tuple[int, float]
    segments: dict[str, SizedMetrics]


@dataclass(frozen=True)
class ReportRows:
    """What a report is made from: rows, or a uniform sample of them and sums over all rows.

    `classes` are those of the `columns` (of a single one: both classes, its own last).
    """

    data: Sample
    segments: Any
    whole: Whole | None
    columns: tuple[str, ...]
    classes: tuple[Label, ...]


class RunningSums:
    """Metrics of rows that are added chunk by chunk, and their number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.metrics = RunningMetrics(names)
        self._rows, self._total, self._counted = 0, 0.0, False
        self._groups: AnyArray | None = None

    def add(self, part: Sample) -> None:
        self.metrics.add(part)
        self._rows += part.size.rows
        self._total += part.total
        self._counted |= part.counts is not None
        if part.groups is not None:
            self._groups = np.unique(part.groups if self._groups is None else np.append(self._groups, part.groups))

    def result(self, sample: Sample, level: float | None) -> SizedMetrics:
        """What was added; where rows belong together, intervals are as wide as those of the sample kept of them."""
        size = Size(
            self._rows, self._total if self._counted else None, None if self._groups is None else len(self._groups)
        )
        if level is not None and sample.groups is None:
            return SizedMetrics(size, self.metrics.result(level))
        values: dict[str, float] = self.metrics.result()
        if level is None or not sample.n_rows:
            return SizedMetrics(size, {name: _plain(value) for name, value in values.items()})
        kept = metrics_in_memory(sample, level, list(values))
        return SizedMetrics(size, {name: _moved(kept[name], value) for name, value in values.items()})


class SegmentedSums:
    """Sums over all rows, under None, and over each segment."""

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = names
        self._parts: dict[str | None, RunningSums] = {}

    def add(self, part: Sample, segments: object) -> None:
        names = running_names(part.n_classes) if self._names is None else self._names
        self._parts.setdefault(None, RunningSums(names)).add(part)
        if segments is not None:
            # Smooth ECE takes time and needs more rows than most segments have.
            few = [name for name in names if name != "smooth_ece"]
            for name, rows in split_segments(segments):
                self._parts.setdefault(name, RunningSums(few)).add(part.take(rows))
                if len(self._parts) > MOST_SEGMENTS:
                    raise _too_many()

    def whole(self, sample: Sample, level: float | None) -> SizedMetrics:
        """Sums over all rows, of which `sample` was kept."""
        return self._parts[None].result(sample, level)

    def by_segment(self, sample: Sample, segments: Any, level: float | None) -> dict[str, SizedMetrics]:
        """Sums over the rows of each segment, sorted by name; `segments` are those of the sample."""
        kept = {} if segments is None else dict(split_segments(segments))
        names = sorted(name for name in self._parts if name is not None)
        return {name: self._parts[name].result(sample.take(kept.get(name, np.arange(0))), level) for name in names}


class WholeRows:
    """What a report says of all rows, added chunk by chunk."""

    def __init__(self, level: float) -> None:
        self._level, self._sums = level, SegmentedSums(SUMS)
        name = "calibration_in_the_large"
        self._tables = RunningMetrics([name], options={name: {"level": level}})
        self._ruled_out, self._cost, self._total = 0, 0.0, 0.0

    @limited
    def add(self, data: Sample, segments: object) -> None:
        self._sums.add(data, segments)
        # Groups may be spread over chunks: what depends on them is taken from the sample in the end.
        self._tables.add(replace(data, groups=None))
        count, cost = ruled_out(data)
        self._ruled_out += count
        self._cost += cost * data.total
        self._total += data.total

    def result(self, sample: Sample, segments: object) -> Whole:
        frequencies = self._tables.result()["calibration_in_the_large"]
        if sample.groups is not None:
            kept = class_frequencies(sample, self._level)
            with np.errstate(invalid="ignore"):
                low, high = (frequencies.ratio * end / kept.ratio for end in (kept.low, kept.high))
            frequencies = replace(frequencies, low=low, high=high, p_value=kept.p_value)
        whole = self._sums.whole(sample, self._level)
        parts = self._sums.by_segment(sample, segments, self._level)
        return Whole(*whole, frequencies, (self._ruled_out, self._cost / self._total), parts)


def metric_names(n_classes: int) -> list[str]:
    """The metrics of so many classes: for two the means are judged by the second one, for more by the confidence."""
    return [name for name in METRICS if name != ("confidence_gap" if n_classes == 2 else "positive_gap")]


def sample_rows(n_classes: int) -> int:
    """Rows of a table with so many classes that are kept for what needs them all at once."""
    return max(1, min(max(MEMORY_CELLS, SAMPLE_ROWS * n_classes), MOST_SAMPLED) // n_classes)


def running_names(n_classes: int) -> list[str]:
    """The metrics of `metric_names` that can be added chunk by chunk."""
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
def evaluate(reader: RowReader, *, level: float | None = None, progress: object = iter) -> Evaluation:
    """Metrics of all usable rows of a labelled table, with intervals of a `level`, overall and by segment.

    With groups intervals are as wide as those of the groups that are kept in memory.
    """
    sums = SegmentedSums()
    rows, data, segments = read_sample(reader, sums.add, progress)
    parts, names = sums.by_segment(data, segments, level), metric_names(data.n_classes)
    sampled: tuple[tuple[str, ...], Size | None] = ((), None)
    if rows.sampled:
        size, metrics = sums.whole(data, level)
        sampled = (tuple(name for name in names if name not in metrics), data.size)
        metrics |= metrics_in_memory(data, level, sampled[0])
    else:
        size, metrics = data.size, metrics_in_memory(data, level, names)
    ordered = {name: metrics[name] for name in names}
    return Evaluation(size, rows.classes, rows.columns, ordered, omnibus_test(data), rows.sampled, parts, sampled)


@limited
def validate(reader: RowReader, *, level: float = 0.95, progress: object = iter) -> ValidationTable:
    """All named tests and measures of a table; of a large one those of a uniform sample."""
    rows, data, _ = read_sample(reader, lambda part, segments: None, progress)
    kept = {**given(data), "classes": list(rows.classes)}
    kept |= {"level": level, "n_resamples": RESAMPLES}
    return validation_table(np.array(rows.classes)[data.y], data.proba, **kept)


def read_for_report(reader: RowReader, level: float = 0.95, progress: object = iter) -> ReportRows:
    """Read a labelled table once; of a large one a sample of its rows is kept, and sums over all rows."""
    every = WholeRows(level)
    rows, data, segments = read_sample(reader, every.add, progress)
    whole = every.result(data, segments) if rows.sampled else None
    return ReportRows(data, segments, whole, rows.columns, rows.classes)


def read_sample(
    reader: RowReader, take: Callable[[Sample, Any], None], progress: Any = iter
) -> tuple[TableRows, Sample, object]:
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


def ruled_out(data: Sample) -> tuple[int, float]:
    """Rows whose class had probability zero, and what they add to log loss."""
    rows = data.true_proba < LOSS_FLOOR
    return int(rows.sum()), float(np.average(np.where(rows, row_losses(data, "log_loss"), 0.0), weights=data.counts))


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


def metrics_in_memory(data: Sample, level: float | None, names: Sequence[str]) -> dict[str, Estimate]:
    """All metrics of rows in memory, with intervals by the bootstrap while that is affordable."""
    with warnings.catch_warnings():
        # What too few rows cannot tell the report says itself.
        warnings.filterwarnings("ignore", message="no interval", category=CalibrationWarning)
        found = _metrics_in_memory(data, level, names)
    if level is not None and "positive_gap" in found and data.proba[:, -1].any():
        # So that the difference and the ratio that stand side by side agree on what is beyond chance.
        found["positive_gap"] = gap_of_ratio(class_frequencies(data, level), -1)
    return found


def _metrics_in_memory(data: Sample, level: float | None, names: Sequence[str]) -> dict[str, Estimate]:
    if level is not None and data.groups is not None:
        draws = 1000 if data.proba.size <= BOOTSTRAP_CELLS else 200
        options: dict[str, Any] = {"level": level, "n_resamples": draws, **given(data)}
        return {name: confidence_interval(name, data.y, data.proba, **options) for name in names}
    plain = given(replace(data, groups=None))
    values = metrics_of(data.y, data.proba, names, **plain)
    if level is None:
        return {name: _plain(value) for name, value in values.items()}
    # A replicate of smooth ECE costs as much as all others together, and its cells give the same interval.
    resampled = [name for name in names if name != "smooth_ece"] if data.proba.size <= BOOTSTRAP_CELLS else []
    found = {name: _plain(value) for name, value in values.items()}
    if summed := [name for name in running_names(data.n_classes) if name in names and name not in resampled]:
        found |= RunningMetrics(summed).add(data).result(level)
    if resampled:
        found |= metrics_of(data.y, data.proba, resampled, level=level, **plain)
    return found


def _plain(value: float) -> Estimate:
    return Estimate(value, float("nan"), float("nan"), float("nan"))


def _moved(estimate: Estimate, value: float) -> Estimate:
    """The same interval around another value."""
    return replace(
        estimate, value=value, low=value + estimate.low - estimate.value, high=value + estimate.high - estimate.value
    )
