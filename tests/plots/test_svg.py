"""Parts of drawings by hand, and what both kinds of drawing share: numbers, names and ticks."""

from __future__ import annotations

import pytest

from calibrant.plots.style import short_number, shorten, tick_text
from calibrant.plots.svg import axes, element, figure, line, marker, path, round_ticks, text, turned


def test_elements_have_short_numbers_and_escaped_text() -> None:
    assert element("rect", x=0, stroke_width=1.23456) == '<rect x="0" stroke-width="1.23"/>'
    assert element("g", "<a/>", class_="tick") == '<g class="tick"><a/></g>'
    assert element("g", title='"<') == '<g title="&quot;&lt;"/>'
    assert text(1, 2.0, "<script>") == '<text x="1" y="2">&lt;script&gt;</text>'
    assert line(0, 1, 2.5, 3, stroke="red") == '<line x1="0" y1="1" x2="2.5" y2="3" stroke="red"/>'
    assert path([(0, 0), (1.5, 2)]) == '<path d="M0 0L1.5 2"/>'
    assert path([(0, 0), (1, 2)], closed=True) == '<path d="M0 0L1 2Z"/>'
    assert turned(16, 90, "rows").startswith('<text x="16" y="90" text-anchor="middle" class="axis" transform="rotate(')


def test_squares_are_before_and_circles_after() -> None:
    assert marker(10, 20, "red", square=True, size=3) == '<rect x="7" y="17" width="6" height="6" fill="red"/>'
    assert marker(10, 20, "red", square=False, size=3) == '<circle cx="10" cy="20" r="3" fill="red"/>'


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.72, 0.9, [0.75, 0.8, 0.85, 0.9]),
        (0.0, 1.0, [0.0, 0.5, 1.0]),
        (0.0, 0.8, [0.0, 0.2, 0.4, 0.6, 0.8]),
        (-3.0, 37.0, [0.0, 10.0, 20.0, 30.0]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == pytest.approx(ticks)


def test_axes_place_values_and_keep_those_outside_at_the_edge() -> None:
    parts, at = axes([(0.0, "0"), (10.0, "ten")], [(1.0, "one")], (0.0, 10.0), (0.0, 2.0), "rows", "loss")
    assert at(0.0, 0.0) == (56.0, 194.0)
    assert at(10.0, 2.0) == (436.0, 14.0)
    assert at(5.0, 1.0) == (246.0, 104.0)
    assert at(-5.0, 9.0) == (56.0, 14.0)
    drawn = "".join(parts)
    # A line of the grid at its tick, texts beside and below the frame, and the names of both axes.
    assert '<line x1="56" y1="104" x2="436" y2="104"' in drawn
    assert '<text x="50" y="108" text-anchor="end" class="tick">one</text>' in drawn
    assert '<text x="436" y="210" text-anchor="middle" class="tick">ten</text>' in drawn
    assert '<text x="246" y="228" text-anchor="middle" class="axis">rows</text>' in drawn
    assert ">loss</text>" in drawn
    assert axes([], [], (1.0, 1.0), (0.0, 1.0), "", "")[1](1.0, 0.0) == (56.0, 194.0)


def test_a_figure_has_a_title_and_hardly_grows() -> None:
    drawn = figure(100, 50, ["<g/>"], "a < b")
    assert drawn.startswith('<svg viewBox="0 0 100 50" role="img" style="max-width:120px"')
    assert "<title>a &lt; b</title><g/></svg>" in drawn


def test_numbers_and_names_of_ticks() -> None:
    assert [tick_text(tick) for tick in (1e-4, 0.0002, 0.01, 0.0, 1e-3, 0.5)] == [
        "10⁻⁴", "0.0002", "0.01", "0", "0.001", "0.5",
    ]  # fmt: skip
    shown = [short_number(value) for value in (0.0, 7.0, 0.25, 850.0, 1000.0, 1234.0, 30000.0, 123456.0, 2e6, 3e8)]
    assert shown == ["0", "7", "0.25", "850", "1k", "1.2k", "30k", "123k", "2M", "300M"]
    assert shorten("a" * 18) == "a" * 18
    assert shorten("abcdefghijklmnopqrstuvw", 10) == "abcdef…uvw"
