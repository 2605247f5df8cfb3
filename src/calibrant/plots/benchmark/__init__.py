"""The figures of a benchmark's study: each function draws the tables it is given and computes no statistics."""

from __future__ import annotations

from calibrant.plots.benchmark.benchmark_style import save
from calibrant.plots.benchmark.critical import critical_difference_diagram
from calibrant.plots.benchmark.method_rows import fit_time, relative_change, relative_change_by_model, win_rates
from calibrant.plots.benchmark.number_panels import draw_curves, rank_by_draw, rank_by_group, rows_needed, rows_to_match
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
