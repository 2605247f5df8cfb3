"""Average rank of every method in groups of datasets, with 95 % intervals.

Up to eight methods share one panel. With more, lines could not be told apart: then every family has a panel of its own,
the other methods in grey behind it and the baseline dashed for reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.optional import require
from calibrant.plots.benchmark.benchmark_style import Methods, empty_figure, family_legend, family_panels, plain, styled

if TYPE_CHECKING:
    import pandas as pd


def rank_by_group(table: pd.DataFrame, methods: pd.DataFrame, what: str, baseline: str) -> Any:
    """Draw the table `rank_by_rows` or `rank_by_classes`.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns group, smallest, largest, n_datasets, method, rank, low and high.
    methods : pandas.DataFrame
        The table `methods`.
    what : str
        What the groups are made by, for the axis: "calibration rows", "classes".
    baseline : str
        Method without calibration, shown for reference.
    """
    look = Methods.from_table(methods)
    # Best first, and so are the families.
    means = table.groupby("method")["rank"].mean()
    names = sorted(look.present(table["method"].tolist()), key=lambda name: float(means[name]))
    if table.empty:
        return empty_figure(f"no groups: the number of {what} is the same on every dataset, or there are no ranks")
    ticker = require("matplotlib.ticker", extra="plots")
    with styled() as figure_class:
        figure, panels = family_panels(figure_class, names, look, baseline)
        for axes, shown in panels:
            _panel(axes, table, names, shown, look, baseline)
        panels[0][0].set_ylim(len(names) + 0.5, 0.5)
        panels[0][0].yaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=3))
        dashed = f"; dashed: {baseline}" if len(panels) > 1 else ""
        figure.supxlabel(f"number of {what} (datasets in the group){dashed}", fontsize=9)
        figure.supylabel("average rank by Brier score (1 is best)", fontsize=9)
        figure.suptitle(f"Average rank by number of {what}, with 95 % intervals", fontsize=10)
    return figure


def _panel(axes: Any, table: pd.DataFrame, names: list[str], shown: list[str], look: Methods, baseline: str) -> None:
    groups = table.drop_duplicates("group").sort_values("group")
    at = np.arange(len(groups), dtype=float)
    for name in names:
        if name not in shown:
            part = table[table["method"] == name].sort_values("group")
            grey = {"color": look.colour[name], "linestyle": "--"} if name == baseline else {"color": "#e2e2e2"}
            axes.plot(at, part["rank"], linewidth=1.0, zorder=1, **grey)
    for place, name in enumerate(shown):
        part = table[table["method"] == name].sort_values("group")
        x = at + 0.5 * ((place + 0.5) / len(shown) - 0.5)
        colour = look.colour[name]
        axes.plot(x, part["rank"], color=colour, linewidth=0.9, alpha=0.45, zorder=2)
        # An interval of a mean may reach beyond the ranks there are.
        axes.vlines(x, part["low"].clip(1, len(names)), part["high"].clip(1, len(names)), color=colour, linewidth=1.6)
        axes.scatter(x, part["rank"], color=colour, marker=look.marker[name], s=30, zorder=4, label=plain(name))
    labels = [
        f"{_number(row.smallest)}\n({row.n_datasets})"
        if row.smallest == row.largest
        else f"{_number(row.smallest)}–{_number(row.largest)}\n({row.n_datasets})"
        for row in groups.itertuples()
    ]
    axes.set_xticks(at, labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.grid(axis="y")
    for edge in at[1:]:
        axes.axvline(edge - 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    family_legend(axes, look, None if len(shown) == len(names) else shown)


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u2009")
