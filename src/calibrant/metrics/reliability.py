"""Reliability tables: score and observed frequency in bins, with an interval for every frequency.

The table is what a reliability diagram draws. Intervals are Wilson's: the frequencies `o` for which the observed one
is no further than `z` standard deviations away, `|o_b - o| ≤ z sqrt(o (1 - o) / n_b)`. They stay inside [0, 1] and
keep their level in small bins and for frequencies of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrant.bins import BinSums, Strategy, bin_sums, check_bins, edge_index, uniform_edges, uniform_index
from calibrant.docs import describe_parameters
from calibrant.inputs.labels import check_labels, distinct
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import METRIC
from calibrant.metrics.axis import UNIT
from calibrant.metrics.binned import Binner, expected_error
from calibrant.metrics.curve import HISTOGRAM_BINS, ReliabilityCurve
from calibrant.metrics.scalars import table
from calibrant.metrics.sums import Summed, no_spread
from calibrant.metrics.tabular import check_level
from calibrant.metrics.views import Kind, View, class_view, column_of, shown_view, single_view
from calibrant.sample import Sample
from calibrant.sklearn_private import check_pos_label_consistency
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray


def wilson_interval(
    frequency: AnyFloatArray, count: AnyFloatArray, level: float
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Wilson's interval of a frequency observed in `count` trials.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([0.5]), np.array([10.0]), 0.95)
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.237, 0.763)
    """
    check_level(level)
    z2 = float(ndtri((1 + level) / 2)) ** 2
    centre = (frequency + z2 / (2 * count)) / (1 + z2 / count)
    spread = frequency * (1 - frequency) / count + z2 / (4 * count**2)
    half = np.sqrt(z2 * np.clip(spread, 0, None)) / (1 + z2 / count)
    return np.clip(centre - half, 0, frequency), np.clip(centre + half, frequency, 1)


#: With fewer groups than this in a bin, nothing is assumed of how much their rows depend on each other.
FEWEST_GROUPS = 10


def independent_trials(frequency: AnyFloatArray, count: AnyFloatArray, products: AnyFloatArray) -> AnyFloatArray:
    """How many independent trials `count` observations of groups are worth.

    That is `n = f (1 - f) / V` with the variance `V = Σ_g (H_g - f N_g)² / N²` of the frequency over groups, between
    `N² / Σ N_g²` (rows of a group are all alike) and `N`. `products` are `Σ N_g²`, `Σ N_g H_g` and `Σ H_g²` over
    groups; where there are none, over observations, and the number is `N`.
    """
    alike = count**2 / products[0]
    variance = products[2] - 2 * frequency * products[1] + frequency**2 * products[0]
    inflated = variance * alike / np.maximum(alike - 1, 1e-9)
    found = frequency * (1 - frequency) * count**2 / np.maximum(inflated, 1e-300)
    few = (alike < FEWEST_GROUPS) | (frequency <= 0) | (frequency >= 1)
    return np.where(few, alike, np.clip(found, alike, count))


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
        score, frequency = sums.score[full] / count, np.clip(sums.hit[full] / count, 0, 1)
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


@dataclass(frozen=True)
class TablesByLabel:
    """A table for every class against the rest."""

    tables: tuple[TableOptions, ...]

    def value(self, sums: FloatArray) -> dict[Any, ReliabilityCurve]:
        return {options.label: options.value(part) for options, part in zip(self.tables, sums)}


def _prepare_table(data: Sample, view: View, options: TableOptions) -> Callable[[AnyFloatArray], ReliabilityCurve]:
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
        options,
        lambda counts: np.concatenate([*binner.sums(counts), *products(counts), histogram(counts)]),
        no_spread,
    )


@table
def reliability_table(
    data: Sample,
    *,
    kind: Kind = "auto",
    pos_label: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], ReliabilityCurve]:
    """Score and observed frequency in bins of the score.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label"}, default="auto"
        Which scores: the second class's of two, or the predicted class's. "auto" is binary for two classes and
        top-label for more. For every class at once see `classwise_reliability_tables`.
    pos_label : object, optional
        Judge this class against the rest instead.

    Examples
    --------
    >>> from calibrant.metrics import reliability_table
    >>> table = reliability_table([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], n_bins=2)
    >>> table.score.round(2).tolist(), table.frequency.tolist()
    ([0.15, 0.8], [0.0, 1.0])
    """
    shown = shown_view(data, kind, pos_label)
    return _prepare_table(data, shown.view, TableOptions(n_bins, strategy, level, shown.kind, shown.label))


@table
def classwise_reliability_tables(
    data: Sample,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], dict[Any, ReliabilityCurve]]:
    """Reliability table of every class against the rest, by label.

    Parameters
    ----------

    Examples
    --------
    >>> from calibrant.metrics import classwise_reliability_tables
    >>> tables = classwise_reliability_tables(["a", "b", "c"], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    >>> list(tables), len(tables["a"])
    (['a', 'b', 'c'], 3)
    """
    labels = data.names
    options = tuple(TableOptions(n_bins, strategy, level, "class-wise", label) for label in labels)

    def prepared(column: int) -> Callable[[AnyFloatArray], ReliabilityCurve]:
        return _prepare_table(data, class_view(data, column), options[column])

    if strategy != "uniform":
        return lambda counts: {label: prepared(column)(counts) for column, label in enumerate(labels)}

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.stack([cast(Summed, prepared(column)).sums(counts) for column in range(len(labels))])

    return Summed(TablesByLabel(options), sums, no_spread)


@limited
@describe_parameters
def calibration_curve(
    y_true: ArrayLike, y_prob: ArrayLike, *, pos_label: Any = None, n_bins: int = 5, strategy: Strategy = "uniform"
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
                f"y_true holds {len(seen)} classes, {seen.tolist()[:3]} ...: a single column of y_prob is for two. "
                "Pass one column per class, or y_true == label."
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
