"""Metrics of predictions that come in chunks, with intervals, in memory that does not grow with their number.

Means keep the sums `Σw`, `Σwx`, `Σw²x`, `Σw²x²`, `Σw²`, which give their standard errors. Calibration errors keep
`D_c = Σ w (hit - score)` over cells of the score and its variance `Σ w² (hit - score)²`. Resampling rows with
replacement moves `D_c` like a normal variable of that variance once cells are full, so replicates of the errors are
drawn from the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrant.bins import sum_by, uniform_index
from calibrant.metrics.inputs import Forecasts, check_predictions
from calibrant.metrics.intervals import Estimate, interval
from calibrant.metrics.losses import accuracy_rows, brier_rows, log_loss_rows
from calibrant.metrics.random import generator
from calibrant.metrics.smooth import GRID_CELLS, Grid, smooth_error
from calibrant.metrics.views import single_view
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

N_BINS = 15
REPLICATES = 200

MEANS: dict[str, Callable[[Forecasts], AnyFloatArray]] = {
    "log_loss": log_loss_rows,
    "brier": brier_rows,
    "accuracy": accuracy_rows,
    "confidence_gap": lambda data: data.confidence - accuracy_rows(data),
    "positive_gap": lambda data: data.proba[:, -1] - (data.y == data.n_classes - 1),
}


@dataclass
class RunningMean:
    """A weighted mean and its standard error from sums."""

    sums: AnyFloatArray = field(default_factory=lambda: np.zeros(5))

    def add(self, values: AnyFloatArray, weight: AnyFloatArray) -> None:
        """Take in more rows."""
        squared = weight**2
        self.sums += [weight.sum(), weight @ values, squared @ values, squared @ values**2, squared.sum()]

    def merge(self, other: RunningMean) -> None:
        """Take in what another has taken in."""
        self.sums += other.sums

    def estimate(self, level: float) -> Estimate:
        """The mean with its normal interval."""
        total, first, squared_first, squared_second, squared_total = self.sums.tolist()
        mean = first / total
        variance = max(squared_second - 2 * mean * squared_first + mean**2 * squared_total, 0.0) / total**2
        half = float(ndtri((1 + level) / 2)) * variance**0.5
        return Estimate(mean, mean - half, mean + half, level)


@dataclass
class RunningCells:
    """Sums of `w (hit - score)` over cells of the score, and their variances."""

    n_cells: int
    difference: AnyFloatArray = field(init=False)
    variance: AnyFloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.difference, self.variance = np.zeros((2, self.n_cells))

    def merge(self, other: RunningCells) -> None:
        """Take in what another has taken in."""
        self.difference += other.difference
        self.variance += other.variance

    def estimate(self, statistic: Callable[[AnyFloatArray], float], total: float, level: float) -> Estimate:
        """A distance made of the cells' sums, with the interval that distances have."""
        value = statistic(self.difference / total)
        noise = generator(0).standard_normal((REPLICATES, self.n_cells)) * np.sqrt(self.variance)
        moved = np.array([statistic(row / total) for row in self.difference + noise])
        return interval(value, moved, level=level, method="corrected", lower=0.0, upper=1.0)


class RunningMetrics:
    """Log loss, Brier, accuracy, the gaps of confidence and of the last class, ECE and smooth ECE of chunks.

    Parts may be taken in by several instances, one per process say, and merged.

    Parameters
    ----------
    classes : sequence, optional
        The label of every column of `y_prob`. Needed by `update` when labels are neither column numbers nor all
        present in every chunk.

    Examples
    --------
    >>> from calibrant.metrics import RunningMetrics
    >>> first, second = RunningMetrics(), RunningMetrics()
    >>> first.update([0, 1], [[0.8, 0.2], [0.4, 0.6]])
    >>> second.update([1, 0], [[0.1, 0.9], [0.7, 0.3]])
    >>> first.merge(second)
    >>> first.rows, round(first.result()["log_loss"].value, 4)
    (4, 0.299)
    """

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes
        self.rows = 0
        self._means = {name: RunningMean() for name in MEANS}
        self._bins = RunningCells(N_BINS)
        self._grid = RunningCells(GRID_CELLS)

    @limited
    def update(self, y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        """Validate more rows and take them in; the arguments are those of `log_loss`."""
        self.add(check_predictions(y_true, y_prob, sample_weight, self.classes))

    @limited
    def add(self, data: Forecasts) -> None:
        """Take in more rows that have been validated."""
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        self.rows += data.n_rows
        for name, rows in MEANS.items():
            self._means[name].add(rows(data), weight)
        view = single_view(data, "auto")
        difference = weight * (view.hit - view.score)
        index = uniform_index(view.score, N_BINS)
        self._bins.difference += sum_by(index, difference, N_BINS)
        self._bins.variance += sum_by(index, difference**2, N_BINS)
        grid = Grid(view.score)
        self._grid.difference += grid.sums(difference)
        self._grid.variance += grid.sums(difference**2)

    def merge(self, other: RunningMetrics) -> None:
        """Take in what another has taken in."""
        self.rows += other.rows
        for name, mean in self._means.items():
            mean.merge(other._means[name])
        self._bins.merge(other._bins)
        self._grid.merge(other._grid)

    def means(self, level: float) -> dict[str, Estimate]:
        """The metrics that are means, with intervals at this level."""
        return {name: mean.estimate(level) for name, mean in self._means.items()}

    def result(self, level: float = 0.95, *, smooth: bool = True) -> dict[str, Estimate]:
        """All metrics with intervals at this level; smooth ECE is the one that takes time."""
        if not self.rows:
            raise ValueError("no row was taken in: call update first")
        found = self.means(level)
        total = float(self._means["log_loss"].sums[0])
        found["ece"] = self._bins.estimate(lambda cells: float(np.abs(cells).sum()), total, level)
        if smooth:
            found["smooth_ece"] = self._grid.estimate(smooth_error, total, level)
        return found
