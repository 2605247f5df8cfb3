"""Calibration in the large: how often each class is predicted, how often it occurs, and how surely both differ.

The expected count of class `j` is the sum of its probabilities over all observations, the observed one the number of
observations with this label. Their ratio is what a reader of rare classes wants to know ("17 times too many"). Its
interval comes from Wilson's interval of the observed share. A share of `n` equal coins has variance `q (1 - q) / n`;
predictions that tell rows apart leave less to chance and groups that depend on each other more, so `n` is divided by
what is left of that variance, and by the design effect.

If predictions are calibrated and rows independent, the number of rows with a label is a sum of independent coins with
probabilities `p_i` (the Poisson-binomial distribution); a row with count `c` is `c` coins. The p-value is twice the
smaller tail, `min(1, 2 P(S ≥ s))` for a count `s` above its expectation: valid for every number of rows, and
conservative where few cases are expected, since a count takes few values.

Coins of nearly the same probability are kept as their number and their mean in bins of an eighth of an octave of `p`
and of `1 - p`, so that parts of the rows add up. This changes the variance by at most 0.13 %. The tail is summed
exactly after an exponential tilt towards `s` (so that its relative accuracy is the same at 1e-30 as at 0.1), or, from a
variance of `MOST_EXACT` on, by Lugannani and Rice's saddle point approximation. P-values down to 1e-6 are right within
1 % (if all predictions are equal, within 0.1 %).

Dependence inside groups makes counts vary more, by the *design effect*: then `s` and all numbers are divided by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, logit

from calibrant.confidence import wilson_interval
from calibrant.metrics.result_types import Estimate, Tabular
from calibrant.metrics.scalars import Form, Statistic, Summed, scalar, summed_mean, table
from calibrant.metrics.views import column_of
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray, Label

#: Bins are the leading bits of the smaller of `p` and `1 - p` in single precision, from 2^-14 on.
_DROPPED_BITS = 20
_SMALLEST = np.float32(2.0**-14)
_FIRST = int(_SMALLEST.view(np.int32)) >> _DROPPED_BITS
_HALF = (int(np.float32(0.5).view(np.int32)) >> _DROPPED_BITS) - _FIRST + 1
N_BINS = 2 * _HALF
#: Variance of a tilted count up to which its tail is summed.
MOST_EXACT = 25.0
#: Whole numbers are met within this share of the total.
_ROUNDING = 1e-9
#: The design effect of few groups is pulled towards the largest possible one as if so many more groups had shown it.
_PRIOR_GROUPS = 4.0


def binned_coins(proba: AnyFloatArray, each: AnyFloatArray) -> FloatArray:
    """Number and sum of the probabilities in each bin, for every column: an array of shape (k, 2, N_BINS)."""
    found = np.empty((proba.shape[1], 2, N_BINS))
    for column, sums in zip(proba.T, found):
        p = np.ascontiguousarray(column, dtype=np.float64)
        smaller = np.maximum(np.minimum(p, 1.0 - p), _SMALLEST).astype(np.float32)
        index = (smaller.view(np.int32) >> _DROPPED_BITS) - _FIRST
        np.subtract(N_BINS - 1, index, out=index, where=p > 0.5)
        sums[0] = np.bincount(index, each, minlength=N_BINS)
        sums[1] = np.bincount(index, each * p, minlength=N_BINS)
    return found


def count_p_values(coins: FloatArray, observed: AnyFloatArray, effect: AnyFloatArray | float = 1.0) -> FloatArray:
    """P-value of each count, given the coins of `binned_coins` and its design effect.

    Fractions of an observation are rounded towards what was expected. Those that a design effect makes are no fewer
    than the observations were: there the tails of the two nearest whole numbers are interpolated.
    """
    effects = np.broadcast_to(effect, observed.shape)
    pairs = zip(coins, observed, effects)
    return np.array(
        [_count_p_value(part[0] / by, part[1] / by, float(count / by), between=by > 1) for part, count, by in pairs]
    )


def _count_p_value(number: FloatArray, sums: FloatArray, count: float, *, between: bool) -> float:
    slack = _ROUNDING * float(number.sum())
    number, sums = number[number > 0], sums[number > 0]
    p = sums / number
    count -= float(number[p == 1.0].sum())
    number, p = number[(p > 0) & (p < 1)], p[(p > 0) & (p < 1)]
    above = count - float(number @ p)
    if abs(above) <= slack:
        return 1.0
    if above < 0:  # the other outcome is the one that came too often
        count, p = float(number.sum()) - count, 1.0 - p
    # A number of 2.3 is two coins and one that shows 0.3 times as often: the outcome that is counted, so that what is
    # missing of a coin is not taken for the other one.
    whole = np.floor(number + slack)
    rest = np.maximum(number - whole, 0.0)
    number, p = np.append(whole, (rest > slack).astype(float)), np.append(p, rest * p)
    number, p = number[number > 0], p[number > 0]
    below = float(np.floor(count + slack))
    tail = _upper_tail(number, p, below)
    if between and (part := count - below) > slack:
        tail = tail ** (1 - part) * _upper_tail(number, p, min(below + 1.0, float(number.sum()))) ** part
    return min(1.0, 2.0 * tail)


def _upper_tail(number: FloatArray, p: FloatArray, count: float) -> float:
    """`P(S ≥ count)` for a sum of coins."""
    # Coins that fall one way only have no log-odds; the complement of a tiny probability rounds to 1.
    count, chance = count - float(number[p >= 1.0].sum()), (p > 0.0) & (p < 1.0)
    number, p = number[chance], p[chance]
    total = float(number.sum())
    if count > total:
        return 0.0
    if count <= number @ p:
        return 1.0
    if count == total:
        return float(np.exp(number @ np.log(p)))
    odds = logit(p)
    tilt = _tilt(number, odds, count)
    tilted = expit(odds + tilt)
    variance = float(number @ (tilted * (1 - tilted)))
    # log E exp(tilt S) - tilt count, without cancellation: log(1 - p + p e^t) = log((1 - p) / (1 - tilted)).
    log_weight = float(number @ (np.logaddexp(0.0, odds + tilt) - np.logaddexp(0.0, odds))) - tilt * count
    if variance > MOST_EXACT:
        w, u = np.sqrt(max(-2.0 * log_weight, 0.0)), -np.expm1(-tilt) * np.sqrt(variance)
        if w < 1e-3:
            return 1.0
        density = np.exp(-0.5 * w * w) / np.sqrt(2 * np.pi)
        return float(np.exp(log_ndtr(-w)) + density * (1 / u - 1 / w))
    # Frequencies of the count modulo a power of two beyond which the tilted count hardly goes.
    size = 1 << int(np.ceil(np.log2(min(total + 1.0, 20.0 * np.sqrt(variance) + 64.0))))
    angle = -2j * np.pi / size * np.arange(size // 2 + 1)
    log_transform = number @ np.log1p(tilted[:, None] * np.expm1(angle)[None, :])
    frequency = np.fft.irfft(np.exp(log_transform - angle * count), size)
    beyond = np.arange(min(size // 2 + 1, int(total - count) + 1))
    tail = float(np.maximum(frequency[beyond], 0.0) @ np.exp(-tilt * beyond))
    return float(np.exp(log_weight + np.log(max(tail, 1e-300))))


def _tilt(number: FloatArray, odds: FloatArray, count: float) -> float:
    """The `t > 0` at which coins with log-odds `odds + t` sum to `count` on average."""
    low, high = 0.0, 1.0
    while number @ expit(odds + high) < count:
        low, high = high, 2.0 * high
    t = high
    for _ in range(100):
        p = expit(odds + t)
        miss, slope = float(number @ p) - count, float(number @ (p * (1 - p)))
        low, high = (low, t) if miss > 0 else (t, high)
        step = -miss / slope if slope > 0 else np.nan
        moved = t + step if low < t + step < high else (low + high) / 2.0
        if abs(moved - t) <= 1e-13 * max(1.0, t):
            break
        t = moved
    return t


def design_effects(data: Sample) -> FloatArray:
    """By how much dependence inside groups multiplies the variance of each class's count.

    The squares of the groups' residuals over those of the rows', pulled towards the largest possible effect (that of
    rows that all agree) where few groups show the rarer outcome and cannot tell. One without groups.
    """
    k = data.n_classes
    if data.groups is None:
        return np.ones(k)
    largest, found = data.total / data.units, np.empty(k)
    for column in range(k):
        p, each = np.asarray(data.proba[:, column], dtype=np.float64), data.each
        variance, residual = p * (1 - p), (data.y == column) - p
        if (spread := float(each @ variance)) > 0:  # what is common to all rows is no dependence
            residual = residual - variance * (float(each @ residual) / spread)
        seen = float(data.class_counts[column])
        rarer = min(seen, data.total - seen, float(each @ np.minimum(p, 1 - p)))
        sums, rows = data.group_sums(each * residual), float(each @ residual**2)
        found[column] = design_effect(data, sums, rows, 2.0 * rarer / largest)
    return found


def design_effect(data: Sample, sums: FloatArray, variance: float, most: float = np.inf) -> float:
    """By how much dependence multiplies the variance of a sum, from its parts by group and its variance without.

    At most so many groups can tell.
    """
    squares, largest = sums**2, data.total / data.units
    shown = min(float(squares.sum() ** 2 / max(squares @ squares, 1e-300)), most)
    effect = float(squares.sum()) / variance if variance > 0 else largest
    return float(np.clip((_PRIOR_GROUPS * largest + shown * effect) / (_PRIOR_GROUPS + shown), 1.0, max(largest, 1.0)))


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
        return {"class": np.array(self.classes), **super().to_dict()}


def gap_of_ratio(found: ClassFrequencies, column: int) -> Estimate:
    """Predicted minus observed share of a class: it holds 0 where the interval of the ratio holds 1."""
    share = float(found.expected[column]) / found.total
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (float(share * (1 - 1 / part[column])) for part in (found.ratio, found.low, found.high))
    return Estimate(value, low, high, found.level)


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
        # That one more row turns out otherwise is never ruled out, however sure the predictions are.
        spread = np.maximum(np.maximum(expected - squares, observed - 2 * hit + squares), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = spread / (total * share * (1 - share))
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
    >>> table = calibration_in_the_large([0] * 95 + [1] * 5, [0.2] * 100)
    >>> table.expected.round(1).tolist(), table.observed.tolist(), table.ratio.round(2).tolist()
    ([80.0, 20.0], [95.0, 5.0], [0.84, 4.0])
    """
    if data.groups is not None:
        return lambda weight: class_frequencies(data.with_counts(weight), level)
    form = FrequencyTable(tuple(data.names), level)
    return Summed(Form(form.value), lambda weight: _frequency_sums(data, weight))


@scalar(lower=-1.0, upper=1.0, of_sums=True)
def positive_gap(data: Sample, *, pos_label: Label = None) -> Statistic:
    """Mean predicted probability of one class minus its frequency: positive if it is predicted too often.

    Parameters
    ----------
    pos_label : label, optional
        The class in question; by default that of the last column, the second of two.

    Examples
    --------
    >>> round(positive_gap([0, 0, 0, 1], [0.6, 0.5, 0.4, 0.5]), 3)
    0.25
    """
    column = data.n_classes - 1 if pos_label is None else column_of(data, pos_label)
    return summed_mean(data.proba[:, column] - (data.y == column))
