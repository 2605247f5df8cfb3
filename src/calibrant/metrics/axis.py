"""The range of probabilities that a diagram shows: all of them, a zoom on small ones, or log-odds.

The scores of a rare class lie in a corner of the unit square. If all its scores are small, the square shows only as far
as they reach; if a few are not, log-odds give every order of magnitude its room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logit

from calibrant.bins import quantiles, sum_by, uniform_index
from calibrant.typing import AnyFloatArray, FloatArray

#: Upper ends of a zoomed axis.
REACHES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: Events less frequent than this are rare.
RARE = 0.05
#: Ticks of log-odds axes that are tried.
LOG_ODDS_TICKS = (1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)


class ScoreAxis(NamedTuple):
    """A stretch of probabilities; `place` maps it to the unit interval."""

    low: float = 0.0
    high: float = 1.0
    log_odds: bool = False

    def place(self, probability: AnyFloatArray) -> AnyFloatArray:
        """Where probabilities lie on the axis, from 0 to 1; on log-odds axes those outside lie at its ends.

        Examples
        --------
        >>> ScoreAxis(0.0, 0.1).place(np.array([0.05])).tolist()
        [0.5]
        >>> ScoreAxis(0.001, 0.999, True).place(np.array([0.0, 0.001, 0.5, 1.0])).round(3).tolist()
        [0.0, 0.0, 0.5, 1.0]
        """
        if not self.log_odds:
            return (probability - self.low) / (self.high - self.low)
        z, ends = logit(np.clip(probability, self.low, self.high)), logit(np.array([self.low, self.high]))
        return np.asarray((z - ends[0]) / (ends[1] - ends[0]))

    def ticks(self, most: int = 6) -> list[float]:
        """Probabilities at which the axis has ticks.

        Examples
        --------
        >>> ScoreAxis().ticks(3), ScoreAxis(0.0, 0.05).ticks(), ScoreAxis(0.001, 0.999, True).ticks()
        ([0.0, 0.5, 1.0], [0.0, 0.01, 0.02, 0.03, 0.04, 0.05], [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
        """
        if self.log_odds:
            inside = [tick for tick in LOG_ODDS_TICKS if self.low <= tick <= self.high]
            return inside if len(inside) <= most + 1 else inside[:: -(-len(inside) // most)]
        leading = round(self.high / 10 ** np.floor(np.log10(self.high)))
        parts = {1: 5, 2: 4, 5: 5}[leading] if most >= 6 else 2
        return [round(float(tick), 6) for tick in np.linspace(self.low, self.high, parts + 1)]

    def histogram(self, score: AnyFloatArray, counts: AnyFloatArray, n_bins: int) -> FloatArray:
        """Number of the scores in bins that are equally wide on this axis."""
        return sum_by(uniform_index(self.place(score), n_bins), counts, n_bins)


#: The axis of all probabilities.
UNIT = ScoreAxis()


def fitting_axis(score: AnyFloatArray, frequency: AnyFloatArray, weight: AnyFloatArray) -> ScoreAxis:
    """The axis for scores of one event and the frequencies it has at them.

    Examples
    --------
    >>> fitting_axis(np.array([0.01, 0.03]), np.array([0.0, 0.02]), np.ones(2))
    ScoreAxis(low=0.0, high=0.05, log_odds=False)
    """
    # The last few rows may have any frequency; they do not decide.
    reached = float(quantiles(frequency, weight, np.array([0.98]))[0])
    farthest = max(float(score.max()), reached)
    for reach in REACHES:
        if farthest <= reach:
            return ScoreAxis(0.0, reach)
    if float(weight @ frequency) >= RARE * float(weight.sum()):
        return UNIT
    lowest = max(float(quantiles(score, weight, np.array([0.01]))[0]), 1e-6)
    low = 10.0 ** np.floor(np.log10(min(lowest, 0.01)))
    highest = min(float(score.max()), 1 - 1e-4)
    return ScoreAxis(float(low), 0.9 if highest <= 0.9 else 0.99 if highest <= 0.99 else 0.9999, True)
