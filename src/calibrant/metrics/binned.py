"""Calibration errors from bins: expected (ECE), root mean square and maximum.

With bin weights `w_b` (summing to one), mean score `s_b` and observed frequency `o_b`, the errors are
`Σ w_b |o_b - s_b|`, `sqrt(Σ w_b (o_b - s_b)²)` and `max |o_b - s_b|`. The plug-in values are too large, since chance
alone moves `o_b`; debiasing subtracts what chance contributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from calibrant.bins import (
    BinSums,
    Strategy,
    bin_sums,
    check_bins,
    quantile_index,
    sum_by,
    uniform_edges,
    uniform_index,
)
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.sums import Summed, cell_spread
from calibrant.metrics.views import Kind, View, sort_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray


class Binner:
    """Sums over the bins of one view for any counts, with the work that counts do not change done once."""

    def __init__(self, view: View, n_bins: int, strategy: str) -> None:
        check_bins(n_bins, strategy)
        self.n_bins = int(n_bins)
        self.strategy = strategy
        self.view = view
        if strategy == "uniform":
            self._index = uniform_index(view.score, self.n_bins)
        else:
            self._ordered = sort_view(view)

    def index(self, counts: AnyFloatArray) -> AnyIntArray:
        """The bin of every row."""
        if self.strategy == "uniform":
            return self._index
        index = np.empty(len(counts), dtype=np.intp)
        index[self._ordered.order] = self._sorted_index(counts)
        return index

    def _sorted_index(self, counts: AnyFloatArray) -> AnyIntArray:
        return quantile_index(self._ordered.starts, self.n_bins, counts[self._ordered.order])

    def sums(self, counts: AnyFloatArray) -> BinSums:
        return bin_sums(self.index(counts), self.view.score, self.view.hit, counts, self.n_bins)

    def spread(self, data: Sample) -> FloatArray:
        """How far sums of `hit - score` over equal-width bins move."""
        return cell_spread(data, self.view.hit - self.view.score, lambda x: sum_by(self._index, x, self.n_bins))

    def edges(self, counts: AnyFloatArray) -> AnyFloatArray:
        """Ends of all equal-width bins, or of the occupied equal-mass bins, which part half-way between scores."""
        if self.strategy == "uniform":
            return uniform_edges(self.n_bins)
        score, last = self._ordered.score, np.flatnonzero(np.diff(self._sorted_index(counts)))
        return np.concatenate([[0.0], (score[last] + score[last + 1]) / 2, [1.0]])


@dataclass(frozen=True)
class BinError:
    """An error made of the sums over bins: rows of weights, scores and hits."""

    error: Callable[[BinSums], float]

    def value(self, sums: FloatArray) -> float:
        return self.error(BinSums(*sums))

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        weight, score, hit = sums
        return np.stack([weight, score, hit + by])


def _folded_normal_mean(mean: AnyFloatArray, deviation: AnyFloatArray) -> AnyFloatArray:
    """`E|Z|` for `Z ~ N(mean, deviation²)`."""
    # Without spread the mean stays what it is: a z of 40 gives that without a division by zero.
    z = np.abs(mean) / np.where(deviation > 0, deviation, np.maximum(np.abs(mean) / 40, 1e-300))
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return 2 * deviation * density + np.abs(mean) * (2 * ndtr(z) - 1)


def expected_error(sums: BinSums, *, debias: bool = False) -> float:
    """`Σ w_b |o_b - s_b|`; debiased `2 Σ w_b |o_b - s_b| - Σ w_b E|N(o_b - s_b, o_b (1 - o_b) / n_b)|`."""
    total = sums.weight.sum()
    plug_in = float(np.abs(sums.hit - sums.score).sum() / total)
    if not debias:
        return plug_in
    full = sums.weight > 0
    weight = sums.weight[full]
    observed = sums.hit[full] / weight
    gap = observed - sums.score[full] / weight
    deviation = np.sqrt(np.clip(observed * (1 - observed), 0, None) / weight)
    resampled = float(weight @ _folded_normal_mean(gap, deviation) / total)
    return max(2 * plug_in - resampled, 0.0)


def rms_error(sums: BinSums, *, debias: bool = False) -> float:
    """`sqrt(Σ w_b (o_b - s_b)²)`; debiased by the unbiased estimate of each bin's sampling variance."""
    full = sums.weight > 0
    weight = sums.weight[full]
    observed = sums.hit[full] / weight
    squares = (observed - sums.score[full] / weight) ** 2
    if debias:
        # A bin of one row says nothing about its variance: it is left out.
        many = weight > 1
        variance = observed[many] * (1 - observed[many]) / (weight[many] - 1)
        squares = np.where(many, squares, 0.0)
        squares[many] -= variance
    return float(np.sqrt(max(weight @ squares / weight.sum(), 0.0)))


def maximum_error(sums: BinSums) -> float:
    """`max |o_b - s_b|` over bins that hold anything."""
    full = sums.weight > 0
    return float(np.max(np.abs(sums.hit[full] - sums.score[full]) / sums.weight[full]))


def _over_bins(
    error: Callable[[BinSums], float],
    data: Sample,
    kind: str,
    n_bins: int,
    strategy: str,
    combine: Callable[[AnyFloatArray], float] = np.mean,
) -> Statistic:
    def of_view(view: View) -> Statistic:
        binner = Binner(view, n_bins, strategy)
        if strategy != "uniform":  # which bin a row is in depends on all rows
            return lambda counts: error(binner.sums(counts))
        return Summed(BinError(error), lambda counts: np.stack(binner.sums(counts)), binner.spread)

    return view_statistic(data, kind, of_view, combine)


def _root_mean_square(values: AnyFloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


@scalar(upper=1.0, plug_in_bias=True, of_sums=True)
def ece(
    data: Sample, *, kind: Kind = "auto", n_bins: int = 15, strategy: Strategy = "uniform", debias: bool = False
) -> Statistic:
    """Expected calibration error (ECE): mean distance between score and frequency over bins of scores.

    Parameters
    ----------
    debias : bool, default=False
        Subtract what chance contributes (Kumar, Liang and Ma 2019, with the expectation in closed form); not below 0.

    Examples
    --------
    >>> from calibrant.metrics import ece
    >>> round(ece([0, 1, 1, 1], [0.1, 0.7, 0.7, 1.0]), 3)
    0.175
    """
    return _over_bins(partial(expected_error, debias=debias), data, kind, n_bins, strategy)


#: The same function by its full name.
expected_calibration_error = ece


@scalar(upper=1.0, plug_in_bias=True, of_sums=True)
def rms_calibration_error(
    data: Sample, *, kind: Kind = "auto", n_bins: int = 15, strategy: Strategy = "uniform", debias: bool = False
) -> Statistic:
    """Root mean square calibration error over bins of scores; class-wise, also over the classes.

    Parameters
    ----------
    debias : bool, default=False
        Subtract the sampling variance of each bin (Kumar, Liang and Ma 2019); not below 0.

    Examples
    --------
    >>> from calibrant.metrics import rms_calibration_error
    >>> round(rms_calibration_error([0, 1, 1, 1], [0.1, 0.7, 0.7, 1.0]), 3)
    0.218
    """
    return _over_bins(partial(rms_error, debias=debias), data, kind, n_bins, strategy, _root_mean_square)


@scalar(upper=1.0, plug_in_bias=True, of_sums=True)
def maximum_calibration_error(
    data: Sample, *, kind: Kind = "auto", n_bins: int = 15, strategy: Strategy = "uniform"
) -> Statistic:
    """Largest distance between score and frequency in any bin of scores; class-wise, over all classes.

    Equal-width bins that hold a handful of rows dominate it; `strategy="quantile"` is the steadier choice.

    Examples
    --------
    >>> from calibrant.metrics import maximum_calibration_error
    >>> round(maximum_calibration_error([0, 1, 1, 1], [0.1, 0.7, 0.7, 1.0]), 3)
    0.3
    """
    return _over_bins(maximum_error, data, kind, n_bins, strategy, np.max)
