"""What metrics return besides numbers: tables, values with intervals, tests, and one reliability curve.

The curve says how often an event happens at each score, whichever way it was made: `reliability_table` makes it from
bins, `corp_curve` by isotonic regression, `smooth_curve` with a kernel and `calibration_belt` from a polynomial of the
log-odds.

The scores of a rare class lie in a corner of the unit square, so the axis of a curve ends where the rows do, a few of
them aside. Log-odds, which give every order of magnitude its room, are for those who ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from calibrant.bins import quantiles, sum_by, uniform_index
from calibrant.optional import require
from calibrant.typing import AnyFloatArray, FloatArray


class Tabular:
    """A result with columns: its arrays, unless it says otherwise."""

    def to_dict(self) -> dict[str, Any]:
        """The columns as arrays, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def to_pandas(self) -> Any:
        """The columns as a pandas data frame."""
        return require("pandas", extra="bench").DataFrame(self.to_dict())


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    Examples
    --------
    >>> from calibrant.metrics import confidence_interval
    >>> found = confidence_interval("brier", [0, 1, 1, 0] * 25, [0.1, 0.7, 0.6, 0.4] * 25)
    >>> bool(found.low < found.value < found.high), found.level
    (True, 0.95)
    """

    value: float
    low: float
    high: float
    level: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


class CalibrationTest(NamedTuple):
    """Result of a test of calibration.

    Examples
    --------
    >>> from calibrant.metrics import calibration_test
    >>> found = calibration_test([0, 1] * 50, [0.9] * 100, n_resamples=99)
    >>> found.name, found.p_value
    ('kuiper', 0.01)
    """

    statistic: float
    p_value: float
    name: str
    kind: str
    n_resamples: int


#: Observations at either end of the scores that do not decide where an axis and its curves end: fewer say nothing.
FEW = 10.0
#: Ticks of log-odds axes that are tried.
LOG_ODDS_TICKS = (1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)


class ScoreAxis(NamedTuple):
    """A stretch of probabilities; `place` maps it to the unit interval."""

    low: float = 0.0
    high: float = 1.0
    log_odds: bool = False

    def place(self, probability: AnyFloatArray) -> AnyFloatArray:
        """Where probabilities lie on the axis, from 0 to 1; on log-odds axes those outside lie at its ends."""
        if not self.log_odds:
            return (probability - self.low) / (self.high - self.low)
        z, ends = logit(np.clip(probability, self.low, self.high)), logit(np.array([self.low, self.high]))
        return np.asarray((z - ends[0]) / (ends[1] - ends[0]))

    def ticks(self, most: int = 6) -> list[float]:
        """Probabilities at which the axis has ticks."""
        if self.log_odds:
            inside = [tick for tick in LOG_ODDS_TICKS if self.low <= tick <= self.high]
            return inside if len(inside) <= most + 1 else inside[:: -(-len(inside) // most)]
        step = round_step(self.high - self.low, most - 1)
        first, last = np.ceil(self.low / step - 1e-9), np.floor(self.high / step + 1e-9)
        return [round(float(tick), 6) + 0.0 for tick in np.arange(first, last + 1) * step]

    def histogram(self, score: AnyFloatArray, counts: AnyFloatArray, n_bins: int) -> FloatArray:
        """Number of the scores in bins that are equally wide on this axis."""
        return sum_by(uniform_index(self.place(score), n_bins), counts, n_bins)


#: The axis of all probabilities.
UNIT = ScoreAxis()


def round_step(width: float, most: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that divides a width into at most so many parts."""
    size = 10.0 ** np.floor(np.log10(width / most))
    return float(next(times * size for times in (1.0, 2.0, 5.0, 10.0) if times * size * most >= width * (1 - 1e-9)))


def round_axis(low: float, high: float) -> ScoreAxis:
    """The shortest axis with round ends that holds two probabilities; it starts at zero if that is near."""
    high = max(high, 0.001)
    low = 0.0 if low < 0.4 * high or high - low < 0.1 * high else low
    step = round_step(high - low, 5)
    ends = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    return ScoreAxis(round(float(ends[0]), 9), round(float(ends[1]), 9))


def well_inside(weight: AnyFloatArray) -> NDArray[np.bool_]:
    """Points, in the order of their scores, beyond which enough observations lie on both sides, their own included."""
    reached, few = np.cumsum(weight), min(FEW, float(weight.sum()) / 20)
    return np.asarray((reached >= few) & (reached[-1] - reached + weight >= few))


def fitting_axis(
    score: AnyFloatArray, frequency: AnyFloatArray, weight: AnyFloatArray, *, log_odds: bool = False
) -> ScoreAxis:
    """The axis for scores of one event, ascending, and the frequencies it has at them."""
    inside = score[well_inside(weight)]
    first, last = float(inside[0]), float(inside[-1])
    if not log_odds:
        reached = quantiles(frequency, weight, np.array([0.02, 0.98]))
        return round_axis(min(first, float(reached[0])), max(last, float(reached[1])))
    low = 10.0 ** np.floor(np.log10(min(max(first, 1e-6), 0.01)))
    return ScoreAxis(float(low), next((end for end in (0.5, 0.9, 0.99, 0.999) if last <= end), 0.9999), True)


#: Bars of the histogram below a diagram.
HISTOGRAM_BINS = 25

Maker = Literal["bins", "corp", "kernel", "belt"]
Around = Literal["curve", "diagonal"]


class ScoreParts(NamedTuple):
    """A mean score and its parts: `score = miscalibration - discrimination + uncertainty`.

    Examples
    --------
    >>> from calibrant.metrics import corp_curve
    >>> parts = corp_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]).parts["brier"]
    >>> round(parts.score, 3), round(parts.miscalibration - parts.discrimination + parts.uncertainty, 3)
    (0.185, 0.185)
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True)
class ReliabilityCurve(Tabular):
    """How often an event happens, against its predicted probability: the points of a curve, and a band.

    Attributes
    ----------
    maker : {"bins", "corp", "kernel", "belt"}
        How the curve was made.
    lower, upper : ndarray
        Scores that each point stands for: the ends of its bin (the right one belongs to it), the smallest and the
        largest score of a step of the isotonic regression, or the score itself.
    score : ndarray
        Where each point is, ascending: the mean score of its bin or step, or places at equal distances.
    frequency : ndarray
        Frequency of the event there.
    weight : ndarray
        Number of observations that a point rests on: in its bin or step, under the kernel, or nearest to it.
    at, low, high : ndarray
        The band: its two edges at the scores `at`, which are those of the points except for isotonic regression.
    around : {"curve", "diagonal"}
        The band shows how far the curve can be trusted, or where the curve of calibrated predictions would lie.
    level : float
        Confidence level of the band: at each score by itself, for the belt as a whole.
    error : float
        How far the curve is from the diagonal: ECE over these bins, smooth ECE, the miscalibration part of the Brier
        score for isotonic regression, and the mean distance for the belt.
    histogram : ndarray
        Number of observations in `HISTOGRAM_BINS` bins that are equally wide on `axis`.
    kind : {"binary", "top-label", "class-wise"}
        Whose probability is judged.
    label : object
        The class whose probability is judged; None for the predicted class.
    axis : ScoreAxis
        Range of probabilities worth showing: it ends where the rows do.
    parts : mapping of str to ScoreParts
        Parts of "brier" and "log_loss" that isotonic regression tells apart, with the overall frequency as the
        forecast that knows nothing; else empty.
    test : CalibrationTest or None
        The belt's test of the diagonal.
    bandwidth : float or None
        Width of the kernel.
    degree : int or None
        Of the belt's polynomial in the log-odds.

    Examples
    --------
    >>> from calibrant.metrics import calibration_belt, reliability_table
    >>> y, p = [0, 1, 1, 0] * 25, [0.1, 0.7, 0.6, 0.4] * 25
    >>> table = reliability_table(y, p, n_bins=2)
    >>> table.frequency, round(table.error, 2), sorted(table.to_dict())
    (array([0., 1.]), 0.3, ['frequency', 'high', 'low', 'lower', 'score', 'upper', 'weight'])
    >>> calibration_belt(y, p).test.p_value < 0.001
    True
    """

    maker: Maker
    lower: AnyFloatArray
    upper: AnyFloatArray
    score: AnyFloatArray
    frequency: AnyFloatArray
    weight: AnyFloatArray
    at: AnyFloatArray
    low: AnyFloatArray
    high: AnyFloatArray
    level: float
    error: float
    histogram: AnyFloatArray
    kind: str
    label: Any
    around: Around = "curve"
    axis: ScoreAxis = UNIT
    parts: Mapping[str, ScoreParts] = field(default_factory=dict)
    test: CalibrationTest | None = None
    bandwidth: float | None = None
    degree: int | None = None

    def __len__(self) -> int:
        return len(self.score)

    def to_dict(self) -> dict[str, Any]:
        """The points as columns, with the band where it is given at the same scores."""
        names = ("lower", "upper", "weight", "score", "frequency", *(() if self.maker == "corp" else ("low", "high")))
        return {name: getattr(self, name) for name in names}

    def corners(self) -> tuple[AnyFloatArray, AnyFloatArray]:
        """Scores and frequencies between which the curve is a straight line: both ends of the steps of a CORP curve."""
        if self.maker != "corp":
            return self.score, self.frequency
        return np.column_stack([self.lower, self.upper]).ravel(), np.repeat(self.frequency, 2)
