"""Draw the house from its imports: `python tools/draw_house.py` writes docs/images/house.svg.

Rooms stand on their floors; a line leads from a room to each room it imports, except where another room on the way
says so already (the transitive reduction), so that the picture stays readable. The ground floor serves everyone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import house

OUT = Path(__file__).parents[1] / "docs" / "images" / "house.svg"
WIDTH, FLOOR_HEIGHT, BOX_HEIGHT, TOP, GAP = 960, 58, 30, 20, 24
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b2733; text-anchor: middle; dominant-baseline: central; }
  rect { fill: #e8eff7; stroke: #5b7fa6; }
  path { stroke: #5b7fa6; fill: none; stroke-width: 1.3; }
  .ground { fill: #f3f3f0; stroke: #a5a59a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4ebf2; } rect { fill: #24344a; stroke: #7fa3cc; } path { stroke: #7fa3cc; }
    .ground { fill: #2d2d2a; stroke: #8b8b80; }
  }
"""

#: Where the middle of the box of each room is: a random search found these, with lines that are short and pass beside
#: the boxes of other rooms. A new room stands in the middle of its floor until it gets a place.
MIDDLE = {
    "rowwise": 860, "bins": 232, "numerals": 324, "text_table": 440, "folds": 140,
    "random_numbers": 580, "confidence": 720,
    "simplex": 860,
    "sample": 500,
    "inputs": 440, "gaussian": 860, "steps": 720,
    "softmax": 680, "runtime": 540,
    "calibrators": 620,
    "classifier": 700,
    "metrics": 620,
    "decisions": 520, "grades": 360,
    "deployment": 620,
    "plots": 460,
    "files": 520,
    "workflows": 260,
    "report": 430, "writers": 320,
    "bench": 540,
    "cli": 420, "demo": 514,
}  # fmt: skip


def room_imports() -> dict[str, set[str]]:
    """The rooms that each room imports, the ground floor and the doors left out."""
    hidden = {*house.FLOORS[0], *house.DOORS}
    found: dict[str, set[str]] = {name: set() for floor in house.FLOORS[1:] for name in floor}
    for item in house.walk():
        above, below = house.room(item.importer), house.room(item.module)
        if above != below and above not in hidden and below not in hidden:
            found[above].add(below)
    return found


def reduced(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that no longer path implies."""

    def reach(name: str) -> set[str]:
        return {name}.union(*(reach(other) for other in imports[name]))

    return [
        (name, other)
        for name, below in imports.items()
        for other in sorted(below)
        if not any(other in reach(way) for way in below - {other})
    ]


FLOOR = {name: number for number, rooms in enumerate(house.FLOORS) for name in rooms}


def top(name: str) -> float:
    """The upper edge of the box of a room; the ground floor is at the bottom."""
    return TOP + (len(house.FLOORS) - 1 - FLOOR[name]) * FLOOR_HEIGHT


def width(name: str) -> float:
    return 20 + 8.0 * len(name)


def in_a_row(rooms: tuple[str, ...]) -> dict[str, float]:
    """The rooms of a floor side by side, in the middle of the picture."""
    x = (WIDTH - sum(width(name) + GAP for name in rooms) + GAP) / 2
    found = {}
    for name in rooms:
        found[name] = x + width(name) / 2
        x += width(name) + GAP
    return found


def curve(above: str, below: str, at: dict[str, float]) -> list[tuple[float, float]]:
    """The four points of a Bézier curve from the lower edge of one box to the upper edge of another."""
    start, end = (at[above], top(above) + BOX_HEIGHT), (at[below], top(below))
    middle = (start[1] + end[1]) / 2
    return [start, (start[0], middle), (end[0], middle), end]


def draw() -> str:
    """The picture as SVG."""
    lines = reduced(room_imports())
    at = {name: x for rooms in house.FLOORS for name, x in (in_a_row(rooms) | MIDDLE).items() if name in rooms}
    parts = []
    for above, below in lines:
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve(above, below, at)
        parts.append(f'<path d="M{x0:.0f},{y0:.0f} C{x1:.0f},{y1:.0f} {x2:.0f},{y2:.0f} {x3:.0f},{y3:.0f}"/>')
    for name, x in at.items():
        kind = ' class="ground"' if name in house.FLOORS[0] else ""
        box = f'x="{x - width(name) / 2:.0f}" y="{top(name)}" width="{width(name):.0f}" height="{BOX_HEIGHT}" rx="5"'
        parts.append(f"<rect {box}{kind}/>")
        parts.append(f'<text x="{x:.0f}" y="{top(name) + BOX_HEIGHT / 2}">{escape(name)}</text>')
    height = TOP * 2 + (len(house.FLOORS) - 1) * FLOOR_HEIGHT + BOX_HEIGHT
    label = "Rooms of the package on their floors, with a line to what each imports"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
