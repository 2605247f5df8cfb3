"""Calibration in the large: how often each class is predicted, and how often it occurs.

The expected count of class `j` is the sum of its probabilities over all observations, the observed one the number of
observations with this label. Their ratio is what a reader of rare classes wants to know ("17 times too many"). Its
interval comes from Wilson's interval of the observed share, which keeps its level for a handful of cases and for none.
A share of `n` equal coins has variance `q (1 - q) / n`; predictions that tell rows apart leave less to chance and
groups that depend on each other more, so `n` is divided by what is left of that variance, and by the design effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics.counts import N_BINS, binned_coins, count_p_values, design_effects
from calibrant.metrics.reliability import wilson_interval
from calibrant.metrics.scalars import Statistic, scalar, table
from calibrant.metrics.sums import Summed, no_spread, summed_mean
from calibrant.metrics.tabular import Tabular
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray


@dataclass(frozen=True)
class ClassFrequencies(Tabular):
    """Expected and observed counts of every class.

    Attributes
    ----------
    classes : tuple
        Labels, in the order of the columns.
    expected : ndarray of shape (k,)
        Sum of the predicted probabilities.
    observed : ndarray of shape (k,)
        Number of observations with this label.
    ratio : ndarray of shape (k,)
        Expected over observed: 2 means predicted twice as often as it occurs; infinite if it never occurs.
    low, high : ndarray of shape (k,)
        Interval of the ratio at `level`.
    p_value : ndarray of shape (k,)
        Probability of a difference this large if the predictions were calibrated and rows (or groups, if given) are
        independent: twice the smaller tail of the sum of coins, exact up to 1 % of itself. A count takes few values,
        so for rare classes the test rejects less often than its level says.
    level : float
        Confidence level of the interval.

    Examples
    --------
    >>> from calibrant.metrics import calibration_in_the_large
    >>> found = calibration_in_the_large([0, 0, 0, 1], [0.6, 0.5, 0.4, 0.5])
    >>> found.observed, found.ratio.round(2)
    (array([3., 1.]), array([0.67, 2.  ]))
    """

    classes: tuple[Any, ...]
    expected: AnyFloatArray
    observed: AnyFloatArray
    ratio: AnyFloatArray
    low: AnyFloatArray
    high: AnyFloatArray
    p_value: AnyFloatArray
    level: float

    @property
    def total(self) -> float:
        """Number of observations."""
        return float(self.observed.sum())

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table."""
        columns = ("expected", "observed", "ratio", "low", "high", "p_value")
        return {"class": np.array(self.classes), **{name: getattr(self, name) for name in columns}}


@dataclass(frozen=True)
class FrequencyTable:
    """The table from sums over rows: for every class its count, `Σ c p 1[y = j]`, and the coins in their bins."""

    labels: tuple[Any, ...]
    level: float

    def value(self, sums: FloatArray, effect: AnyFloatArray | float = 1.0) -> ClassFrequencies:
        observed, hit = sums[:, 0], sums[:, 1]
        coins = sums[:, 2:].reshape(-1, 2, N_BINS)
        expected, total = coins[:, 1].sum(axis=1), float(observed.sum())
        share = expected / total
        # Coins in a bin are alike: their squares are those of the bin's mean.
        squares = np.sum(coins[:, 1] ** 2 / np.maximum(coins[:, 0], 1e-300), axis=1)
        spread = np.maximum(expected - squares, observed - 2 * hit + squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.nan_to_num(spread / (total * share * (1 - share)), nan=1.0, posinf=1.0)
            low, high = wilson_interval(observed / total, total / (np.clip(left, 1e-6, 1.0) * effect), self.level)
            ratios = [expected / count for count in (observed, high * total, low * total)]
        ratio, smallest, largest = (np.where(np.isnan(part), 1.0, part) for part in ratios)
        p_value = count_p_values(coins, observed)
        if np.any(np.asarray(effect) > 1):
            p_value = np.maximum(p_value, count_p_values(coins, observed, effect))
        return ClassFrequencies(self.labels, expected, observed, ratio, smallest, largest, p_value, self.level)


def _frequency_sums(data: Sample, each: AnyFloatArray) -> FloatArray:
    observed = np.bincount(data.y, weights=each, minlength=data.n_classes)
    hit = np.bincount(data.y, weights=each * data.true_proba, minlength=data.n_classes)
    coins = binned_coins(data.proba, each).reshape(data.n_classes, -1)
    return np.column_stack([observed, hit, coins])


def class_frequencies(data: Sample, level: float = 0.95) -> ClassFrequencies:
    """The table of validated predictions; p-values and intervals hold if rows, or groups, are independent."""
    form = FrequencyTable(tuple(data.names), level)
    return form.value(_frequency_sums(data, data.each), design_effects(data))


@table
def calibration_in_the_large(data: Sample, *, level: float = 0.95) -> Callable[[AnyFloatArray], ClassFrequencies]:
    """Expected and observed count of every class.

    P-values and intervals hold if rows are independent, or groups if `groups` or `blocks` are given.

    Returns
    -------
    ClassFrequencies
        A table with `classes`, `expected`, `observed`, `ratio`, `low`, `high` and `p_value`.

    Examples
    --------
    >>> from calibrant.metrics import calibration_in_the_large
    >>> table = calibration_in_the_large([0] * 95 + [1] * 5, [0.2] * 100)
    >>> table.expected.round(1).tolist(), table.observed.tolist(), table.ratio.round(2).tolist()
    ([80.0, 20.0], [95.0, 5.0], [0.84, 4.0])
    """
    if data.groups is not None:
        return lambda weight: class_frequencies(data.with_counts(weight), level)
    form = FrequencyTable(tuple(data.names), level)
    return Summed(form, lambda weight: _frequency_sums(data, weight), no_spread)


@scalar(lower=-1.0, upper=1.0, of_sums=True)
def positive_gap(data: Sample, *, pos_label: Any = None) -> Statistic:
    """Mean predicted probability of one class minus its frequency: positive if it is predicted too often.

    Parameters
    ----------
    pos_label : label, optional
        The class in question; by default that of the last column, the second of two.

    Examples
    --------
    >>> from calibrant.metrics import positive_gap
    >>> round(positive_gap([0, 0, 0, 1], [0.6, 0.5, 0.4, 0.5]), 3)
    0.25
    """
    labels = data.names
    if pos_label is not None and pos_label not in labels:
        raise ValueError(f"pos_label={pos_label!r} is none of the classes {labels}")
    column = len(labels) - 1 if pos_label is None else labels.index(pos_label)
    return summed_mean(data.proba[:, column] - (data.y == column))
