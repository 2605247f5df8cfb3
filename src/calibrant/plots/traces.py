"""What a reliability diagram draws of its table, whoever draws it: a line, a band, points and a word about the error.

There are four tables: CORP curves, kernel-smoothed curves, calibration belts and bins. Matplotlib and SVG draw their
traces alike.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.axis import ScoreAxis
from calibrant.metrics.belt import CalibrationBelt
from calibrant.metrics.corp import CorpCurve
from calibrant.metrics.reliability import ReliabilityTable
from calibrant.metrics.smooth_curve import SmoothCurve
from calibrant.typing import AnyFloatArray

Diagram = CorpCurve | SmoothCurve | CalibrationBelt | ReliabilityTable

#: A bin of fewer rows says next to nothing: its point is faint, and the line leaves it out.
FEWEST_ROWS = 3.0
NOTHING = np.empty(0)


class Trace(NamedTuple):
    """A curve with its band; all in probabilities.

    `size` of a point is its share of the rows of the largest one; `solid` tells points that deserve trust. The band
    stands `around` the curve or around the diagonal.
    """

    x: AnyFloatArray
    y: AnyFloatArray
    band_x: AnyFloatArray
    low: AnyFloatArray
    high: AnyFloatArray
    note: str
    axis: ScoreAxis = ScoreAxis()
    around: bool = True
    point_x: AnyFloatArray = NOTHING
    point_y: AnyFloatArray = NOTHING
    size: AnyFloatArray = NOTHING
    solid: NDArray[np.bool_] = NOTHING > 0


@singledispatch
def trace(table: object) -> Trace:
    """What to draw of a table."""
    raise TypeError(f"{type(table).__name__} is no table of a reliability diagram")


@trace.register
def _(table: CorpCurve) -> Trace:
    x, y = table.points()
    return Trace(
        x,
        y,
        table.at,
        table.low,
        table.high,
        f"MCB {table.brier.miscalibration:.2g}, DSC {table.brier.discrimination:.2g}",
        axis=table.axis,
        around=table.band == "confidence",
    )


@trace.register
def _(table: SmoothCurve) -> Trace:
    return Trace(table.score, table.frequency, table.score, table.low, table.high, f"smooth ECE {table.error:.3f}")


@trace.register
def _(table: CalibrationBelt) -> Trace:
    chance = f"p = {table.p_value:.2g}" if table.p_value >= 0.001 else "p < 0.001"
    return Trace(table.score, table.frequency, table.score, table.low, table.high, f"belt, {chance}")


@trace.register
def _(table: ReliabilityTable) -> Trace:
    solid = table.weight >= min(FEWEST_ROWS, float(table.weight.max()))
    return Trace(
        table.score[solid],
        table.frequency[solid],
        table.score[solid],
        table.low[solid],
        table.high[solid],
        f"ECE {table.expected_error:.3f}",
        point_x=table.score,
        point_y=table.frequency,
        size=np.sqrt(table.weight / table.weight.max()),
        solid=solid,
    )
