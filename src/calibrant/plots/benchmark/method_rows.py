"""Figures with one row per method: relative changes of loss, fit times and win rates.

Changes are one dot per dataset with boxes at 10, 25, 50, 75 and 90 %, on a symmetric-logarithmic axis that ends at
±100 %; what lies beyond is drawn on the edge as a triangle. Times and win rates have 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibrant.optional import require
from calibrant.plots.benchmark.benchmark_style import (
    empty_figure,
    grid_shape,
    looks,
    method_axis,
    new_figure,
    plain,
    rows_height,
    styled,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.01
"""Below this share the axis is linear."""
TICKS = (-1.0, -0.1, -0.01, 0.0, 0.01, 0.1, 1.0)
"""Powers of ten, and the ends of the linear part."""
AXIS = (
    f"one dot per dataset; left is better; axis linear within ±{LINEAR:.0%}, logarithmic beyond;\n"
    "triangles on the edge lie beyond ±100 %"
)


def _best_first(table: pd.DataFrame, metric: str) -> list[str]:
    """Methods by the median of their changes, the best first; those without any last."""
    medians = table.groupby("method")[metric].median().sort_values(kind="stable", na_position="last")
    return [str(name) for name in medians.index]


@styled
def relative_change(table: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str) -> Figure:
    """Draw the table `relative_by_dataset`; `metric` is the column of a loss, `words` its name on the axis."""
    look = looks(methods)
    names = _best_first(table, metric)
    if not names:
        return empty_figure("no method to compare with none")
    figure = new_figure(7.0, 1.4 + rows_height(len(names)))
    axes = figure.add_subplot()
    _panel(axes, table, names, look, metric, _ends(table, metric))
    axes.set_title(f"Change of test {words}, best median first")
    axes.set_xlabel(f"relative change of test {words}\n({AXIS})")
    return figure


@styled
def relative_change_by_model(table: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str) -> Figure:
    """Draw the table `relative_by_model`, one panel for each model."""
    look = looks(methods)
    names = _best_first(table, metric)
    if not names:
        return empty_figure("no method to compare with none")
    models = sorted(set(table["model"].astype(str)))
    ends = _ends(table, metric)
    rows, columns = grid_shape(len(models), 3 if len(models) > 4 else 2)
    figure = new_figure(1.2 + 3.1 * columns, rows * (0.75 + 0.8 * rows_height(len(names))) + 0.8)
    grid = figure.subplots(rows, columns, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(models):
            axes.set_visible(False)
            continue
        part = table[table["model"].astype(str) == models[place]]
        _panel(axes, part, names, look, metric, ends, labels=place % columns == 0)
        axes.set_title(plain(models[place], 40))
        axes.tick_params(axis="x", labelsize=6.5)
    figure.suptitle(f"Change of test {words} by model, best median first", fontsize=10)
    figure.supxlabel(f"relative change of test {words}\n({AXIS})", fontsize=9)
    return figure


def _ends(table: pd.DataFrame, metric: str) -> tuple[float, float]:
    """Ends of the axis: no further than there are changes."""
    values = table[metric].dropna().to_numpy(float)
    low, high = values.min(initial=-LINEAR), values.max(initial=LINEAR)
    return max(1.4 * low, -1.12), min(1.4 * high, 1.12)


def _panel(
    axes: Axes,
    table: pd.DataFrame,
    names: list[str],
    look: pd.DataFrame,
    metric: str,
    ends: tuple[float, float],
    *,
    labels: bool = True,
) -> None:
    method_axis(axes, names, labels=labels)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.6)
    axes.set_xlim(*ends)
    ticks = [tick for tick in TICKS if ends[0] <= tick <= ends[1]]
    axes.set_xticks(ticks, [f"{tick:+.0%}" if tick else "0" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.grid(axis="x")
    axes.axvline(0.0, color="#666666", linewidth=0.9, zorder=1)
    shown = table[["method", metric]].dropna()
    shown = shown.assign(row=shown["method"].map({name: row for row, name in enumerate(names)}).astype(float))
    shown = shown.sort_values(["row", metric], kind="stable")
    value, number = shown[metric].clip(-1.0, 1.0), shown.groupby("method").cumcount()
    # Low-discrepancy offsets spread neighbours apart and are the same whenever the figure is redrawn.
    height = shown["row"] + 0.30 * (2.0 * ((0.5 + 0.618034 * number) % 1.0) - 1.0)
    beyond = shown[metric].abs() > 1.0
    for marker, size, part in (("o", 11, ~beyond), ("<", 16, beyond & (value < 0)), (">", 16, beyond & (value > 0))):
        if part.any():
            colours = shown.loc[part, "method"].map(look.colour).tolist()
            x, y, inside = value[part], height[part], marker == "o"
            axes.scatter(x, y, s=size, c=colours, marker=marker, alpha=0.6, linewidths=0, zorder=2, clip_on=inside)
    _boxes(axes, value.groupby(shown["row"]).quantile([0.1, 0.25, 0.5, 0.75, 0.9]).unstack())


def _boxes(axes: Axes, quantiles: pd.DataFrame) -> None:
    """Boxes at 25, 50 and 75 %, whiskers to 10 and 90 %, all in two collections, which draw fast."""
    collections = require("matplotlib.collections", extra="plots")
    thin, thick = [], []
    for row, q10, q25, q50, q75, q90 in quantiles.itertuples():
        top, bottom = row - 0.26, row + 0.26
        thin.append([(q25, top), (q75, top), (q75, bottom), (q25, bottom), (q25, top)])
        thin += [[(q10, row), (q25, row)], [(q75, row), (q90, row)]]
        thin += [[(end, row - 0.13), (end, row + 0.13)] for end in (q10, q90)]
        thick.append([(q50, top), (q50, bottom)])
    for lines, width in ((thin, 1.0), (thick, 2.2)):
        axes.add_collection(
            collections.LineCollection(lines, colors="#222222", linewidths=width, zorder=4), autolim=False
        )


@styled
def fit_time(table: pd.DataFrame, methods: pd.DataFrame) -> Figure:
    """Draw the table `fit_time`: mean seconds per 1000 calibration rows."""
    look = looks(methods)
    table = table[np.isfinite(table["seconds_per_1000"].to_numpy(float)) & (table["seconds_per_1000"] > 0)]
    # Fastest first.
    names = table.sort_values("seconds_per_1000", kind="stable")["method"].astype(str).tolist()
    if not names:
        return empty_figure("no fit times in the results")
    rows = table.set_index("method")
    floor = 0.5 * float(rows["seconds_per_1000"].min())
    figure = new_figure(7.0, 1.4 + rows_height(len(names)))
    axes = figure.add_subplot()
    method_axis(axes, names)
    axes.set_xscale("log")
    axes.grid(axis="x", which="major")
    for place, name in enumerate(names):
        row, colour = rows.loc[name], look.colour[name]
        if np.isfinite(row["low"]):
            # An interval of a mean may reach below zero, which a logarithmic axis cannot show.
            axes.hlines(place, max(float(row["low"]), floor), row["high"], color=colour, linewidth=2.2)
        axes.scatter([row["seconds_per_1000"]], [place], color=colour, marker=look.marker[name], s=42, zorder=3)
    axes.set_xlabel("seconds of fitting per 1000 calibration rows (mean, 95 % interval; logarithmic axis)")
    axes.set_title("Time to fit, fastest first")
    return figure


@styled
def win_rates(table: pd.DataFrame, methods: pd.DataFrame, metrics: Mapping[str, str]) -> Figure:
    """Draw the table `winrates`: share of wins against all other methods, with a panel for each of `metrics`."""
    look = looks(methods)
    table = table.dropna(subset=["winrate"])
    # Best first, by the first metric.
    first = table[table["metric"] == next(iter(metrics))].sort_values("winrate", ascending=False, kind="stable")
    others = look.index[look.index.isin(table["method"]) & ~look.index.isin(first["method"])]
    names = [*first["method"].astype(str), *others]
    if not names:
        return empty_figure("win rates need two methods")
    figure = new_figure(8.0, 1.4 + rows_height(len(names)))
    figure.suptitle(f"Win rates, best by {next(iter(metrics.values()))} first", fontsize=10)
    grid = figure.subplots(1, len(metrics), sharex=True)
    for place, (axes, (metric, words)) in enumerate(zip(grid, metrics.items())):
        method_axis(axes, names, labels=place == 0)
        rows = table[table["metric"] == metric].set_index("method").reindex(names)
        places, known = np.arange(len(names)), np.isfinite(rows["low"].to_numpy(float))
        axes.barh(places, rows["winrate"], color=[look.colour[name] for name in names], height=0.66, zorder=2)
        ends = rows["low"][known].clip(lower=0.0), rows["high"][known].clip(upper=1.0)
        # Dark in a light rim, which is seen on bars of every colour.
        for colour, width in (("white", 4.0), ("#222222", 1.3)):
            axes.hlines(places[known], *ends, color=colour, linewidth=width, zorder=3)
        axes.axvline(0.5, color="#666666", linewidth=0.9, linestyle="--", zorder=1)
        axes.set_title(words)
        axes.set_xlim(0.0, 1.0)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.grid(axis="x")
    figure.supxlabel("share of wins against the other methods (95 % interval over datasets)", fontsize=9)
    return figure
