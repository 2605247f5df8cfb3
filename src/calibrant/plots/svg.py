"""Figures of pages as SVG text, written out by hand; pictures for people who program are matplotlib's.

Both draw the same tables (`calibrant.plots.style`). Matplotlib's SVG was tried for pages: a reliability diagram takes
30 kB and 50 ms, here 10 kB and less than 1 ms, and a page of ten classes has about 20 figures. Its colours do not
follow the light or dark set of the page, its layout is made for letters of a certain width, the ids of several
drawings in one page collide, and `calibrant report` would need matplotlib.

Coordinates are those of the drawing (y downwards). All text goes through `text`, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

# Colours are variables of the page, which has a light and a dark set of them.
BEFORE = "var(--before)"
AFTER = "var(--after)"
INK = "var(--ink)"
FAINT = "var(--faint)"
GRID = "var(--grid)"
PAPER = "var(--paper)"
#: A wide drawing with two axes, small enough for a phone to show the letters.
WIDTH, HEIGHT, LEFT, TOP = 380.0, 180.0, 56.0, 14.0

Ticks = Sequence[tuple[float, str]]
Place = Callable[[float, float], tuple[float, float]]


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """One SVG element; underscores in attribute names stand for hyphens, one at the end for nothing (`class_`)."""
    parts = [
        f'{key.rstrip("_").replace("_", "-")}="{escape(_short(value), quote=True)}"'
        for key, value in attributes.items()
    ]
    start = " ".join([name, *parts])
    return f"<{start}>{content}</{name}>" if content else f"<{start}/>"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def text(x: float, y: float, content: str, **attributes: object) -> str:
    """Escaped text."""
    return element("text", escape(content, quote=True), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes)


def path(points: Sequence[tuple[float, float]], *, closed: bool = False, **attributes: object) -> str:
    """A line through points, or the area they enclose."""
    drawn = "M" + "L".join(f"{_short(float(x))} {_short(float(y))}" for x, y in points) + ("Z" if closed else "")
    return element("path", d=drawn, **attributes)


def marker(x: float, y: float, colour: str, *, square: bool, size: float = 3.5, **attributes: object) -> str:
    """A point: squares are before, circles after, so that they differ without colour too."""
    if square:
        return element("rect", x=x - size, y=y - size, width=2 * size, height=2 * size, fill=colour, **attributes)
    return element("circle", cx=float(x), cy=float(y), r=size, fill=colour, **attributes)


def round_ticks(low: float, high: float) -> list[float]:
    """About four round numbers between `low` and `high`."""
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = min((m * size for m in (1, 2, 5, 10) if m * size >= raw), default=raw)
    return [tick * step for tick in range(math.ceil(low / step), math.floor(high / step) + 1)]


def turned(x: float, y: float, words: str) -> str:
    """The name of a vertical axis, read from below."""
    return text(x, y, words, text_anchor="middle", class_="axis", transform=f"rotate(-90 {_short(x)} {_short(y)})")


def figure(width: float, height: float, content: Sequence[str], title: str) -> str:
    """The drawing as a whole, with a title for screen readers."""
    return element(
        "svg",
        element("title", escape(title, quote=True)) + "".join(content),
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        role="img",
        # Text keeps about the size of the page's: drawings shrink on a phone, but hardly grow on a desk.
        style=f"max-width:{_short(1.2 * width)}px",
        xmlns="http://www.w3.org/2000/svg",
    )


def axes(
    x_ticks: Ticks, y_ticks: Ticks, x_range: tuple[float, float], y_range: tuple[float, float], x_name: str, y_name: str
) -> tuple[list[str], Place]:
    """A wide frame with a grid, and where two values lie in it; values outside lie at its edge."""

    def at(x: float, y: float) -> tuple[float, float]:
        across, down = (
            (min(max(value, low), high) - low) / max(high - low, 1e-12)
            for value, (low, high) in ((x, x_range), (y, y_range))
        )
        return LEFT + WIDTH * across, TOP + HEIGHT * (1 - down)

    parts = [element("rect", x=LEFT, y=TOP, width=WIDTH, height=HEIGHT, fill=PAPER, stroke=FAINT, stroke_width=1)]
    for value, label in y_ticks:
        y = at(x_range[0], value)[1]
        parts += [
            line(LEFT, y, LEFT + WIDTH, y, stroke=GRID),
            text(LEFT - 6, y + 4, label, text_anchor="end", class_="tick"),
        ]
    for value, label in x_ticks:
        x = at(value, y_range[0])[0]
        parts.append(text(x, TOP + HEIGHT + 16, label, text_anchor="middle", class_="tick"))
    parts.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, x_name, text_anchor="middle", class_="axis"))
    parts.append(turned(16, TOP + HEIGHT / 2, y_name))
    return parts, at


def plane(parts: Sequence[str], title: str) -> str:
    """The drawing of what `axes` began."""
    return figure(LEFT + WIDTH + 34, TOP + HEIGHT + 44, parts, title)
