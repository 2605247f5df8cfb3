"""What the pictures share, matplotlib's and those of pages: colours, names, axes, and what is drawn of a curve.

Colours stay apart for colour-blind eyes and in greyscale. Series differ in lightness, marker and line style as well as
in hue, so that no picture depends on colour alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.result_types import UNIT, ReliabilityCurve, ScoreAxis, well_inside
from calibrant.numerals import p_text, power_of_ten
from calibrant.optional import require
from calibrant.typing import AnyFloatArray, Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure

# Blue and vermilion of Okabe and Ito; the first is also the darker one.
BLUE = "#0072B2"
VERMILION = "#D55E00"
WHITE = "#FFFFFF"
GREY = "#767676"
FAINT = "#D5D5D5"
BARS = "#9AA5AE"
# Share of the darkest blue above which white is the more legible ink; on vermilion, black always is.
WHITE_ABOVE = 0.7
# Bars this many times the median one would hide the others on a linear scale.
TOWERING = 25.0
# In units of the diagram, whose side is one.
MARGIN = 0.02
STRIP_HEIGHT = 0.17
DIAGONAL = "calibrated"
# Colour, marker and line of the first, second ... model in one diagram (Okabe and Ito, alternating in lightness).
SERIES = (
    (BLUE, "o", "-"),
    (VERMILION, "s", (0, (5, 1.5))),
    ("#000000", "^", (0, (1, 1))),
    ("#009E73", "D", (0, (6, 1.5, 1, 1.5))),
    ("#CC79A7", "v", (0, (3, 1))),
)


def new_axes(ax: Axes | None, figsize: tuple[float, float]) -> tuple[Figure | SubFigure, Axes]:
    """Figure and axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax.figure, ax
    return require("matplotlib.pyplot", extra="plots").subplots(figsize=figsize, layout="constrained")


def shorten(label: Label, length: int = 18) -> str:
    """Label of a class, cut in the middle when too long for a tick."""
    text = str(label)
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def shades(*colours: str) -> Colormap:
    """A colour map through the given colours."""
    return require("matplotlib.colors", extra="plots").LinearSegmentedColormap.from_list("shades", colours)


def diverging() -> Colormap:
    """Colours of a correction: orange below zero, white at it, blue above."""
    return shades(VERMILION, WHITE, BLUE)


def plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign would start a formula."""
    return text.replace("$", r"\$")


def tick_text(tick: float) -> str:
    """A probability beside an axis, short enough for its neighbours."""
    exponent = round(math.log10(tick)) if tick > 0 else 0
    return power_of_ten(exponent) if exponent < -3 and math.isclose(tick, 10.0**exponent) else f"{tick:g}"


def square_unit_axes(ax: Axes, axis: ScoreAxis = UNIT) -> ScoreAxis:
    """A square with the diagonal of perfect calibration, and the axis its ticks show.

    What was made so before is left as it is, and its axis is returned: curves are drawn where it places them.
    """
    if any(line.get_label() == DIAGONAL for line in ax.lines):
        return getattr(ax, "score_axis", UNIT)
    setattr(ax, "score_axis", axis)  # noqa: B010 (an attribute of our own)
    ax.plot([0, 1], [0, 1], linestyle=(0, (4, 3)), linewidth=1, color=GREY, zorder=1, label=DIAGONAL)
    ax.set(xlim=(-MARGIN, 1 + MARGIN), ylim=(-MARGIN, 1 + MARGIN), aspect="equal")
    ticks = axis.ticks(6 if not axis.log_odds else 5)
    places = axis.place(np.array(ticks))
    names = [f"{tick:.1f}" if axis == UNIT else tick_text(tick) for tick in ticks]
    ax.set_xticks(places, names)
    ax.set_yticks(places, names)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return axis


def towering(histogram: AnyFloatArray) -> bool:
    """Whether a few bars would hide the others on a linear scale."""
    occupied = histogram[histogram > 0]
    return float(occupied.max()) > TOWERING * float(np.median(occupied))


def histogram_strip(ax: Axes, histogram: AnyFloatArray, *, log: bool | None = None) -> Axes:
    """Histogram of scores in a strip between the diagram and its abscissa; on a log scale by default if bars tower.

    The strip lies inside the axes, whose ordinate reaches below zero for it: so any layout of axes will do.
    """
    floor = -STRIP_HEIGHT - 3 * MARGIN
    ax.set_ylim(floor, 1 + MARGIN)
    ax.spines["left"].set_bounds(0, 1)
    ax.plot([0, 1], [0, 0], color=FAINT, linewidth=0.8, zorder=0)
    strip = ax.inset_axes((-MARGIN, floor, 1 + 2 * MARGIN, STRIP_HEIGHT), transform=ax.transData)
    strip.set(xlim=(-MARGIN, 1 + MARGIN), xticks=[], facecolor="none", in_layout=False)
    edges = np.linspace(0, 1, len(histogram) + 1)
    strip.bar(edges[:-1], histogram, width=np.diff(edges), align="edge", color=BARS, edgecolor="white", linewidth=0.4)
    _scale_counts(strip, histogram[histogram > 0], log=towering(histogram) if log is None else log)
    for side in ("top", "right", "bottom"):
        strip.spines[side].set_visible(False)
    return strip


def _scale_counts(strip: Axes, occupied: AnyFloatArray, *, log: bool) -> None:
    top = float(occupied.max())
    if log:
        strip.set_yscale("log")
        strip.set_ylim(0.5 * float(occupied.min()), 1.3 * top)
        ticks = {10.0 ** np.ceil(np.log10(occupied.min())), 10.0 ** np.floor(np.log10(top))}
        strip.set_yticks(sorted(tick for tick in ticks if tick <= top))
    else:
        strip.set_ylim(0, 1.05 * top)
        strip.set_yticks([top])
    strip.set_yticklabels([short_number(tick) for tick in strip.get_yticks()])
    strip.yaxis.set_minor_locator(require("matplotlib.ticker", extra="plots").NullLocator())
    strip.tick_params(axis="y", labelsize="x-small", length=2)


def short_number(value: float) -> str:
    """Count for a small tick: 0, 7, 850, 1.2k, 30k."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.2g}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
    return f"{value:.3g}"


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
        return f"belt, {p_text(curve.test.p_value, curve.test.n_resamples)}"
    if curve.parts:
        return f"MCB {curve.parts['brier'].miscalibration:.2g}, DSC {curve.parts['brier'].discrimination:.2g}"
    return f"smooth ECE {curve.error:.3f}"
