"""Calibration from bins of scores: expected (ECE), root mean square and maximum errors, and reliability tables.

With bin weights `w_b` (summing to one), mean score `s_b` and observed frequency `o_b`, the errors are
`Σ w_b |o_b - s_b|`, `sqrt(Σ w_b (o_b - s_b)²)` and `max |o_b - s_b|`. The plug-in values are too large, since chance
alone moves `o_b`; debiasing subtracts what chance contributes. A table, which reliability diagrams draw, has Wilson's
interval of every frequency.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from calibrant.bins import (
    BinSums,
    Strategy,
    bin_sums,
    check_bins,
    edge_index,
    quantile_index,
    sum_by,
    uniform_edges,
    uniform_index,
)
from calibrant.confidence import independent_trials, wilson_interval
from calibrant.docs import describe_parameters
from calibrant.inputs.labels import check_labels, distinct
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import METRIC
from calibrant.metrics.result_types import HISTOGRAM_BINS, UNIT, ReliabilityCurve
from calibrant.metrics.scalars import Form, Statistic, Summed, cell_spread, scalar, table
from calibrant.metrics.views import (
    Kind,
    View,
    class_view,
    column_of,
    mean_of_classes,
    shown_view,
    single_view,
    sort_view,
    view_statistic,
)
from calibrant.sample import Sample
from calibrant.sklearn_private import check_pos_label_consistency
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, Label


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


def _folded_normal_mean(mean: AnyFloatArray, deviation: AnyFloatArray) -> AnyFloatArray:
    """`E|Z|` for `Z ~ N(mean, deviation²)`."""
    z = np.abs(mean) / np.maximum(deviation, 1e-150)  # without spread the mean stays what it is
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
    deviation = np.sqrt(observed * (1 - observed) / weight)
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


def _of_sums(error: Callable[[BinSums], float], sums: FloatArray) -> float:
    return error(BinSums(*sums))


def _over_bins(
    error: Callable[[BinSums], float],
    data: Sample,
    kind: str,
    n_bins: int,
    strategy: str,
    combine: Callable[[list[float]], float] = mean_of_classes,
) -> Statistic:
    def of_view(view: View) -> Statistic:
        binner = Binner(view, n_bins, strategy)
        if strategy != "uniform":  # which bin a row is in depends on all rows
            return lambda counts: error(binner.sums(counts))
        form = Form(partial(_of_sums, error), "distance", (BinSums._fields.index("hit"),))
        return Summed(form, lambda counts: np.stack(binner.sums(counts)), binner.spread)

    return view_statistic(data, kind, of_view, combine)


def _root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


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
    >>> round(maximum_calibration_error([0, 1, 1, 1], [0.1, 0.7, 0.7, 1.0]), 3)
    0.3
    """
    return _over_bins(maximum_error, data, kind, n_bins, strategy, max)


@dataclass(frozen=True)
class TableOptions:
    """What a table shows besides its sums."""

    n_bins: int
    strategy: str
    level: float
    kind: str
    label: Any

    def curve(
        self, sums: BinSums, products: AnyFloatArray, edges: AnyFloatArray, histogram: AnyFloatArray
    ) -> ReliabilityCurve:
        """The occupied bins; equal-mass bins all are."""
        full = sums.weight > 0
        lower, upper = edges[:-1], edges[1:]
        if self.strategy == "uniform":
            lower, upper = lower[full], upper[full]
        count = sums.weight[full]
        score, frequency = sums.score[full] / count, sums.hit[full] / count
        low, high = wilson_interval(frequency, independent_trials(frequency, count, products[:, full]), self.level)
        return ReliabilityCurve(
            maker="bins",
            lower=lower,
            upper=upper,
            score=score,
            frequency=frequency,
            weight=count,
            at=score,
            low=low,
            high=high,
            level=self.level,
            error=expected_error(sums),
            histogram=histogram,
            kind=self.kind,
            label=self.label,
        )

    def value(self, sums: FloatArray) -> ReliabilityCurve:
        """The table from sums over equal-width bins (counts, scores, hits, products), followed by the histogram."""
        bins, histogram = np.split(sums, [6 * self.n_bins])
        bins = bins.reshape(6, -1)
        return self.curve(BinSums(*bins[:3]), bins[3:], uniform_edges(self.n_bins), histogram)


def _by_label(labels: Sequence[Label], tables: Sequence[ReliabilityCurve]) -> dict[Hashable, ReliabilityCurve]:
    return {label: replace(found, label=label) for label, found in zip(labels, tables)}


def _prepare_table(data: Sample, options: TableOptions, view: View) -> Callable[[AnyFloatArray], ReliabilityCurve]:
    binner = Binner(view, options.n_bins, options.strategy)

    def products(counts: AnyFloatArray) -> FloatArray:
        index, counted, one = binner.index(counts), data.with_counts(counts), np.ones(len(counts))
        pairs = ((one, one), (one, view.hit), (view.hit, view.hit))
        return np.stack([counted.group_products(index, left, right, binner.n_bins) for left, right in pairs])

    def histogram(counts: AnyFloatArray) -> FloatArray:
        return UNIT.histogram(view.score, counts, HISTOGRAM_BINS)

    if options.strategy != "uniform":
        return lambda counts: options.curve(
            binner.sums(counts), products(counts), binner.edges(counts), histogram(counts)
        )
    return Summed(
        Form(options.value),
        lambda counts: np.concatenate([*binner.sums(counts), *products(counts), histogram(counts)]),
    )


@table
def reliability_table(
    data: Sample,
    *,
    kind: Kind = "auto",
    pos_label: Label = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], ReliabilityCurve]:
    """Score and observed frequency in bins of the score.

    Examples
    --------
    >>> table = reliability_table([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], n_bins=2)
    >>> table.score.round(2).tolist(), table.frequency.tolist()
    ([0.15, 0.8], [0.0, 1.0])
    """
    shown = shown_view(data, kind, pos_label)
    return _prepare_table(data, TableOptions(n_bins, strategy, level, shown.kind, shown.label), shown.view)


@table
def classwise_reliability_tables(
    data: Sample,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], dict[Any, ReliabilityCurve]]:
    """Reliability table of every class against the rest, by label.

    Examples
    --------
    >>> tables = classwise_reliability_tables(["a", "b", "c"], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    >>> list(tables), len(tables["a"])
    (['a', 'b', 'c'], 3)
    """
    options = TableOptions(n_bins, strategy, level, "class-wise", None)
    prepare = partial(_prepare_table, data, options)
    return view_statistic(data, "class-wise", prepare, partial(_by_label, data.names))


@limited
@describe_parameters
def calibration_curve(
    y_true: ArrayLike, y_prob: ArrayLike, *, pos_label: Label = None, n_bins: int = 5, strategy: Strategy = "uniform"
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Observed frequency and mean predicted probability in bins, as `sklearn.calibration.calibration_curve`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_prob : array-like of shape (n,) or (n, k)
        Probabilities of `pos_label`, or of all classes.
    pos_label : object, default=None
        The class whose probability is judged. `None` is the class 1 of a single column, the second of two columns,
        and the predicted class of each row if there are more.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or between quantiles of the probabilities.

    Returns
    -------
    prob_true, prob_pred : ndarray
        Observed frequency and mean probability of each bin.

    Examples
    --------
    >>> from calibrant.metrics import calibration_curve
    >>> prob_true, prob_pred = calibration_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> prob_true, prob_pred
    (array([0., 1.]), array([0.2, 0.7]))
    """
    check_bins(n_bins, strategy)
    array, _ = as_matrix(y_prob, METRIC)
    if array.ndim == 2 and array.shape[1] > 1:
        data = check_sample(y_true, y_prob)
        view = single_view(data, "auto") if pos_label is None else class_view(data, column_of(data, pos_label))
    else:
        labels, _ = check_labels(y_true, len(array), METRIC)
        seen = distinct(labels)
        if len(seen) > 2:
            raise ValueError(
                f"y_true holds {len(seen)} classes, {seen.tolist()[:3]} ...: a single column of y_prob works for two "
                "classes only. Pass one column per class, or y_true == label."
            )
        positive = check_pos_label_consistency(pos_label, labels)
        # As probabilities of the classes 0 and 1 they are checked like all others.
        view = single_view(check_sample((labels == positive).astype(np.int64), array, classes=[0, 1]), "binary")
    edges = uniform_edges(n_bins)
    if strategy == "uniform":
        index = uniform_index(view.score, n_bins)
    else:
        index = edge_index(view.score, np.quantile(view.score, edges)[1:-1])
    sums = bin_sums(index, view.score, view.hit, np.ones(len(index)), n_bins)
    full = sums.weight > 0
    return sums.hit[full] / sums.weight[full], sums.score[full] / sums.weight[full]
