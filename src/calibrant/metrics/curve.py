"""One reliability curve, whichever way it was made: how often an event happens at each score, with a band.

`reliability_table` makes it from bins, `corp_curve` by isotonic regression, `smooth_curve` with a kernel and
`calibration_belt` from a polynomial of the log-odds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from calibrant.metrics.axis import UNIT, ScoreAxis
from calibrant.metrics.null import CalibrationTest
from calibrant.metrics.tabular import Tabular
from calibrant.typing import AnyFloatArray

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
