"""The figures of pages, each drawn from one table of a report or from the history of a monitor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.confidence import wilson_interval
from calibrant.decisions.curves import DecisionCurve
from calibrant.deployment.monitoring.history import Record
from calibrant.grades import GradeBacktest
from calibrant.metrics.murphy import MurphyDiagram
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import number, percent, power_of_ten, signed
from calibrant.plots.style import WHITE_ABOVE, shorten
from calibrant.plots.svg import (
    AFTER,
    BEFORE,
    FAINT,
    GRID,
    INK,
    LEFT,
    WIDTH,
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
    return plane(drawn, "Net benefit of acting at or above a threshold")


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


def evidence(records: Sequence[Record], alpha: float) -> str:
    """Evidence against the calibrator after each batch, on a logarithmic scale, with the level of the alarm."""
    places = np.cumsum([record.labelled for record in records])
    values = [record.log_evidence / math.log(10.0) for record in records]
    limit = -math.log10(alpha)
    low, high = min(-1.0, *values), max(limit, *values) + 0.5
    ticks = [float(tick) for tick in range(math.ceil(low), math.floor(high) + 1)]
    ticks = ticks[:: max(1, math.ceil(len(ticks) / 6))]
    labels = [(tick, power_of_ten(int(tick))) for tick in ticks]
    parts, at = axes(
        _counted(float(places[-1])), labels, (0.0, float(places[-1])), (low, high), "labelled rows", "evidence"
    )
    y = at(0.0, limit)[1]
    parts.append(line(LEFT, y, LEFT + WIDTH, y, stroke=BEFORE, stroke_width=1.5, stroke_dasharray="5 4"))
    parts.append(text(LEFT + 6, y - 5, f"alarm at {1.0 / alpha:,.3g}", class_="tick"))
    points = [at(0.0, 0.0), *(at(float(place), value) for place, value in zip(places, values))]
    parts.append(path(points, fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    return plane(parts, "Evidence against the calibrator")


def accuracies(records: Sequence[Record]) -> str:
    """Accuracy expected from the probabilities, and that observed, batch by batch."""
    expected = [record.expected_accuracy for record in records]
    observed = [record.accuracy for record in records if record.accuracy is not None]
    low, high = min([*expected, *observed]), max([*expected, *observed])
    margin = max(0.1 * (high - low), 0.01)
    low, high = max(0.0, low - margin), min(1.0, high + margin)
    ticks = [(float(tick), f"{tick:.2f}") for tick in round_ticks(low, high)]
    ends = np.cumsum([max(record.rows, record.labelled) for record in records])
    parts, at = axes(_counted(float(ends[-1])), ticks, (0.0, float(ends[-1])), (low, high), "rows", "accuracy")
    lines = [at(float(end), value) for end, value in zip(ends, expected)]
    parts.append(path([lines[0], *lines], fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    for end, record in zip(ends, records):
        if record.accuracy is not None:
            parts.append(marker(*at(float(end), record.accuracy), BEFORE, square=True, size=3.0))
    return plane(parts, "Expected and observed accuracy")


def stability(records: Sequence[Record], level: float = 0.95) -> str:
    """Observed over expected counts of each batch with labels, with intervals; calibrated ones lie around 1."""
    known = [record for record in records if record.expected_count and record.observed_count is not None]
    expected, observed, total = (
        np.array([float(getattr(record, name)) for record in known])
        for name in ("expected_count", "observed_count", "labelled_observations")
    )
    share = np.clip(observed / total, 0.0, 1.0)
    found = [(part * total / expected).tolist() for part in (share, *wilson_interval(share, total, level))]
    top = min(1.1 * max([*found[2], 1.2]), 4.0)
    ticks = [(tick, f"{tick:.2g}") for tick in round_ticks(0.0, top)]
    step = max(1, -(-len(known) // 5))
    names = [(place + 0.5, shorten(record.name or str(place + 1), 12)) for place, record in enumerate(known)][::step]
    parts, at = axes(names, ticks, (0.0, float(len(known))), (0.0, top), "batch", "observed / expected")
    y = at(0.0, 1.0)[1]
    parts.append(line(LEFT, y, LEFT + WIDTH, y, stroke=FAINT, stroke_width=1.5, stroke_dasharray="5 4"))
    for place, (ratio, low, high) in enumerate(zip(*found)):
        off = low > 1 or high < 1
        colour = BEFORE if off else AFTER
        (x, bottom), (_, above) = at(place + 0.5, low), at(place + 0.5, high)
        parts.append(line(x, bottom, x, above, stroke=colour, stroke_width=2, stroke_opacity=0.5))
        parts.append(marker(*at(place + 0.5, ratio), colour, square=off, size=3.5))
    return plane(parts, "Observed over expected counts, batch by batch")


def _counted(rows: float) -> list[tuple[float, str]]:
    """Ticks of an axis of rows."""
    return [(rows * share, f"{rows * share:,.0f}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
