"""The figures of a report, each drawn from one of its tables."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.intervals import Estimate
from calibrant.metrics.reliability import ReliabilityTable
from calibrant.numerals import number, signed
from calibrant.plots.svg import AFTER, BEFORE, FAINT, GRID, INK, element, figure, line, marker, path, shortened, text
from calibrant.typing import AnyFloatArray

SIDE = 260.0
LEFT = 54.0
TOP = 12.0
HISTOGRAM = 46.0
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
HALVES = (0.0, 0.5, 1.0)
#: Classes up to which the cells of the correction matrix are drawn one by one, with numbers.
CELLS = 16


def _square(side: float, left: float, top: float, ticks: Sequence[float] = TICKS) -> list[str]:
    """Axes from 0 to 1 with a grid and the diagonal of perfect calibration."""
    parts = [element("rect", x=left, y=top, width=side, height=side, fill="#fff", stroke=FAINT, stroke_width=1)]
    for tick in ticks:
        x, y = left + side * tick, top + side * (1 - tick)
        if 0 < tick < 1:
            parts += [line(x, top, x, top + side, stroke=GRID), line(left, y, left + side, y, stroke=GRID)]
        parts.append(text(left - 6, y + 4, f"{tick:g}", text_anchor="end", class_="tick"))
    parts.append(line(left, top + side, left + side, top, stroke=FAINT, stroke_width=1.5, stroke_dasharray="5 4"))
    return parts


def _curve(
    table: ReliabilityTable, colour: str, side: float, left: float, top: float, *, square: bool, size: float = 3.5
) -> list[str]:
    """Band, line and points of a reliability table."""
    xs = left + side * table.score
    points = [(float(x), top + side * (1 - float(f))) for x, f in zip(xs, table.frequency)]
    upper = [(float(x), top + side * (1 - float(h))) for x, h in zip(xs, table.high)]
    lower = [(float(x), top + side * (1 - float(low))) for x, low in zip(xs, table.low)]
    parts = []
    if len(points) > 1:
        parts.append(path(upper + lower[::-1], closed=True, fill=colour, fill_opacity=0.16))
        parts.append(path(points, fill="none", stroke=colour, stroke_width=2, stroke_linejoin="round"))
    else:
        parts += [line(x, upper[i][1], x, lower[i][1], stroke=colour) for i, (x, _) in enumerate(points)]
    return parts + [marker(x, y, colour, square=square, size=size) for x, y in points]


def reliability(table: ReliabilityTable, title: str, *, after: bool) -> str:
    """Reliability diagram with a band and the histogram of the predictions below."""
    colour = AFTER if after else BEFORE
    parts = _square(SIDE, LEFT, TOP)
    parts += _curve(table, colour, SIDE, LEFT, TOP, square=not after)
    base = TOP + SIDE + 20 + HISTOGRAM
    largest = float(table.weight.max())
    for low, high, weight in zip(table.lower, table.upper, table.weight):
        height = max(HISTOGRAM * float(weight) / largest, 0.5)
        x, width = LEFT + SIDE * float(low), max(SIDE * float(high - low) - 1, 1.0)
        parts.append(element("rect", x=x, y=base - height, width=width, height=height, fill=colour, fill_opacity=0.55))
    parts.append(line(LEFT, base, LEFT + SIDE, base, stroke=FAINT))
    for tick in TICKS:
        parts.append(text(LEFT + SIDE * tick, base + 15, f"{tick:g}", text_anchor="middle", class_="tick"))
    what = "confidence in the predicted class" if table.label is None else "predicted probability"
    parts.append(text(LEFT + SIDE / 2, base + 33, what, text_anchor="middle", class_="axis"))
    middle = TOP + SIDE / 2
    observed = "how often it was right" if table.label is None else "observed frequency"
    turned = f"rotate(-90 14 {middle})"
    parts.append(text(14, middle, observed, text_anchor="middle", class_="axis", transform=turned))
    parts.append(text(LEFT - 6, base - 4, "rows", text_anchor="end", class_="tick"))
    return figure(LEFT + SIDE + 14, base + 42, parts, title)


def class_panel(name: str, before: ReliabilityTable, after: ReliabilityTable) -> str:
    """Small reliability diagram of one class against the rest, before and after."""
    side, left, top = 120.0, 28.0, 22.0
    parts = [text(left, 14, shortened(name, 15), class_="label"), *_square(side, left, top, HALVES)]
    parts += _curve(before, BEFORE, side, left, top, square=True, size=2.4)
    parts += _curve(after, AFTER, side, left, top, square=False, size=2.4)
    for tick in HALVES:
        parts.append(text(left + side * tick, top + side + 14, f"{tick:g}", text_anchor="middle", class_="tick"))
    return figure(left + side + 10, top + side + 20, parts, f"Reliability of the class {name}")


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
    for value in _ticks(low, high):
        parts.append(line(x(value), base, x(value), base + 4, stroke=FAINT))
        parts.append(text(x(value), base + 17, signed(value, 3), text_anchor="middle", class_="tick"))
    label = "log loss saved: right is better"
    parts.append(text(left + width / 2, base + 37, label, text_anchor="middle", class_="axis"))
    return figure(left + width + 24, base + 44, parts, "Log loss saved by each method, with intervals")


def _ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / 4
    size = 10 ** np.floor(np.log10(raw))
    step = float(min((m * size for m in (1, 2, 5, 10) if m * size >= raw), default=raw))
    return [float(tick) for tick in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]


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


def binary_curve(before: AnyFloatArray, after: AnyFloatArray) -> str:
    """Where the recommended method sends the probability of the second class."""
    parts = _square(SIDE, LEFT, TOP)
    points = [(LEFT + SIDE * float(b), TOP + SIDE * (1 - float(a))) for b, a in zip(before, after)]
    parts.append(path(points, fill="none", stroke=AFTER, stroke_width=2.5))
    for tick in TICKS:
        parts.append(text(LEFT + SIDE * tick, TOP + SIDE + 16, f"{tick:g}", text_anchor="middle", class_="tick"))
    parts.append(text(LEFT + SIDE / 2, TOP + SIDE + 36, "predicted", text_anchor="middle", class_="axis"))
    middle = TOP + SIDE / 2
    turned = f"rotate(-90 14 {middle})"
    parts.append(text(14, middle, "calibrated", text_anchor="middle", class_="axis", transform=turned))
    return figure(LEFT + SIDE + 14, TOP + SIDE + 44, parts, "The calibration map")


def correction_matrix(matrix: AnyFloatArray, names: Sequence[str]) -> str:
    """Heat map of the corrections; for many classes an image without numbers."""
    k = len(names)
    limit = max(float(np.abs(matrix).max()), 1e-9)
    length = 8.2 * min(max(len(name) for name in names), 14)
    label = 20 + length
    cell = 34.0 if k <= CELLS else 480.0 / k
    size = k * cell
    parts = []
    if k <= CELLS:
        colours = _colours(matrix / limit)
        for i in range(k):
            for j in range(k):
                fill = "#{:02x}{:02x}{:02x}".format(*colours[i, j].tolist())
                x, y = label + j * cell, label + i * cell
                parts.append(element("rect", x=x, y=y, width=cell, height=cell, fill=fill, stroke="#fff"))
                dark = abs(float(matrix[i, j])) / limit > 0.6
                parts.append(
                    text(
                        x + cell / 2,
                        y + cell / 2 + 3.5,
                        number(float(matrix[i, j]), 2),
                        text_anchor="middle",
                        class_="cell",
                        style=f"fill:{'#fff' if dark else INK}",
                    )
                )
    else:
        # Among many classes most corrections are small: square roots make them visible.
        scaled = np.sign(matrix) * np.sqrt(np.abs(matrix) / limit)
        image = "data:image/png;base64," + base64.b64encode(_png(_colours(scaled))).decode()
        parts.append(
            element(
                "image",
                x=label,
                y=label,
                width=size,
                height=size,
                href=image,
                style="image-rendering:pixelated",
                preserveAspectRatio="none",
            )
        )
        parts.append(element("rect", x=label, y=label, width=size, height=size, fill="none", stroke=FAINT))
    every = max(1, int(np.ceil(11 / cell)))
    for i in range(0, k, every):
        middle = label + (i + 0.5) * cell
        parts.append(text(label - 6, middle + 4, shortened(names[i], 14), text_anchor="end", class_="label"))
        turned = f"rotate(-60 {middle:.1f} {label - 8})"
        parts.append(text(middle, label - 8, shortened(names[i], 14), class_="label", transform=turned))
    return figure(label + size + 12 + length / 2, label + size + 6, parts, "Correction matrix")


def _colours(values: AnyFloatArray) -> NDArray[np.uint8]:
    """Blue for positive, orange for negative, white for nothing."""
    strength = np.clip(np.abs(values), 0, 1)[..., None]
    blue, orange = np.array([0, 114, 178.0]), np.array([213, 94, 0.0])
    target = np.where(values[..., None] >= 0, blue, orange)
    return np.rint(255 + strength * (target - 255)).astype(np.uint8)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG image of RGB pixels."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    # Each row starts with the number of its filter, 0 for none.
    rows = b"".join(b"\0" + pixels[i].tobytes() for i in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
