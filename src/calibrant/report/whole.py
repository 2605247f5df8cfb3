"""What all rows of a table say of its predictions, taken in while it is read and a report keeps only a sample.

Means, counts and bins are sums over rows, so they need no sample however large the table is. What is fitted to the
rows, resampled or drawn as a curve without bins is left to the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.files.tables.rows import Layout, Rows, as_probabilities
from calibrant.metrics.frequencies import ClassFrequencies
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.losses import row_losses
from calibrant.metrics.reliability import ReliabilityTable
from calibrant.metrics.running import RunningMetrics
from calibrant.report.evaluation import as_predictions, take_in
from calibrant.simplex import LOSS_FLOOR
from calibrant.threads import limited

#: Metrics that a report shows of the predictions as they are and that are sums.
SUMS = ("log_loss", "brier", "accuracy", "positive_gap", "confidence_gap", "ece")


@dataclass(frozen=True)
class GroupSums:
    """One segment in all rows."""

    rows: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class Whole:
    """Sums over all rows of a table, of the predictions as they are.

    Attributes
    ----------
    rows : int
    metrics : dict of str to Estimate
        `SUMS`.
    frequencies : ClassFrequencies
        Expected and observed count of every class.
    bins : ReliabilityTable
        Of the second of two classes, or of the predicted class.
    ruled_out : pair of int and float
        Rows whose class had probability zero, and what they add to log loss.
    groups : dict of str to GroupSums
        By the name of the segment.
    """

    rows: int
    metrics: dict[str, Estimate]
    frequencies: ClassFrequencies
    bins: ReliabilityTable
    ruled_out: tuple[int, float]
    groups: dict[str, GroupSums]


class WholeRows:
    """Takes in the rows of a table chunk by chunk.

    Parameters
    ----------
    layout : Layout
        What the table's numbers mean.
    level : float
        Confidence level of all intervals.
    progress : callable, optional
        Wraps the iteration over chunks.
    """

    def __init__(self, layout: Layout, level: float, progress: Any = iter) -> None:
        self._layout, self._level, self._progress = layout, level, progress
        self._metrics: dict[str | None, RunningMetrics] = {}
        names = ("calibration_in_the_large", "reliability_table")
        self._tables = RunningMetrics(names, options={name: {"level": level} for name in names})
        self._ruled_out, self._cost, self._weight = 0, 0.0, 0.0

    def watching(self, chunks: Iterator[Rows]) -> Iterator[Rows]:
        """The same chunks, taken in as they pass."""
        for rows in self._progress(chunks):
            self.add(rows)
            yield rows

    @limited
    def add(self, rows: Rows) -> None:
        """Take in the usable rows of a chunk."""
        data, group = as_predictions(as_probabilities(rows.values, self._layout), rows)
        if not data.n_rows:
            return
        take_in(self._metrics, data, group, SUMS)
        self._tables.add(data)
        count, cost = ruled_out(data)
        weight = data.n_rows if data.weight is None else float(data.weight.sum())
        self._ruled_out += count
        self._cost += cost * weight
        self._weight += weight

    def result(self) -> Whole:
        """What the rows so far say."""
        found: dict[Any, GroupSums] = {
            name: GroupSums(running.rows, running.result(self._level)) for name, running in self._metrics.items()
        }
        whole, tables = found.pop(None), self._tables.result()
        return Whole(
            whole.rows,
            whole.metrics,
            tables["calibration_in_the_large"],
            tables["reliability_table"],
            (self._ruled_out, self._cost / self._weight),
            found,
        )


def ruled_out(data: Forecasts) -> tuple[int, float]:
    """Rows whose class had probability zero, and what they add to log loss."""
    rows = data.true_proba < LOSS_FLOOR
    return int(rows.sum()), float(np.average(np.where(rows, row_losses(data, "log_loss"), 0.0), weights=data.weight))
