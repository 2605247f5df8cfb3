"""The figures of the study by name, each drawn from its tables alone.

`FIGURES` names every figure, the tables it needs and the function that draws them; `draw_figures` draws from
tables in memory and `redraw` from the CSV files of an earlier report. Statistics are never computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from calibrant.bench.csv_files import read_csv
from calibrant.bench.schema import DATASET, METRICS
from calibrant.calibrators.registry import BASELINE
from calibrant.plots.study import (
    critical_difference_diagram,
    draw_curves,
    fit_time,
    rank_by_draw,
    rank_by_group,
    relative_change,
    relative_change_by_model,
    rows_needed,
    rows_to_match,
    save,
    win_rates,
)

__all__ = [
    "FIGURES",
    "FigureSpec",
    "critical_difference_diagram",
    "draw_figures",
    "fit_time",
    "make_figures",
    "rank_by_group",
    "read_tables",
    "redraw",
    "relative_change",
    "relative_change_by_model",
    "win_rates",
]


@dataclass(frozen=True)
class FigureSpec:
    """A figure: its caption, the tables it draws (besides `methods`), and the function that draws them.

    An optional figure is drawn when all its tables are there; without them, any other is an error.
    """

    caption: str
    tables: tuple[str, ...]
    draw: Callable[..., Any]
    optional: bool = False


_RELATIVE = "relative per experiment, mean per dataset, boxes at 10/25/50/75/90 %, clipped to ±100 %"


def _figures() -> Iterator[tuple[str, FigureSpec]]:
    yield from _draw_figures()
    for metric, words in METRICS.items():
        draw: Callable[..., Any] = partial(relative_change, metric=metric, words=words)
        yield (
            f"relative_{metric}",
            FigureSpec(f"Relative change of test {words}: {_RELATIVE}.", ("relative_by_dataset",), draw),
        )
    for metric, words in METRICS.items():
        draw = partial(critical_difference_diagram, metric=metric, words=words)
        caption = f"Average ranks by {words}; a bar joins methods that Nemenyi's test cannot tell apart."
        yield f"critical_difference_{metric}", FigureSpec(caption, (f"ranks_{metric}", "friedman"), draw)
    draw = partial(win_rates, metrics=METRICS)
    yield "winrates", FigureSpec("Win rates against the other methods.", ("winrates",), draw)
    yield "fit_time", FigureSpec("Time to fit a calibrator.", ("fit_time",), fit_time)
    for name, what in (("rows", "calibration rows"), ("classes", "classes")):
        draw = partial(rank_by_group, what=what, baseline=BASELINE)
        caption = f"Average rank by Brier score in groups of datasets by number of {what}."
        yield f"rank_by_{name}", FigureSpec(caption, (f"rank_by_{name}",), draw)
    for metric, words in METRICS.items():
        draw = partial(relative_change_by_model, metric=metric, words=words)
        caption = f"Relative change of test {words}, by model."
        yield f"relative_{metric}_by_model", FigureSpec(caption, ("relative_by_model",), draw)


def _draw_figures() -> Iterator[tuple[str, FigureSpec]]:
    """Figures of results whose calibration rows were drawn."""
    for metric, words in METRICS.items():
        draw: Callable[..., Any] = partial(draw_curves, metric=metric, words=words, baseline=BASELINE)
        caption = f"Change of {words} against the number of calibration rows, with bands over datasets."
        yield f"draw_curves_{metric}", FigureSpec(caption, ("draw_curves",), draw, optional=True)
    draw = partial(rank_by_draw, metrics=METRICS)
    caption = "Average rank of every method by number of calibration rows."
    yield "rank_by_draw", FigureSpec(caption, ("draws",), draw, optional=True)
    draw = partial(rows_needed, metrics=METRICS)
    caption = (
        "Share of draws in which a method was better than nothing, where there is at least 1 % to gain, and the rows "
        "it needs to be so in 95 of 100."
    )
    yield "rows_needed", FigureSpec(caption, ("draw_curves", "rows_needed"), draw, optional=True)
    draw = partial(rows_to_match, metrics=METRICS)
    caption = "Calibration rows that the other methods need to gain what the best one gains with few."
    yield "rows_to_match", FigureSpec(caption, ("rows_to_match",), draw, optional=True)


FIGURES: dict[str, FigureSpec] = dict(_figures())


def make_figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Any]]:
    """Name and `matplotlib.figure.Figure` of every figure, one after the other."""
    for name, spec in FIGURES.items():
        if spec.optional and not all(table in tables for table in spec.tables):
            continue
        yield name, spec.draw(*(tables[table] for table in spec.tables), methods=tables["methods"])


def draw_figures(tables: Mapping[str, pd.DataFrame], directory: str | Path) -> list[Path]:
    """Draw every figure from tables by name, as PDF and PNG, and return the files."""
    return [path for name, figure in make_figures(tables) for path in save(figure, Path(directory), name)]


def read_tables(directory: str | Path) -> dict[str, pd.DataFrame]:
    """The tables that figures need, from the CSV files of a folder."""
    folder = Path(directory)
    wanted = {table: spec.optional for spec in FIGURES.values() for table in spec.tables} | {"methods": False}
    there = [name for name in sorted(wanted) if (folder / f"{name}.csv").is_file()]
    if missing := [name for name, optional in sorted(wanted.items()) if not optional and name not in there]:
        raise FileNotFoundError(f"{folder} lacks {', '.join(f'{name}.csv' for name in missing)}")
    numbers = ("logloss", "brier", "rank", "low", "high", "critical_difference", "seconds_per_1000", "winrate")
    return {name: read_csv(folder / f"{name}.csv", [*DATASET, "model", "method", "family"], numbers) for name in there}


def redraw(directory: str | Path) -> list[Path]:
    """Draw the figures of a report again, from the CSV files in `directory/tables`, without its results.

    A table that was edited or cut by hand is drawn as it is: to leave a method out of a figure, delete its rows.
    """
    return draw_figures(read_tables(Path(directory) / "tables"), Path(directory) / "figures")
