"""Reliability diagrams of a page: traces on a square with the diagonal, as SVG."""

from __future__ import annotations

import numpy as np

from calibrant.metrics.result_types import UNIT, ReliabilityCurve, ScoreAxis
from calibrant.plots.style import Trace, shorten, tick_text, trace
from calibrant.plots.svg import AFTER, BEFORE, FAINT, GRID, PAPER, element, figure, line, marker, path, text, turned
from calibrant.typing import AnyFloatArray

#: The square, its place, and the height of the histogram: small enough for a phone to show the letters.
SIDE, LEFT, TOP, HISTOGRAM = 260.0, 58.0, 12.0, 46.0


class Square:
    """A square of so many pixels that shows an axis both ways."""

    def __init__(self, side: float, left: float, top: float, axis: ScoreAxis = UNIT, ticks: int = 6) -> None:
        self.side, self.left, self.top, self.axis = side, left, top, axis
        self.ticks = [(tick, float(axis.place(np.array([tick]))[0])) for tick in axis.ticks(ticks)]

    def frame(self) -> list[str]:
        """The square with a grid, the ticks of the ordinate and the diagonal of perfect calibration."""
        left, top, side = self.left, self.top, self.side
        parts = [element("rect", x=left, y=top, width=side, height=side, fill=PAPER, stroke=FAINT, stroke_width=1)]
        for tick, place in self.ticks:
            x, y = left + side * place, top + side * (1 - place)
            if 0.001 < place < 0.999:
                parts += [line(x, top, x, top + side, stroke=GRID), line(left, y, left + side, y, stroke=GRID)]
            parts.append(text(left - 6, y + 4, tick_text(tick), text_anchor="end", class_="tick"))
        parts.append(line(left, top + side, left + side, top, stroke=FAINT, stroke_width=1.5, stroke_dasharray="5 4"))
        return parts

    def abscissa(self, base: float) -> list[str]:
        """The ticks of the abscissa, their text ending at `base`."""
        return [
            text(self.left + self.side * place, base, tick_text(tick), text_anchor="middle", class_="tick")
            for tick, place in self.ticks
        ]

    def named(self, base: float, across: str, upwards: str) -> list[str]:
        """The ticks of the abscissa, and the names of both axes."""
        below = text(self.left + self.side / 2, base + 19, across, text_anchor="middle", class_="axis")
        return [*self.abscissa(base), below, turned(14, self.top + self.side / 2, upwards)]

    def points(self, x: AnyFloatArray, y: AnyFloatArray) -> list[tuple[float, float]]:
        """Probabilities as points of the drawing, cut off at the edges of the square."""
        across = self.left + self.side * np.clip(self.axis.place(x), 0, 1)
        down = self.top + self.side * (1 - np.clip(self.axis.place(y), 0, 1))
        # Curves of thousands of rows: points closer than half a pixel to the last one kept add nothing.
        kept: list[tuple[float, float]] = []
        for point in zip(across.tolist(), down.tolist()):
            if not kept or abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) > 0.5:
                kept.append(point)
        if len(across) and kept[-1] != (float(across[-1]), float(down[-1])):
            kept.append((float(across[-1]), float(down[-1])))
        return kept

    def _pieces(self, x: AnyFloatArray, *others: AnyFloatArray) -> list[tuple[AnyFloatArray, ...]]:
        """The parts of a curve between breaks (NaN) and what lies outside of the axis."""
        place = self.axis.place(x)
        inside = np.flatnonzero((place > -1e-9) & (place < 1 + 1e-9))
        pieces = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
        return [(x[piece], *(part[piece] for part in others)) for piece in pieces if len(piece)]

    def draw(self, drawn: Trace, colour: str, *, square: bool, size: float = 3.5) -> list[str]:
        """Band, line and points of a trace, as far as they lie inside."""
        parts = []
        for x, low, high in self._pieces(drawn.band_x, drawn.low, drawn.high):
            upper, lower = self.points(x, high), self.points(x, low)
            shade = {"fill": colour, "fill_opacity": 0.16} if drawn.around else {"fill": FAINT, "fill_opacity": 0.25}
            if len(x) > 1:
                parts.append(path(upper + lower[::-1], closed=True, **shade))
            else:
                parts.append(line(*upper[0], *lower[0], stroke=colour))
        for x, y in self._pieces(drawn.x, drawn.y):
            found = self.points(x, y)
            if len(found) > 1:
                parts.append(path(found, fill="none", stroke=colour, stroke_width=2, stroke_linejoin="round"))
            elif found and not len(drawn.point_x):
                parts.append(marker(*found[0], colour, square=square, size=size))
        for i in range(len(drawn.point_x)):
            (centre,) = self.points(drawn.point_x[i : i + 1], drawn.point_y[i : i + 1])
            faint = {} if drawn.solid[i] else {"fill_opacity": 0.35}
            parts.append(marker(*centre, colour, square=square, size=size, **faint))
        return parts

    def histogram(self, weights: AnyFloatArray, colour: str, base: float) -> list[str]:
        """Bars of the predictions standing on `base`."""
        width = self.side / len(weights)
        parts = []
        for i, share in enumerate((weights / max(float(weights.max()), 1e-12)).tolist()):
            if share > 0:
                height = max(HISTOGRAM * share, 0.5)
                place = {"x": self.left + i * width, "y": base - height, "width": width - 1, "height": height}
                parts.append(element("rect", **place, fill=colour, fill_opacity=0.55))
        return [*parts, line(self.left, base, self.left + self.side, base, stroke=FAINT)]


def reliability(table: ReliabilityCurve, title: str, *, after: bool) -> str:
    """Reliability diagram with a band and the histogram of the predictions below."""
    colour = AFTER if after else BEFORE
    frame = Square(SIDE, LEFT, TOP, table.axis)
    drawn = trace(table)
    base = TOP + SIDE + 20 + HISTOGRAM
    parts = [*frame.frame(), *frame.draw(drawn, colour, square=not after)]
    what, observed = "predicted probability", "observed frequency"
    if table.label is None:
        what, observed = "confidence in the predicted class", "how often it was right"
    scale = " (log-odds scale)" if table.axis.log_odds else ""
    parts += [*frame.histogram(table.histogram, colour, base), *frame.named(base + 15, what + scale, observed)]
    parts.append(text(LEFT - 6, base - 4, "rows", text_anchor="end", class_="tick"))
    return figure(LEFT + SIDE + 20, base + 42, parts, f"{title}. {drawn.note}")


def banded(before: ReliabilityCurve, after: ReliabilityCurve | None, axis: ScoreAxis, title: str) -> str:
    """Expected against observed in bands, each with the interval of its frequency; larger points have more rows."""
    drawn = [(before, BEFORE, True)] + ([] if after is None else [(after, AFTER, False)])
    frame = Square(SIDE, LEFT, TOP, axis)
    parts = frame.frame()
    for curve, colour, square in drawn[::-1]:
        sizes = 2.5 + 2 * np.sqrt(curve.weight / curve.weight.max())
        for at, value, start, end, size in zip(curve.score, curve.frequency, curve.low, curve.high, sizes.tolist()):
            x = LEFT + SIDE * float(axis.place(at))
            y, bottom, top = (TOP + SIDE * (1 - float(axis.place(part))) for part in (value, start, end))
            parts.append(line(x, bottom, x, top, stroke=colour, stroke_width=2, stroke_opacity=0.5))
            parts.append(marker(x, y, colour, square=square, size=size))
    base = TOP + SIDE + 15
    parts += frame.named(base, "expected", "observed")
    legend = [("before", BEFORE, True)] + ([] if after is None else [("after calibration", AFTER, False)])
    for place, (words, colour, square) in enumerate(legend):
        y = TOP + 14 + 17 * place
        parts += [marker(LEFT + 12, y, colour, square=square, size=4), text(LEFT + 21, y + 4, words, class_="tick")]
    return figure(LEFT + SIDE + 20, base + 28, parts, title)


def panel(
    name: str, before: ReliabilityCurve, after: ReliabilityCurve | None = None, axis: ScoreAxis | None = None
) -> str:
    """Small reliability diagram with a name, before and after in one."""
    first = trace(before)
    frame = Square(130.0, 46.0, 22.0, axis or first.axis, ticks=5)
    parts = [text(12, 14, shorten(name, 24), class_="label"), *frame.frame()]
    drawn = [(first, BEFORE, True)] + ([] if after is None else [(trace(after), AFTER, False)])
    for curve, colour, square in drawn:
        parts += frame.draw(curve, colour, square=square, size=2.4)
    parts += frame.abscissa(22 + 130 + 14)
    notes = ", after: ".join(curve.note for curve, _, _ in drawn)
    return figure(46 + 130 + 16, 22 + 130 + 20, parts, f"Reliability: {name}. {notes}")


def binary_curve(
    before: AnyFloatArray, after: AnyFloatArray, band: tuple[AnyFloatArray, AnyFloatArray] | None = None
) -> str:
    """Where the recommended method sends the probability of the second class, with the band of its intervals."""
    frame = Square(SIDE, LEFT, TOP)
    parts = frame.frame()
    if band is not None:
        low, high = (frame.points(before, edge) for edge in band)
        parts.append(path(high + low[::-1], closed=True, fill=AFTER, fill_opacity=0.16))
    parts.append(path(frame.points(before, after), fill="none", stroke=AFTER, stroke_width=2.5))
    parts += frame.named(TOP + SIDE + 16, "predicted", "calibrated")
    return figure(LEFT + SIDE + 20, TOP + SIDE + 44, parts, "The calibration map")
