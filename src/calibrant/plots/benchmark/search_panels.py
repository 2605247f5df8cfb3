"""The hyperparameter search in one figure: progress, every parameter, and the control datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.optional import require
from calibrant.plots.benchmark.benchmark_style import empty_figure, new_figure, styled
from calibrant.plots.style import BLUE, VERMILION
from calibrant.typing import AnyFloatArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYMBOLS = {
    "rho": "ρ",
    "tau": "τ",
    "lambda_intercept": "λ intercept",
    "lambda_diagonal": "λ diagonal",
    "lambda_off_diagonal": "λ off-diagonal",
}
MOST_TICKS = 5
"""Ticks that a panel has room for."""
_DOT, _DEFAULT, _BEST = BLUE, "#222222", VERMILION


@styled
def search_figure(trials: pd.DataFrame, control: pd.DataFrame) -> Figure:
    """Draw the tables `search_trials`, whose first row is the defaults, and `search_control`."""
    done = trials[(trials["state"] == "complete")].sort_values("trial")
    if done.empty:
        return empty_figure("no trial finished")
    names = [name for name in SYMBOLS if name in done]
    values = done["brier_improvement"].to_numpy(float)
    top = int(np.argmax(values))
    figure = new_figure(9.6, 5.6)
    shape = figure.subplots(2, 4 if len(names) > 4 else 3)
    grid = list(shape.flat)
    figure.suptitle("Hyperparameter search: its course, every parameter, and control datasets", fontsize=10)
    _course(grid[0], values, top)
    # The axis leaves out a few very bad configurations, beside which all others would look equal.
    low, high = min(np.quantile(values, 0.15), values[0]), values.max()
    margin = 0.12 * (high - low) or 1e-6
    for axes, name in zip(grid[1:], names):
        _parameter(axes, done[name].to_numpy(float), values, top, name)
    below = int((values < low - margin).sum())
    if below:
        grid[0].set_title(f"{below} of {len(values)} trials lie below", fontsize=8, color="#666666")
    for axes in grid[: len(names) + 1]:
        axes.set_ylim(low - margin, high + margin)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3), useMathText=True)
    if not control.empty:
        _control(grid[len(names) + 1], control)
    for axes in grid[len(names) + (1 if control.empty else 2) :]:
        axes.set_visible(False)
    for row in shape:
        row[0].set_ylabel("mean Brier improvement")
        for axes in row[1:]:
            if axes is not grid[len(names) + 1]:
                axes.tick_params(labelleft=False)
                axes.yaxis.get_offset_text().set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return figure


def _course(axes: Axes, values: FloatArray, top: int) -> None:
    at = np.arange(1, len(values) + 1)
    axes.scatter(at, values, s=12, color=_DOT, alpha=0.6, linewidths=0)
    axes.step(at, np.maximum.accumulate(values), where="post", color=_BEST, linewidth=1.2, label="best so far")
    axes.axhline(values[0], color=_DEFAULT, linewidth=0.9, linestyle="--")
    axes.scatter([1], [values[0]], marker="D", s=34, color=_DEFAULT, zorder=4, label="defaults")
    axes.scatter([top + 1], [values[top]], marker="*", s=110, color=_BEST, zorder=5, label="best configuration")
    axes.set_xlabel("finished trials")


def _parameter(axes: Axes, x: FloatArray, values: FloatArray, top: int, name: str) -> None:
    spread: AnyFloatArray = np.zeros(len(x))
    ticker = require("matplotlib.ticker", extra="plots")
    if name.startswith("lambda"):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(numticks=4))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        # Few distinct values: spread the dots a little, the same way whenever the figure is redrawn.
        values_of = sorted(set(x))
        if len(values_of) <= MOST_TICKS:
            axes.set_xticks(values_of)
        else:
            axes.xaxis.set_major_locator(ticker.MaxNLocator(MOST_TICKS - 1))
        # No further than half-way to the next value.
        reach = min(0.16, 0.5 * float(np.diff(values_of).min(initial=0.32)))
        spread = reach * (((0.5 + 0.618034 * np.arange(len(x))) % 1.0) - 0.5)
    axes.scatter(x + spread, values, s=12, color=_DOT, alpha=0.6, linewidths=0)
    axes.scatter([x[0]], [values[0]], marker="D", s=34, color=_DEFAULT, zorder=4)
    axes.scatter([x[top]], [values[top]], marker="*", s=110, color=_BEST, zorder=5)
    axes.set_xlabel(SYMBOLS[name])
    axes.grid(axis="y")


def _control(axes: Axes, control: pd.DataFrame) -> None:
    axes.set_title("control datasets", fontsize=9)
    x, y = control["default"].to_numpy(float), control["best"].to_numpy(float)
    axes.scatter(x, y, s=16, color=_DOT, alpha=0.7, linewidths=0)
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    pad = 0.06 * (high - low) or 1e-6
    axes.plot([low - pad, high + pad], [low - pad, high + pad], color=_DEFAULT, linewidth=0.8, linestyle="--")
    axes.set_xlim(low - pad, high + pad)
    axes.set_ylim(low - pad, high + pad)
    axes.set_xlabel("Brier improvement, defaults")
    axes.set_ylabel("best configuration")
    axes.locator_params(nbins=4)
