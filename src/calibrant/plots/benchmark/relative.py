"""Relative change of loss per method: one dot per dataset, boxes at 10, 25, 50, 75 and 90 %.

The axis is symmetric-logarithmic and ends at ±100 %; what lies beyond is drawn on the edge as a triangle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.optional import require
from calibrant.plots.benchmark.benchmark_style import (
    Methods,
    empty_figure,
    grid_shape,
    method_axis,
    plain,
    row_height,
    styled,
)

if TYPE_CHECKING:
    import pandas as pd

LINEAR = 0.01
"""Below this share the axis is linear."""
TICKS = (-1.0, -0.1, -0.01, 0.0, 0.01, 0.1, 1.0)
AXIS = (
    f"one dot per dataset; left is better; axis linear within ±{LINEAR:.0%}, logarithmic beyond;\n"
    "triangles on the edge lie beyond ±100 %"
)


def best_first(table: pd.DataFrame, metric: str) -> list[str]:
    """Methods by the median of their changes, the best first; those without any last."""
    medians = table.groupby("method")[metric].median().sort_values(kind="stable", na_position="last")
    return [str(name) for name in medians.index]


def relative_change(table: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str) -> Any:
    """Draw the table `relative_by_dataset`.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns benchmark, dataset, method and the metric.
    methods : pandas.DataFrame
        The table `methods`.
    metric, words : str
        Column of the loss, and its name on the axis.

    Returns
    -------
    matplotlib.figure.Figure
    """
    look = Methods.from_table(methods)
    names = best_first(table, metric)
    if not names:
        return empty_figure("no method to compare with none")
    with styled() as figure_class:
        height = 1.4 + row_height(len(names)) * len(names)
        figure = figure_class(figsize=(7.0, height), layout="constrained")
        axes = figure.add_subplot()
        _panel(axes, table, names, look, metric, _ends(table, metric))
        axes.set_title(f"Change of test {words}, best median first")
        axes.set_xlabel(f"relative change of test {words}\n({AXIS})")
    return figure


def relative_change_by_model(table: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str) -> Any:
    """Draw the table `relative_by_model`, one panel for each model."""
    look = Methods.from_table(methods)
    names = best_first(table, metric)
    if not names:
        return empty_figure("no method to compare with none")
    models = sorted(set(table["model"].astype(str)))
    ends = _ends(table, metric)
    with styled() as figure_class:
        rows, columns = grid_shape(len(models), 3 if len(models) > 4 else 2)
        height = rows * (0.75 + 0.8 * row_height(len(names)) * len(names)) + 0.8
        figure = figure_class(figsize=(1.2 + 3.1 * columns, height), layout="constrained")
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
    axes: Any,
    table: pd.DataFrame,
    names: list[str],
    look: Methods,
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
            dots = {"s": size, "marker": marker, "alpha": 0.6, "linewidths": 0, "zorder": 2, "clip_on": marker == "o"}
            axes.scatter(value[part], height[part], c=colours, **dots)
    _boxes(axes, value.groupby(shown["row"]).quantile([0.1, 0.25, 0.5, 0.75, 0.9]).unstack())


def _boxes(axes: Any, quantiles: pd.DataFrame) -> None:
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
