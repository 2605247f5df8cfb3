"""Critical-difference diagrams: methods on an axis of average ranks, bars over those a test cannot tell apart.

The bar labelled CD is the critical difference of Nemenyi's test; methods under one bar lie within it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant.plots.benchmark.benchmark_style import empty_figure, looks, new_figure, plain, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.26
"""Inches between two lines of labels."""


@styled
def critical_difference_diagram(
    ranks: pd.DataFrame, friedman: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str
) -> Figure:
    """Draw the tables `ranks_<metric>` and `friedman`; `words` is the name of the loss in the title."""
    ranks = ranks.dropna(subset=["rank"]).sort_values("rank", kind="stable")
    test = friedman[friedman["metric"] == metric].iloc[0]
    if len(ranks) < 2 or test["n_datasets"] < 1:
        return empty_figure("ranks need two methods that finished on the same datasets")
    look = looks(methods)
    names, values = ranks["method"].tolist(), ranks["rank"].to_numpy(float)
    difference = float(test["critical_difference"])
    series = ranks.set_index("method")["rank"]
    groups = cliques(series, difference) if math.isfinite(difference) else []
    lanes = _lanes([(series[group[0]], series[group[-1]]) for group in groups])
    n_lanes = max(lanes, default=-1) + 1
    half = math.ceil(len(names) / 2)
    # Heights are counted in label rows below the axis, so that nothing overlaps however many methods there are.
    first = 0.9 + 0.55 * n_lanes
    depth = first + half
    figure = new_figure(8.0, 0.25 + _ROW * (depth + 3.0))
    axes = figure.add_subplot()
    low, high = 1.0, float(len(names))
    room = 0.30 * (high - low)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(depth - 0.4, -3.2)
    axes.axis("off")
    axes.plot([low, high], [0, 0], color="#222222", linewidth=1.2)
    step = max(1, round((high - low) / 10))
    for tick in range(1, len(names) + 1):
        major = (tick - 1) % step == 0
        axes.plot([tick, tick], [0, -0.35 if major else -0.2], color="#222222", linewidth=1.0)
        if major:
            axes.text(tick, -0.5, str(tick), ha="center", va="bottom")
    for place, (name, value) in enumerate(zip(names, values)):
        left = place < half
        row = first + (place if left else len(names) - 1 - place)
        edge = low - 0.03 * (high - low) if left else high + 0.03 * (high - low)
        colour = look.colour[name]
        axes.plot([value, value, edge], [0, row, row], color=colour, linewidth=1.3, solid_joinstyle="miter")
        axes.text(
            edge + (-1 if left else 1) * 0.012 * (high - low),
            row,
            f"{plain(name)} ({value:.2f})",
            ha="right" if left else "left",
            va="center",
        )
    for group, lane in zip(groups, lanes):
        y = 0.5 + 0.55 * lane
        margin = 0.006 * (high - low)
        ends = [series[group[0]] - margin, series[group[-1]] + margin]
        axes.plot(ends, [y, y], color="#111111", linewidth=3.4, solid_capstyle="butt", zorder=5)
    _scale(axes, difference, low)
    title = f"Average rank by test {words}, {int(test['n_datasets'])} datasets (left is best)"
    axes.set_title(title, fontsize=9)
    return figure


def cliques(mean_ranks: pd.Series, difference: float) -> list[list[str]]:
    """Largest groups of methods, neighbours in rank, whose extremes lie within `difference` of each other."""
    ordered = mean_ranks.sort_values(kind="stable")
    names, values = list(ordered.index), ordered.to_numpy(float)
    groups: list[list[str]] = []
    reach = 0
    for start in range(len(names)):
        end = start
        while end + 1 < len(names) and values[end + 1] - values[start] <= difference:
            end += 1
        if end > start and end > reach:
            groups.append(names[start : end + 1])
            reach = end
    return groups


def _scale(axes: Axes, difference: float, low: float) -> None:
    """The length of the critical difference, above the axis."""
    if not math.isfinite(difference):
        axes.text(low, -1.9, "no critical difference with fewer than two datasets", ha="left", color="#666666")
        return
    y = -1.9
    axes.plot([low, low + difference], [y, y], color="#111111", linewidth=1.6)
    for end in (low, low + difference):
        axes.plot([end, end], [y - 0.2, y + 0.2], color="#111111", linewidth=1.6)
    axes.text(low + difference / 2, y - 0.25, f"CD = {difference:.2f}", ha="center", va="bottom")


def _lanes(spans: list[tuple[float, float]]) -> list[int]:
    """Lowest free lane for each bar, so that overlapping bars lie side by side."""
    ends: list[float] = []
    lanes = []
    for start, end in spans:
        lane = next((i for i, last in enumerate(ends) if start > last), len(ends))
        if lane == len(ends):
            ends.append(end)
        else:
            ends[lane] = end
        lanes.append(lane)
    return lanes
