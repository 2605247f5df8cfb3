"""The figures of a benchmark's study: each function draws the tables it is given and computes no statistics."""

from __future__ import annotations

from calibrant.plots.benchmark.bars import fit_time, win_rates
from calibrant.plots.benchmark.benchmark_style import save
from calibrant.plots.benchmark.critical import critical_difference_diagram
from calibrant.plots.benchmark.rank_panels import rank_by_group
from calibrant.plots.benchmark.relative import relative_change, relative_change_by_model
from calibrant.plots.benchmark.row_curves import draw_curves, rank_by_draw, rows_needed, rows_to_match
from calibrant.plots.benchmark.search_panels import search_figure

__all__ = [
    "critical_difference_diagram",
    "draw_curves",
    "fit_time",
    "rank_by_draw",
    "rank_by_group",
    "relative_change",
    "relative_change_by_model",
    "rows_needed",
    "rows_to_match",
    "save",
    "search_figure",
    "win_rates",
]
