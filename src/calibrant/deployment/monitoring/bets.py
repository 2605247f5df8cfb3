"""Bets against calibrated probabilities: anytime-valid evidence that labels no longer follow them.

A bettor believes that class j is ``e^δ`` times as likely (relative to the others) as p says, or that the right
probabilities are proportional to ``p^b``. Her capital, 1 at the start, is multiplied by the ratio of her probability of
each label to p's. If labels follow p this has expectation 1 at every row, whatever came before, so that her capital is
a martingale. So is any average of bettors, and one who waits and begins with row t; spreading the beginnings over all
rows, with shares that sum to one, keeps a late change visible. By Ville's inequality the chance that such an average,
which starts at 1 and is never negative, ever reaches ``1 / alpha`` is at most alpha: it may be looked at after every
batch, for ever.

This holds if rows are independent. A row with count c is c observations and multiplies capital by its ratio to the
power of c. Rows of one group may depend on each other in any way if groups are independent: a group multiplies capital
by the mean of the ratios of its observations, whose expectation is 1 as theirs is.

With a tolerance τ the probabilities are presumed right only up to factors between classes: the truth is proportional to
``p e^a`` for some a with ``max a - min a ≤ τ``, another one in each row. Each ratio is divided by the largest
expectation it can have then, which leaves a supermartingale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.sample import Sample
from calibrant.simplex import log_probabilities, log_softmax
from calibrant.typing import FloatArray, IntArray

#: What the bettors believe: shifts of a class's log-odds, and logarithms of the slope b. Each is twice the one before:
#: one of them is within a factor of 1.4 of any change between the ends.
SHIFTS = np.array([-1.6, -0.8, -0.4, -0.2, -0.1, 0.1, 0.2, 0.4, 0.8, 1.6])
LOG_SLOPES = np.array([-0.8, -0.4, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.4, 0.8])
#: Scale of the share ``1 / (1 + log(1 + n / _EARLY))`` of capital that still waits after n observations: 59% after 100,
#: 29% after 1,000, 18% after 10,000.
_EARLY = 100.0
#: No mean of ratios is taken to be smaller: its logarithm must be a number.
_SMALLEST = 1e-300


def classes_bet_on(k: int) -> IntArray:
    """Columns that have bettors of their own: of two classes one says it all."""
    return np.arange(k) if k > 2 else np.array([1])


def log_waiting(observations: float) -> float:
    """Logarithm of the share of the capital that begins to bet after more than so many observations."""
    return -float(np.log1p(np.log1p(observations / _EARLY)))


def log_ratios(data: Sample, tolerance: float = 0.0) -> FloatArray:
    """Logarithm of what labelled rows multiply each bettor's capital by: the shifts class by class, then the slopes."""
    p, columns = np.asarray(data.proba, dtype=np.float64), classes_bet_on(data.n_classes)
    of_bets, occurred = p[:, columns], data.y[:, None] == columns
    shifts = np.empty((len(columns), len(SHIFTS)))
    for i, shift in enumerate(SHIFTS):
        presumed = np.copysign(tolerance, shift)
        log_ratio = shift * occurred - np.log1p(of_bets * np.expm1(presumed + shift))
        if tolerance:
            log_ratio += np.log1p(of_bets * np.expm1(presumed))
        shifts[:, i] = _together(log_ratio, data)
    x, rows = log_probabilities(p), np.arange(len(p))
    slopes = np.empty((len(LOG_SLOPES), len(p)))
    for i, log_slope in enumerate(LOG_SLOPES):
        ratio = log_softmax(np.exp(log_slope) * x) - x
        slopes[i] = ratio[rows, data.y] - _largest_log_means(p, ratio, tolerance)
    return np.append(shifts.ravel(), _together(slopes.T, data))


def _together(log_ratio: FloatArray, data: Sample) -> FloatArray:
    """Logarithm of what all rows multiply capital by, from that of each row (n, m): groups count as one observation."""
    if data.groups is None:
        return np.asarray(data.each @ log_ratio)
    means = data.group_sums(data.each[:, None] * np.exp(log_ratio)) / data.group_sums(data.each)[:, None]
    return np.asarray(np.log(np.maximum(means, _SMALLEST)).sum(axis=0))


def _largest_log_means(p: FloatArray, log_ratio: FloatArray, tolerance: float) -> FloatArray:
    """Logarithm of the largest mean of a ratio under ``p e^a``, ``max a - min a ≤ tolerance``: all or nothing in a."""
    if tolerance == 0.0:
        return np.zeros(len(p))
    order = np.argsort(-log_ratio, axis=1)
    sorted_p = np.take_along_axis(p, order, axis=1)
    upper = np.cumsum(sorted_p * np.exp(np.take_along_axis(log_ratio, order, axis=1)), axis=1)
    mass = np.cumsum(sorted_p, axis=1)
    gain = np.expm1(tolerance)
    return np.asarray(np.log(np.max((upper[:, -1:] + gain * upper) / (mass[:, -1:] + gain * mass), axis=1)))


class LeadingBet(NamedTuple):
    """The bettor with the largest capital: a class (`column`) that occurs more often, or probabilities too close to the
    average, if `more`; `since` is the row with which her luck began."""

    log_capital: float
    kind: str
    column: int
    since: int
    more: bool


@dataclass
class Bets:
    """The capital of all bettors on one stream of rows."""

    observations: float
    #: Logarithm of the capital of each bettor that is in play.
    active: FloatArray
    #: Largest logarithm of a bettor's gains over a stretch that ends now, and the row at which that stretch begins.
    run: FloatArray
    since: IntArray

    @classmethod
    def start(cls, k: int) -> Bets:
        m = len(classes_bet_on(k)) * len(SHIFTS) + len(LOG_SLOPES)
        return cls(0.0, np.full(m, -np.inf), np.zeros(m), np.zeros(m, dtype=np.int64))

    def update(self, data: Sample, tolerance: float, first_row: int) -> None:
        """Bet on a block of rows, the first of which is row `first_row` of all that were seen."""
        begins = log_waiting(self.observations), log_waiting(self.observations + data.total)
        starting = begins[0] + np.log(-np.expm1(begins[1] - begins[0]))
        gains = log_ratios(data, tolerance)
        self.active = np.logaddexp(self.active, starting) + gains
        self.since = np.where(self.run <= 0.0, first_row, self.since)
        self.run = np.maximum(self.run, 0.0) + gains
        self.observations += data.total

    def log_capital(self) -> FloatArray:
        """Logarithm of each bettor's capital, in play or waiting."""
        return np.asarray(np.logaddexp(self.active, log_waiting(self.observations)))

    def log_means(self) -> tuple[FloatArray, float]:
        """Logarithms of the mean capital of the bettors on each class, and of those on the slope."""
        capital = self.log_capital()
        classes = capital[: -len(LOG_SLOPES)].reshape(-1, len(SHIFTS))
        return log_mean(classes), float(log_mean(capital[-len(LOG_SLOPES) :]))

    def log_evidence(self) -> float:
        """Logarithm of the mean of all: half of the money is on classes, half on the slope."""
        classes, slope = self.log_means()
        return float(log_mean(np.array([log_mean(classes), slope])))

    def leading(self, k: int) -> LeadingBet:
        """The most successful bettor on k classes."""
        columns, capital = classes_bet_on(k), self.log_capital()
        n_classes, n_slopes = len(columns) * len(SHIFTS), len(LOG_SLOPES)
        # Half of the money is on classes, half on slopes, however many bettors there are.
        capital -= np.repeat(np.log([n_classes, n_slopes]), [n_classes, n_slopes])
        best = int(np.argmax(capital))
        top, since = float(capital[best]), int(self.since[best])
        if best >= n_classes:
            return LeadingBet(top, "slope", -1, since, bool(LOG_SLOPES[best - n_classes] > 0.0))
        place, shift = divmod(best, len(SHIFTS))
        return LeadingBet(top, "class", int(columns[place]), since, bool(SHIFTS[shift] > 0.0))


def log_mean(x: FloatArray) -> FloatArray:
    """Logarithm of the mean of ``exp(x)`` along the last axis."""
    return log_sum(x) - np.log(x.shape[-1])


def log_sum(x: FloatArray) -> FloatArray:
    """Logarithm of the sum of ``exp(x)`` along the last axis; scipy's is many times slower for a few numbers."""
    return np.logaddexp.reduce(x, axis=-1)
