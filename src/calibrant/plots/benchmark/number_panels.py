"""Against the number of calibration rows or classes: ranks in groups, gain or harm as curves, shaded tables.

Up to eight methods share one panel. With more, lines could not be told apart: then every family has a panel of its own,
the other methods in grey behind it.

Gains differ much between datasets, so curves show the median relative change with its quartiles, on an axis that is
linear around zero and logarithmic beyond. Harm is never negative: its mean is shown on a logarithmic axis. Tables are
read at a glance with thirty methods, where thirty lines could not be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from calibrant.optional import require
from calibrant.plots.benchmark.benchmark_style import (
    empty_figure,
    family_legend,
    family_panels,
    looks,
    new_figure,
    plain,
    styled,
)
from calibrant.plots.style import BLUE, GREY, WHITE, diverging, shades

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINEAR = 0.1
"""Up to this relative change the axis of gains is linear; what lies beyond ±100 % is cut off."""
_TICKS = (-1.0, -0.3, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
"""Closer in the linear part, where most curves are."""
_LEAST_HARM = 1e-6
"""Less harm is drawn as this much: a logarithmic axis has no zero."""
_SIDE = f"relative change of test {{}} (down is better;\naxis linear within ±{_LINEAR:.0%}, logarithmic beyond)"


@styled
def rank_by_group(table: pd.DataFrame, methods: pd.DataFrame, what: str, baseline: str) -> Figure:
    """Draw `rank_by_rows` or `rank_by_classes`: average ranks with 95 % intervals; `what` names the axis of groups."""
    look = looks(methods)
    names = _by_mean(table, look, "rank")
    if table.empty:
        return empty_figure(f"no groups: the number of {what} is the same on every dataset, or there are no ranks")
    ticker = require("matplotlib.ticker", extra="plots")
    figure, panels = family_panels(names, look, baseline)
    for axes, shown in panels:
        _rank_panel(axes, table, names, shown, look, baseline)
    panels[0][0].set_ylim(len(names) + 0.5, 0.5)
    panels[0][0].yaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=3))
    dashed = f"; dashed: {baseline}" if len(panels) > 1 else ""
    figure.supxlabel(f"number of {what} (datasets in the group){dashed}", fontsize=9)
    figure.supylabel("average rank by Brier score (1 is best)", fontsize=9)
    figure.suptitle(f"Average rank by number of {what}, with 95 % intervals", fontsize=10)
    return figure


def _rank_panel(
    axes: Axes, table: pd.DataFrame, names: list[str], shown: list[str], look: pd.DataFrame, baseline: str
) -> None:
    groups = table.drop_duplicates("group").sort_values("group")
    at = np.arange(len(groups), dtype=float)
    for name in names:
        if name not in shown:
            part = table[table["method"] == name].sort_values("group")
            colour, line = (look.colour[name], "--") if name == baseline else ("#e2e2e2", "-")
            axes.plot(at, part["rank"], color=colour, linestyle=line, linewidth=1.0, zorder=1)
    for place, name in enumerate(shown):
        part = table[table["method"] == name].sort_values("group")
        x = at + 0.5 * ((place + 0.5) / len(shown) - 0.5)
        colour = look.colour[name]
        axes.plot(x, part["rank"], color=colour, linewidth=0.9, alpha=0.45, zorder=2)
        # An interval of a mean may reach beyond the ranks there are.
        axes.vlines(x, part["low"].clip(1, len(names)), part["high"].clip(1, len(names)), color=colour, linewidth=1.6)
        axes.scatter(x, part["rank"], color=colour, marker=look.marker[name], s=30, zorder=4, label=plain(name))
    ends = ("–".join(dict.fromkeys(map(_number, row))) for row in groups[["smallest", "largest"]].to_numpy())
    axes.set_xticks(at, [f"{numbers}\n({count})" for numbers, count in zip(ends, groups["n_datasets"])])
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.grid(axis="y")
    for edge in at[1:]:
        axes.axvline(edge - 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    family_legend(axes, look, None if len(shown) == len(names) else shown)


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u2009")


@styled
def draw_curves(table: pd.DataFrame, methods: pd.DataFrame, metric: str, words: str, baseline: str) -> Figure:
    """Draw the table `draw_curves` for one loss, with bands over datasets; the change of the baseline is zero."""
    look = looks(methods)
    table = table[(table["metric"] == metric) & (table["method"] != baseline)]
    if table.empty or table["draw"].nunique() < 2:
        return empty_figure("a curve needs draws of two sizes on the same datasets")
    harm = bool((table["labels"] == "drawn").all())
    names = _by_mean(table, look, "change" if harm else "q50")
    sizes = sorted(table["draw"].unique())
    figure, panels = family_panels(names, look, baseline)
    for axes, shown in panels:
        for name in names:
            part = table[table["method"] == name].sort_values("draw")
            _curve(axes, part, look, shown, harm=harm)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.xaxis.minorticks_off()
        axes.grid(axis="y")
        family_legend(axes, look, None if len(shown) == len(names) else shown)
    _value_axis(panels[0][0], table, harm=harm)
    if not harm:
        for axes, _ in panels:
            axes.axhline(0.0, color="#555555", linewidth=1.0, linestyle="--", zorder=1)
    count = int(table["n_datasets"].max())
    what = "mean and 95 % band" if harm else "median and quartiles"
    title = f"What calibration adds to the {words} of calibrated predictions" if harm else f"Change of {words}"
    figure.suptitle(title, fontsize=11, fontweight="bold")
    figure.supxlabel(f"calibration rows drawn ({what} over {count} datasets)", fontsize=9)
    side = f"increase of expected {words}" if harm else _SIDE.format(words)
    figure.supylabel(side, fontsize=9)
    return figure


def _curve(axes: Axes, part: pd.DataFrame, look: pd.DataFrame, shown: list[str], *, harm: bool) -> None:
    name = str(part["method"].iloc[0])
    columns = ("change", "low", "high") if harm else ("q50", "q25", "q75")
    smallest, largest = (_LEAST_HARM, np.inf) if harm else (-1.0, 1.0)
    x = part["draw"].to_numpy(float)
    middle, low, high = (np.clip(part[column].to_numpy(float), smallest, largest) for column in columns)
    if name not in shown:
        axes.plot(x, middle, color="#e2e2e2", linewidth=1.0, zorder=1)
        return
    colour, marker = look.colour[name], look.marker[name]
    # The more methods, the paler their bands, which lie over each other.
    axes.fill_between(x, low, high, color=colour, alpha=min(0.12, 0.4 / len(shown)), linewidth=0, zorder=2)
    # The best, which comes first, lies on top.
    top = 3 + 1 / (1 + shown.index(name))
    axes.plot(x, middle, color=colour, marker=marker, linewidth=1.5, markersize=4.5, zorder=top, label=plain(name))


def _value_axis(axes: Axes, table: pd.DataFrame, *, harm: bool) -> None:
    """Limits by the curves, not by their bands, which may be wide where datasets are few."""
    ticker = require("matplotlib.ticker", extra="plots")
    values = table["change" if harm else "q50"].to_numpy(float)
    values = values[np.isfinite(values)]
    if harm:
        axes.set_yscale("log")
        values = np.maximum(values, _LEAST_HARM)
        axes.set_ylim(values.min() / 1.6, values.max() * 1.6)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.6f}".rstrip("0").rstrip(".")))
        return
    axes.set_yscale("symlog", linthresh=_LINEAR, linscale=1.5)
    lowest, highest = (np.clip(end, -1.0, 1.0) for end in (min(values.min(), -0.02), max(values.max(), 0.02)))
    low, high = 1.25 * lowest, 1.25 * highest
    axes.set_ylim(low, high)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:+.0%}" if tick else "0" for tick in ticks])
    axes.yaxis.minorticks_off()


def rank_by_draw(table: pd.DataFrame, methods: pd.DataFrame, metrics: dict[str, str]) -> Figure:
    """Draw the ranks of the table `draws`, a panel for each of `metrics`, best mean rank first."""
    first = table[table["metric"] == next(iter(metrics))]
    names = _by_mean(first, looks(methods), "rank")
    if not names:
        return empty_figure("no ranks: at no size did all methods finish a dataset")
    return _shaded(
        table,
        names,
        metrics,
        value="rank",
        show=lambda value: f"{value:.1f}",
        limits=(1.0, float(len(names))),
        colours=shades(BLUE, WHITE),
        title="Average rank by number of calibration rows (1 is best)",
    )


def rows_needed(table: pd.DataFrame, needed: pd.DataFrame, methods: pd.DataFrame, metrics: dict[str, str]) -> Figure:
    """Draw the shares of the table `draw_curves` that got better, and the rows that a method needs to get there."""
    table = table[table["method"].isin(set(needed["method"]))]
    names = [name for name in needed["method"].astype(str) if name in set(table["method"])]
    if not names:
        return empty_figure("no method to compare with none")
    ends = float(table["draw"].min()), float(table["draw"].max())
    rows = needed.set_index("method")

    return _shaded(
        table,
        names,
        metrics,
        value="better",
        show=lambda value: f"{value:.0%}" if value < 0.995 else "100%",
        limits=(0.5, 1.0),
        colours=diverging(),
        title="How often calibration is better than no calibration,\nby number of rows, and rows needed for 95 of 100",
        last=("rows\nneeded", lambda metric, name: _rows_in_words(float(rows.loc[name, metric]), *ends)),
    )


def rows_to_match(table: pd.DataFrame, methods: pd.DataFrame, metrics: dict[str, str]) -> Figure:
    """Draw the table `rows_to_match`: what the others need to gain what its leader gains with 30, 100, ... rows."""
    names = [name for name in table["method"].unique() if name in set(methods["method"])]
    if not names:
        return empty_figure("no other method to compare with the best one")
    ends = float(table["draw"].min()), float(table["draw"].max())
    return _shaded(
        table.assign(tenfold=np.log10(table["rows"] / table["draw"])),
        names,
        metrics,
        value="rows",
        show=lambda value: _rows_in_words(value, *ends),
        limits=(0.0, 1.0),
        colours=shades(BLUE, WHITE),
        shade="tenfold",
        title=f"Calibration rows needed to gain what {plain(str(table['leader'].iloc[0]))} gains\n"
        "with the number of rows above",
    )


def _rows_in_words(value: float, smallest: float, largest: float) -> str:
    """A number of rows, to two digits, within what was drawn."""
    if math.isinf(value):
        return f"> {largest:g}"
    return f"≤ {smallest:g}" if value <= smallest else _number(float(f"{value:.2g}"))


def _by_mean(table: pd.DataFrame, look: pd.DataFrame, value: str) -> list[str]:
    """Methods by the mean of what is drawn of them, the lowest and best first, and so are their families."""
    means = table.dropna(subset=[value]).groupby("method")[value].mean()
    return sorted(look.index[look.index.isin(means.index)], key=means.get)


@styled
def _shaded(
    table: pd.DataFrame,
    names: list[str],
    metrics: dict[str, str],
    *,
    value: str,
    show: Callable[[float], str],
    limits: tuple[float, float],
    colours: object,
    title: str,
    shade: str | None = None,
    last: tuple[str, Callable[[str, str], str]] | None = None,
) -> Figure:
    """A table of numbers on coloured cells, methods downwards, sizes across, with a panel for each loss.

    Cells are coloured by the column `shade` between `limits`, by default the numbers themselves.
    """
    sizes = sorted(table["draw"].unique())
    columns = len(sizes) + (last is not None)
    figure = new_figure(max(6.0, 1.9 + 2 * 0.62 * columns), 1.25 + 0.23 * len(names))
    grid = figure.subplots(1, len(metrics), squeeze=False)[0]
    for place, (axes, (metric, words)) in enumerate(zip(grid, metrics.items())):
        part = table[table["metric"] == metric]
        numbers, tints = (
            part.pivot(index="method", columns="draw", values=column)
            .reindex(index=names, columns=sizes)
            .to_numpy(float)
            for column in (value, shade or value)
        )
        tints = np.clip((tints - limits[0]) / max(limits[1] - limits[0], 1e-9), 0.0, 1.0)
        # Pale: numbers stay readable in black on every cell.
        axes.imshow(tints, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto", alpha=0.6)
        for i, j in np.ndindex(numbers.shape):
            if not np.isnan(numbers[i, j]):
                look = {"fontsize": 7.5, "color": "black" if np.isfinite(numbers[i, j]) else GREY}
                axes.text(j, i, show(numbers[i, j]), ha="center", va="center", **look)
        if last is not None:
            for i, name in enumerate(names):
                axes.text(len(sizes), i, last[1](metric, name), ha="center", va="center", fontsize=7.5, weight="bold")
        axes.set_xlim(-0.5, columns - 0.5)
        heads = [f"{size:g}" for size in sizes] + ([last[0]] if last is not None else [])
        axes.set_xticks(range(columns), heads)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(names)), [plain(name) for name in names] if place == 0 else [])
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(words)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure
