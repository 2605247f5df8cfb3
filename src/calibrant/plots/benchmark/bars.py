"""Fit times on a logarithmic axis, and win rates as bars, both with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.plots.benchmark.benchmark_style import Methods, empty_figure, method_axis, row_height, styled

if TYPE_CHECKING:
    import pandas as pd


def fit_time(table: pd.DataFrame, methods: pd.DataFrame) -> Any:
    """Draw the table `fit_time`: mean seconds per 1000 calibration rows."""
    look = Methods.from_table(methods)
    table = table[np.isfinite(table["seconds_per_1000"].to_numpy(float)) & (table["seconds_per_1000"] > 0)]
    # Fastest first.
    names = table.sort_values("seconds_per_1000", kind="stable")["method"].astype(str).tolist()
    if not names:
        return empty_figure("no fit times in the results")
    rows = table.set_index("method")
    floor = 0.5 * float(rows["seconds_per_1000"].min())
    with styled() as figure_class:
        figure = figure_class(figsize=(7.0, 1.4 + row_height(len(names)) * len(names)), layout="constrained")
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


def win_rates(table: pd.DataFrame, methods: pd.DataFrame, metrics: Mapping[str, str]) -> Any:
    """Draw the table `winrates`: share of wins against all other methods, with a panel for each of `metrics`."""
    look = Methods.from_table(methods)
    table = table.dropna(subset=["winrate"])
    # Best first, by the first metric.
    first = table[table["metric"] == next(iter(metrics))].sort_values("winrate", ascending=False, kind="stable")
    names = [*first["method"].astype(str), *(n for n in look.present(table["method"]) if n not in set(first["method"]))]
    if not names:
        return empty_figure("win rates need two methods")
    with styled() as figure_class:
        height = 1.4 + row_height(len(names)) * len(names)
        figure = figure_class(figsize=(8.0, height), layout="constrained")
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
