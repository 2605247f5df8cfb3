"""The rows of a table for a report: all of them, or a sample beside sums over all of them.

Means and counts are sums over rows, so they need no sample however large the table is. What is fitted to the
rows, resampled or drawn as a curve without bins is left to the sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.files.tables.table_rows import RowReader
from calibrant.metrics.frequencies import ClassFrequencies, class_frequencies
from calibrant.metrics.losses import row_losses
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.running import RunningMetrics
from calibrant.sample import Sample, Size
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited
from calibrant.workflows.evaluating import Taken, from_sums, read_sample, split_segments, take_in

#: Metrics that a report shows of the predictions as they are and that are sums.
SUMS = ("log_loss", "brier", "accuracy", "positive_gap", "confidence_gap", "ece")


@dataclass(frozen=True)
class SegmentSums:
    """One segment in all rows."""

    size: Size
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class Whole:
    """Sums over all rows of a table, of the predictions as they are.

    Attributes
    ----------
    size : Size
    metrics : dict of str to Estimate
        `SUMS`.
    frequencies : ClassFrequencies
        Expected and observed count of every class.
    ruled_out : pair of int and float
        Rows whose class had probability zero, and what they add to log loss.
    segments : dict of str to SegmentSums
        By the name of the segment.
    """

    size: Size
    metrics: dict[str, Estimate]
    frequencies: ClassFrequencies
    ruled_out: tuple[int, float]
    segments: dict[str, SegmentSums]


class WholeRows:
    """Takes in the rows of a table chunk by chunk.

    Parameters
    ----------
    level : float
        Confidence level of all intervals.
    """

    def __init__(self, level: float) -> None:
        self._level = level
        self._taken: dict[str | None, Taken] = {}
        name = "calibration_in_the_large"
        self._tables = RunningMetrics([name], options={name: {"level": level}})
        self._ruled_out, self._cost, self._total = 0, 0.0, 0.0

    @limited
    def add(self, data: Sample, segments: Any) -> None:
        """Take in the usable rows of a chunk, and the segment of each."""
        take_in(self._taken, data, segments, SUMS)
        # Groups may be spread over chunks: what depends on them is taken from the sample in the end.
        self._tables.add(replace(data, groups=None))
        count, cost = ruled_out(data)
        self._ruled_out += count
        self._cost += cost * data.total
        self._total += data.total

    def result(self, sample: Sample, members: dict[str, Any]) -> Whole:
        """What the rows so far say; `members` are the rows of each segment in the sample that was kept of them."""
        found: dict[Any, SegmentSums] = {
            name: SegmentSums(
                taken.size,
                from_sums(
                    taken.metrics,
                    sample if name is None else sample.take(members.get(name, np.arange(0))),
                    self._level,
                ),
            )
            for name, taken in self._taken.items()
        }
        whole, tables = found.pop(None), self._tables.result()
        frequencies = tables["calibration_in_the_large"]
        if sample.groups is not None:
            kept = class_frequencies(sample, self._level)
            with np.errstate(invalid="ignore"):
                low, high = (frequencies.ratio * end / kept.ratio for end in (kept.low, kept.high))
            frequencies = replace(frequencies, low=low, high=high, p_value=kept.p_value)
        return Whole(
            whole.size,
            whole.metrics,
            frequencies,
            (self._ruled_out, self._cost / self._total),
            found,
        )


@dataclass(frozen=True)
class ReportRows:
    """What a report is made from.

    Attributes
    ----------
    data : Sample
        The rows, or a uniform sample of them.
    segments : array of str or None
        The segment of each.
    whole : Whole or None
        Sums over all rows, if `data` is a sample.
    columns, classes : tuple
        The columns of the predictions, and the class of each (of a single one: both classes, its own last).
    """

    data: Sample
    segments: Any
    whole: Whole | None
    columns: tuple[str, ...]
    classes: tuple[Any, ...]


def read_for_report(reader: RowReader, level: float = 0.95, progress: Any = iter) -> ReportRows:
    """Read a labelled table once; of a large one a sample of its rows is kept, and sums over all rows.

    Parameters
    ----------
    reader : RowReader
        With a label column or columns of votes.
    level : float, default=0.95
        Confidence level of all intervals.
    progress : callable, optional
        Wraps the iteration over chunks.
    """
    every = WholeRows(level)
    rows, data, segments = read_sample(reader, every.add, progress)
    members = {} if segments is None else dict(split_segments(segments))
    whole = every.result(data, members) if rows.sampled else None
    return ReportRows(data, segments, whole, rows.columns, rows.classes)


def ruled_out(data: Sample) -> tuple[int, float]:
    """Rows whose class had probability zero, and what they add to log loss."""
    rows = data.true_proba < LOSS_FLOOR
    return int(rows.sum()), float(np.average(np.where(rows, row_losses(data, "log_loss"), 0.0), weights=data.counts))
