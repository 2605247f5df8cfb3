"""The figures of a monitor's page, drawn from its history."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from calibrant.deployment.monitoring.history import Record
from calibrant.numerals import power_of_ten
from calibrant.plots.svg import (
    AFTER,
    BEFORE,
    FAINT,
    GRID,
    PAPER,
    element,
    figure,
    line,
    marker,
    path,
    round_ticks,
    text,
    turned,
)

# Small enough for a phone to show the letters.
WIDTH, HEIGHT, LEFT, TOP = 380.0, 180.0, 56.0, 14.0


def evidence(records: Sequence[Record], alpha: float) -> str:
    """Evidence against the calibrator after each batch, on a logarithmic scale, with the level of the alarm."""
    places = np.cumsum([record.labelled for record in records])
    values = [record.log_evidence / math.log(10.0) for record in records]
    limit = -math.log10(alpha)
    low, high = min(-1.0, *values), max(limit, *values) + 0.5
    ticks = [float(tick) for tick in range(math.ceil(low), math.floor(high) + 1)]
    ticks = ticks[:: max(1, math.ceil(len(ticks) / 6))]
    parts, at = _axes(
        float(places[-1]),
        low,
        high,
        [(tick, power_of_ten(int(tick))) for tick in ticks],
        ("labelled rows", "evidence"),
    )
    y = at(0.0, limit)[1]
    parts.append(line(LEFT, y, LEFT + WIDTH, y, stroke=BEFORE, stroke_width=1.5, stroke_dasharray="5 4"))
    parts.append(text(LEFT + 6, y - 5, f"alarm at {1.0 / alpha:,.3g}", class_="tick"))
    points = [at(0.0, 0.0), *(at(float(place), value) for place, value in zip(places, values))]
    parts.append(path(points, fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    return figure(LEFT + WIDTH + 34, TOP + HEIGHT + 44, parts, "Evidence against the calibrator")


def accuracies(records: Sequence[Record]) -> str:
    """Accuracy expected from the probabilities, and that observed, batch by batch."""
    expected = [record.expected_accuracy for record in records]
    observed = [record.accuracy for record in records if record.accuracy is not None]
    low, high = min([*expected, *observed]), max([*expected, *observed])
    margin = max(0.1 * (high - low), 0.01)
    low, high = max(0.0, low - margin), min(1.0, high + margin)
    ticks = [(float(tick), f"{tick:.2f}") for tick in round_ticks(low, high)]
    ends = np.cumsum([max(record.rows, record.labelled) for record in records])
    parts, at = _axes(float(ends[-1]), low, high, ticks, ("rows", "accuracy"))
    lines = [at(float(end), value) for end, value in zip(ends, expected)]
    parts.append(path([lines[0], *lines], fill="none", stroke=AFTER, stroke_width=2, stroke_linejoin="round"))
    for end, record in zip(ends, records):
        if record.accuracy is not None:
            parts.append(marker(*at(float(end), record.accuracy), BEFORE, square=True, size=3.0))
    return figure(LEFT + WIDTH + 34, TOP + HEIGHT + 44, parts, "Expected and observed accuracy")


Place = Callable[[float, float], tuple[float, float]]


def _axes(
    rows: float, low: float, high: float, ticks: Sequence[tuple[float, str]], names: tuple[str, str]
) -> tuple[list[str], Place]:
    """A frame with a grid, and where a number of rows and a value lie in it."""

    def at(row: float, value: float) -> tuple[float, float]:
        return LEFT + WIDTH * row / max(rows, 1.0), TOP + HEIGHT * (high - value) / (high - low)

    parts = [element("rect", x=LEFT, y=TOP, width=WIDTH, height=HEIGHT, fill=PAPER, stroke=FAINT, stroke_width=1)]
    for value, label in ticks:
        y = at(0.0, value)[1]
        parts += [
            line(LEFT, y, LEFT + WIDTH, y, stroke=GRID),
            text(LEFT - 6, y + 4, label, text_anchor="end", class_="tick"),
        ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + WIDTH * share
        parts.append(text(x, TOP + HEIGHT + 16, f"{rows * share:,.0f}", text_anchor="middle", class_="tick"))
    parts.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, names[0], text_anchor="middle", class_="axis"))
    parts.append(turned(16, TOP + HEIGHT / 2, names[1]))
    return parts, at
