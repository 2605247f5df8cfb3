"""Draw the house from its imports: `python tools/draw_house.py` writes docs/images/house.svg.

Rooms stand on their floors; a line leads from a room to each room it imports, except where another room on the way
says so already (the transitive reduction), so that the picture stays readable. The ground floor serves everyone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import house

OUT = Path(__file__).parents[1] / "docs" / "images" / "house.svg"
WIDTH, FLOOR_HEIGHT, BOX_HEIGHT, TOP = 880, 58, 30, 20
#: How far a room stands from the middle, so that lines which pass a floor do not run through its box.
ASIDE = {
    "report": -110,
    "files": 120,
    "plots": -150,
    "classifier": 140,
    "metrics": -60,
    "softmax": 130,
    "simplex": -170,
}
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


def room_imports() -> dict[str, set[str]]:
    """The rooms that each room imports, the ground floor and the doors left out."""
    hidden = {*house.FLOORS[0], *house.DOORS}
    found: dict[str, set[str]] = {name: set() for floor in house.FLOORS[1:] for name in floor}
    for item in house.walk():
        above, below = house.room(item.importer), house.room(item.module)
        if above != below and above not in hidden and below not in hidden:
            found[above].add(below)
    return found


def reduced(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports that no longer path implies."""

    def reach(name: str) -> set[str]:
        return {name}.union(*(reach(other) for other in imports[name]))

    return {
        name: {other for other in below if not any(other in reach(way) for way in below - {other})}
        for name, below in imports.items()
    }


def places() -> dict[str, tuple[float, float, float]]:
    """Middle, top and width of the box of every room; the ground floor is at the bottom."""
    out = {}
    for number, rooms in enumerate(house.FLOORS):
        y = TOP + (len(house.FLOORS) - 1 - number) * FLOOR_HEIGHT
        widths = [20 + 8.5 * len(name) for name in rooms]
        gap = 34
        x = (WIDTH - sum(widths) - gap * (len(rooms) - 1)) / 2 + (ASIDE.get(rooms[0], 0) if len(rooms) == 1 else 0)
        for name, width in zip(rooms, widths, strict=True):
            out[name] = (x + width / 2, y, width)
            x += width + gap
    return out


def draw() -> str:
    """The picture as SVG."""
    at = places()
    parts = []
    for name, others in reduced(room_imports()).items():
        for other in sorted(others):
            x0, y0, _ = at[name]
            x1, y1, _ = at[other]
            y0 += BOX_HEIGHT
            floors = round((y1 - y0 + BOX_HEIGHT) / FLOOR_HEIGHT)
            bend = 0 if floors == 1 else (18 * floors if x0 <= x1 else -18 * floors)
            middle = (y0 + y1) / 2
            parts.append(
                f'<path d="M{x0:.0f},{y0:.0f} C{x0 + bend:.0f},{middle:.0f} '
                f'{x1 + bend:.0f},{middle:.0f} {x1:.0f},{y1:.0f}"/>'
            )
    for name, (x, y, width) in at.items():
        kind = ' class="ground"' if name in house.FLOORS[0] else ""
        parts.append(f'<rect x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5"{kind}/>')
        parts.append(f'<text x="{x:.0f}" y="{y + BOX_HEIGHT / 2}">{escape(name)}</text>')
    height = TOP * 2 + (len(house.FLOORS) - 1) * FLOOR_HEIGHT + BOX_HEIGHT
    label = "Rooms of the package on their floors, with a line to what each imports"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
