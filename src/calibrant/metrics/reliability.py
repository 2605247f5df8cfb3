"""Reliability tables: score and observed frequency in bins, with an interval for every frequency.

The table is what a reliability diagram draws. Intervals are Wilson's: the frequencies `o` for which the observed one
is no further than `z` standard deviations away, `|o_b - o| ≤ z sqrt(o (1 - o) / n_b)`. They stay inside [0, 1] and
are honest for small bins and for frequencies of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from calibrant.bins import BinSums, Strategy, sum_by, uniform_edges, uniform_index
from calibrant.metrics.binned import Binner, expected_error
from calibrant.metrics.scalars import table
from calibrant.metrics.sums import Summed, no_spread
from calibrant.metrics.tabular import ScoredCurve, check_level
from calibrant.metrics.views import Kind, View, class_view, shown_view
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

HISTOGRAM_BINS = 25


@dataclass(frozen=True)
class ReliabilityTable(ScoredCurve):
    """Occupied bins of one binary view, in ascending order.

    Attributes
    ----------
    lower, upper : ndarray
        Ends of each bin; the right one belongs to it.
    weight : ndarray
        Number of rows in the bin, or their total weight.
    score : ndarray
        Mean predicted probability.
    frequency : ndarray
        Observed frequency of the event.
    low, high : ndarray
        Interval of the frequency at `level`.
    histogram : ndarray
        Weight of the scores in `HISTOGRAM_BINS` bins of equal width from 0 to 1, whatever the bins of the table.
    kind : str
        "binary", "top-label" or "class-wise".
    label : object
        The class whose probability is judged; None for top-label.
    level : float
        Confidence level of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import reliability_table
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> table = reliability_table(y, p, n_bins=5)
    >>> len(table), sorted(table.to_dict())
    (5, ['frequency', 'high', 'low', 'lower', 'score', 'upper', 'weight'])
    """

    COLUMNS = ("lower", "upper", "weight", "score", "frequency", "low", "high")

    lower: AnyFloatArray
    upper: AnyFloatArray
    weight: AnyFloatArray

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def expected_error(self) -> float:
        """Expected calibration error over these bins."""
        return expected_error(BinSums(self.weight, self.weight * self.score, self.weight * self.frequency))


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

    def table(
        self, sums: BinSums, products: AnyFloatArray, edges: AnyFloatArray, histogram: AnyFloatArray
    ) -> ReliabilityTable:
        """The occupied bins; equal-mass bins all are."""
        full = sums.weight > 0
        lower, upper = edges[:-1], edges[1:]
        if self.strategy == "uniform":
            lower, upper = lower[full], upper[full]
        count = sums.weight[full]
        frequency = np.clip(sums.hit[full] / count, 0, 1)
        low, high = wilson_interval(frequency, independent_trials(frequency, count, products[:, full]), self.level)
        return ReliabilityTable(
            lower=lower,
            upper=upper,
            weight=count,
            score=sums.score[full] / count,
            frequency=frequency,
            low=low,
            high=high,
            histogram=histogram,
            kind=self.kind,
            label=self.label,
            level=self.level,
        )

    def value(self, sums: FloatArray) -> ReliabilityTable:
        """The table from sums over equal-width bins (counts, scores, hits, products), followed by the histogram."""
        bins, histogram = np.split(sums, [6 * self.n_bins])
        bins = bins.reshape(6, -1)
        return self.table(BinSums(*bins[:3]), bins[3:], uniform_edges(self.n_bins), histogram)


@dataclass(frozen=True)
class TablesByLabel:
    """A table for every class against the rest."""

    tables: tuple[TableOptions, ...]

    def value(self, sums: FloatArray) -> dict[Any, ReliabilityTable]:
        return {options.label: options.value(part) for options, part in zip(self.tables, sums)}


def _prepare_table(data: Sample, view: View, options: TableOptions) -> Callable[[AnyFloatArray], ReliabilityTable]:
    binner = Binner(view, options.n_bins, options.strategy)

    def products(counts: AnyFloatArray) -> FloatArray:
        index, counted, one = binner.index(counts), data.with_counts(counts), np.ones(len(counts))
        pairs = ((one, one), (one, view.hit), (view.hit, view.hit))
        return np.stack([counted.group_products(index, left, right, binner.n_bins) for left, right in pairs])

    if options.strategy != "uniform":
        return lambda counts: options.table(
            binner.sums(counts), products(counts), binner.edges(counts), score_histogram(view.score, counts)
        )

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.concatenate([*binner.sums(counts), *products(counts), score_histogram(view.score, counts)])

    return Summed(options, sums, no_spread)


def score_histogram(score: AnyFloatArray, counts: AnyFloatArray) -> FloatArray:
    """Weight of the scores in `HISTOGRAM_BINS` bins of equal width."""
    return sum_by(uniform_index(score, HISTOGRAM_BINS), counts, HISTOGRAM_BINS)


@table
def reliability_table(
    data: Sample,
    *,
    kind: Kind = "auto",
    label: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], ReliabilityTable]:
    """Score and observed frequency in bins of the score.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label"}, default="auto"
        Which scores: the second class's of two, or the predicted class's. "auto" is binary for two classes and
        top-label for more. For every class at once see `classwise_reliability_tables`.
    label : object, optional
        Judge this class against the rest instead.

    Examples
    --------
    >>> from calibrant.metrics import reliability_table
    >>> table = reliability_table([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], n_bins=2)
    >>> table.score.round(2).tolist(), table.frequency.tolist()
    ([0.15, 0.8], [0.0, 1.0])
    """
    shown = shown_view(data, kind, label)
    return _prepare_table(data, shown.view, TableOptions(n_bins, strategy, level, shown.kind, shown.label))


@table
def classwise_reliability_tables(
    data: Sample,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
) -> Callable[[AnyFloatArray], dict[Any, ReliabilityTable]]:
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

    def prepared(column: int) -> Callable[[AnyFloatArray], ReliabilityTable]:
        return _prepare_table(data, class_view(data, column), options[column])

    if strategy != "uniform":
        return lambda counts: {label: prepared(column)(counts) for column, label in enumerate(labels)}

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.stack([cast(Summed, prepared(column)).sums(counts) for column in range(len(labels))])

    return Summed(TablesByLabel(options), sums, no_spread)
