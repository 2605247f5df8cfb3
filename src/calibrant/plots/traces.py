"""What a reliability diagram draws of its curve, whoever draws it: a line, a band, points and a word about the error.

Matplotlib and SVG draw the same traces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.result_types import ReliabilityCurve, ScoreAxis, well_inside
from calibrant.numerals import p_text
from calibrant.typing import AnyFloatArray

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


def trace(curve: ReliabilityCurve) -> Trace:
    """What to draw of a curve."""
    x, y = curve.corners()
    if curve.maker == "bins":
        solid = curve.weight >= min(FEWEST_ROWS, float(curve.weight.max()))
        return Trace(
            x[solid],
            y[solid],
            x[solid],
            curve.low[solid],
            curve.high[solid],
            f"ECE {curve.error:.3f}",
            point_x=x,
            point_y=y,
            size=np.sqrt(curve.weight / curve.weight.max()),
            solid=solid,
        )
    at, low, high = curve.at, curve.low, curve.high
    if curve.maker == "corp":
        # The first and the last step jump to 0 and to 1 wherever a single row does.
        inside = np.repeat(well_inside(curve.weight), 2)
        x, y = (x[inside], y[inside]) if inside.any() else (x, y)
        x = np.clip(x, *((at[0], at[-1]) if len(at) else (curve.axis.low, curve.axis.high)))
    if curve.maker == "kernel" and len(x) > 2:
        # Between rows that are far apart there is no curve: NaN breaks the line.
        gap = np.flatnonzero(np.diff(x) > 1.5 * np.diff(x).min()) + 1
        x, y, at, low, high = (np.insert(part, gap, np.nan) for part in (x, y, at, low, high))
    return Trace(x, y, at, low, high, _note(curve), axis=curve.axis, around=curve.around == "curve")


def _note(curve: ReliabilityCurve) -> str:
    if curve.test is not None:
        return f"belt, {p_text(curve.test.p_value)}"
    if curve.parts:
        return f"MCB {curve.parts['brier'].miscalibration:.2g}, DSC {curve.parts['brier'].discrimination:.2g}"
    return f"smooth ECE {curve.error:.3f}"
