"""The figures of a report, each drawn from one of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.decisions.curves import DecisionCurve
from calibrant.grades import GradeBacktest
from calibrant.metrics.murphy import MurphyDiagram
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import number, percent, signed
from calibrant.plots.style import WHITE_ABOVE, shorten
from calibrant.plots.svg import (
    AFTER,
    BEFORE,
    FAINT,
    GRID,
    INK,
    axes,
    element,
    figure,
    line,
    marker,
    path,
    plane,
    round_ticks,
    text,
)
from calibrant.typing import AnyFloatArray

#: Classes whose correction matrix is drawn at most: the numbers in so many cells can be read on a page.
CELLS = 16


def method_gains(saved: Mapping[str, Estimate], recommended: str) -> str:
    """Log loss that every method saves, with its interval."""
    gains = saved.values()
    # One hopeless method must not squeeze the others into a point.
    best, worst = max(gain.high for gain in gains), min(gain.low for gain in gains)
    low, high = max(min(worst, 0.0), -1.5 * max(best, 1e-6)), max(best, 1e-6)
    margin = 0.06 * (high - low)
    low, high = low - margin, high + margin
    left, width, step = 84.0, 262.0, 25.0
    height = 10 + step * len(saved)

    def x(value: float) -> float:
        return left + width * (min(max(value, low), high) - low) / (high - low)

    parts = [line(x(0.0), 4, x(0.0), height, stroke=INK, stroke_dasharray="3 3")]
    for number_of, (name, gain) in enumerate(saved.items()):
        y = 10 + step * (number_of + 0.5)
        colour = INK if name == "none" else AFTER if gain.value >= 0 else BEFORE
        weight = "bold" if name == recommended else "normal"
        parts.append(text(left - 10, y + 4, name, text_anchor="end", class_="label", font_weight=weight))
        if gain.value < low:
            parts.append(text(left + 2, y + 4, f"← {signed(gain.value)}", class_="tick"))
            continue
        parts.append(line(x(gain.low), y, x(gain.high), y, stroke=colour, stroke_width=3, stroke_opacity=0.45))
        parts.append(marker(x(gain.value), y, colour, square=gain.value < 0, size=4.5))
    base = height + 4
    parts.append(line(left, base, left + width, base, stroke=FAINT))
    for value in round_ticks(low, high):
        parts.append(line(x(value), base, x(value), base + 4, stroke=FAINT))
        parts.append(text(x(value), base + 17, signed(value, 3), text_anchor="middle", class_="tick"))
    label = "log loss saved: right is better"
    parts.append(text(left + width / 2, base + 37, label, text_anchor="middle", class_="axis"))
    return figure(left + width + 24, base + 44, parts, "Log loss saved by each method, with intervals")


def parts_bar(title: str, loss: float, calibration: float, refinement: float) -> str:
    """A loss as a bar of two parts."""
    width, total = 360.0, max(loss, 1e-12)
    lost = min(max(calibration / total, 0.0), 1.0) * width
    parts = [
        element("rect", x=0, y=18, width=width - lost, height=26, fill=AFTER, fill_opacity=0.85),
        element("rect", x=width - lost, y=18, width=lost, height=26, fill=BEFORE, fill_opacity=0.9),
        text(0, 12, f"{title} {number(total)}", class_="label"),
        text(0, 60, f"refinement {number(refinement)}", class_="axis"),
        text(width, 60, f"calibration {number(calibration)}", text_anchor="end", class_="axis"),
    ]
    return figure(width, 66, parts, f"{title}: calibration and refinement")


def correction_matrix(matrix: AnyFloatArray, names: Sequence[str]) -> str:
    """Heat map of the corrections between a few classes, with numbers in the cells."""
    k, cell = len(names), 34.0
    limit = max(float(np.abs(matrix).max()), 1e-9)
    label = 20 + 7.4 * min(max(len(name) for name in names), 14)
    colours = _colours(matrix / limit)
    parts = []
    for i, name in enumerate(names):
        for j in range(k):
            fill = "#{:02x}{:02x}{:02x}".format(*colours[i, j].tolist())
            x, y = label + j * cell, label + i * cell
            parts.append(element("rect", x=x, y=y, width=cell, height=cell, fill=fill, stroke="#fff"))
            ink = "#fff" if float(matrix[i, j]) / limit > WHITE_ABOVE else "#1f2933"
            place = {"text_anchor": "middle", "class_": "cell", "style": f"fill:{ink}"}
            parts.append(text(x + cell / 2, y + cell / 2 + 3.5, number(float(matrix[i, j]), 2), **place))
        middle, short = label + (i + 0.5) * cell, shorten(name, 14)
        parts.append(text(label - 6, middle + 4, short, text_anchor="end", class_="label"))
        turned = f"rotate(-90 {middle + 4:.1f} {label - 6:.1f})"
        parts.append(text(middle + 4, label - 6, short, class_="label", transform=turned))
    side = label + k * cell
    return figure(side + 8, side + 6, parts, f"Correction matrix of {k} classes")


def grade_rates(found: GradeBacktest) -> str:
    """The rate of every grade with its interval, on a scale of powers of ten, and the probability that is tested."""
    full = np.flatnonzero(found.observations > 0)
    shown = np.concatenate([found.rate[full], found.probability[full]])
    first = int(np.clip(np.floor(np.log10(shown[shown > 0].min(initial=1.0))), -6, -1))
    left, top, height, step = 64.0, 12.0, 220.0, max(30.0, min(60.0, 300.0 / len(found.grades)))

    def y(value: float) -> float:
        return top + height * np.log10(max(value, 10.0**first)) / first

    parts, right = [], left + step * len(found.grades)
    for power in range(first, 1):
        parts.append(line(left, y(10.0**power), right, y(10.0**power), stroke=GRID))
        parts.append(text(left - 8, y(10.0**power) + 4, f"{100 * 10.0**power:g}%", text_anchor="end", class_="tick"))
    for i, name in enumerate(found.grades):
        x = left + step * (i + 0.5)
        parts.append(text(x, top + height + 16, shorten(name, 7), text_anchor="middle", class_="tick"))
        if i in full:
            colour = INK if found.light[i] == "green" else BEFORE
            parts.append(line(x, y(found.low[i]), x, y(found.high[i]), stroke=colour, stroke_width=3, opacity=0.45))
            promised = y(found.probability[i])
            parts.append(line(x - step / 3, promised, x + step / 3, promised, stroke=AFTER, stroke_width=3))
            parts.append(marker(x, y(found.rate[i]), colour, square=found.light[i] != "green", size=4.5))
    parts.append(text((left + right) / 2, top + height + 36, "grade", text_anchor="middle", class_="axis"))
    return figure(right + 12, top + height + 44, parts, "Rates of the grades with intervals, and their probabilities")


def _colours(values: AnyFloatArray) -> NDArray[np.uint8]:
    """Blue for positive, orange for negative, white for nothing."""
    strength = np.clip(np.abs(values), 0, 1)[..., None]
    blue, orange = np.array([0, 114, 178.0]), np.array([213, 94, 0.0])
    target = np.where(values[..., None] >= 0, blue, orange)
    return np.rint(255 + strength * (target - 255)).astype(np.uint8)


def net_benefit(before: DecisionCurve, after: DecisionCurve | None) -> str:
    """Net benefit over thresholds, of the predictions before and after, and of acting on everybody and on nobody."""
    lines = [(before.net_benefit, BEFORE, "")] + ([] if after is None else [(after.net_benefit, AFTER, "")])
    highest = max(float(values.max()) for values, *_ in lines)
    high = 1.1 * max(highest, float(before.treat_all[0]), 1e-6)
    lines = [(before.treat_all, FAINT, "5 4"), (0.0 * before.threshold, INK, "2 3"), *lines]
    shown = before if after is None else after
    band = [] if np.isnan(shown.low).any() else [(shown.low, shown.high, BEFORE if after is None else AFTER)]
    drawn = _over_thresholds(before.threshold, lines, band, (-0.25 * high, high), "net benefit")
    return plane(drawn, "Net benefit of acting from a threshold on")


def murphy(diagram: MurphyDiagram, *, fitted: bool) -> str:
    """Murphy diagram, lower is better: after against before calibration if a method was `fitted`, else before alone."""
    lines = [(diagram.other, BEFORE, ""), (diagram.score, AFTER, "")] if fitted else [(diagram.score, BEFORE, "")]
    high = 1.1 * max(float(values.max()) for values, *_ in lines) or 1.0
    return plane(_over_thresholds(diagram.threshold, lines, [], (0.0, high), "mean score"), "Murphy diagram")


def _over_thresholds(
    at: AnyFloatArray,
    lines: Sequence[tuple[AnyFloatArray, str, str]],
    bands: Sequence[tuple[AnyFloatArray, AnyFloatArray, str]],
    ends: tuple[float, float],
    name: str,
) -> list[str]:
    """Lines (values, colour, dashes) and bands over thresholds; what is outside of the frame is left out."""
    first, last = float(at[0]), float(at[-1])
    x_ticks = [(tick, percent(tick, None if tick < 0.01 else 0)) for tick in round_ticks(first, last)]
    y_ticks = [(tick, f"{tick:.3g}") for tick in round_ticks(*ends)]
    parts, place = axes(x_ticks, y_ticks, (first, last), ends, "threshold", name)
    for low, high, colour in bands:
        edge = [place(float(x), float(y)) for x, y in [*zip(at, high), *zip(at[::-1], low[::-1])]]
        parts.append(path(edge, closed=True, fill=colour, fill_opacity=0.14))
    for values, colour, dashes in lines:
        inside = [place(float(x), float(y)) for x, y in zip(at, values) if ends[0] <= y <= ends[1]]
        if len(inside) > 1:
            look = {"stroke": colour, "stroke_width": 2, "stroke_dasharray": dashes or "none"}
            parts.append(path(inside, closed=False, fill="none", stroke_linejoin="round", **look))
    return parts
