"""The figures of the study by name, each drawn from its tables alone.

`FIGURES` names every figure, the tables it needs and the function that draws them; `draw_figures` draws from
tables in memory and `redraw` from the CSV files of an earlier report. Statistics are never computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from calibrant.bench.csv_files import read_csv
from calibrant.bench.schema import DATASET, METRICS
from calibrant.calibrators.registry import BASELINE
from calibrant.plots import benchmark as draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FigureSpec:
    """A figure: its caption, the tables it draws (besides `methods`), and the function that draws them.

    An optional figure is drawn when all its tables are there; without them, any other is an error.
    """

    caption: str
    tables: tuple[str, ...]
    draw: Callable[..., Figure]
    optional: bool = False


_RELATIVE = "relative per experiment, mean per dataset, boxes at 10/25/50/75/90 %, clipped to ±100 %"


def _figures() -> Iterator[tuple[str, FigureSpec]]:
    def each_loss(
        name: str, caption: str, tables: str, function: Callable[..., Figure], optional: bool = False, **options: object
    ) -> Iterator[tuple[str, FigureSpec]]:
        for metric, words in METRICS.items():
            drawn = partial(function, metric=metric, words=words, **options)
            needed = tuple(tables.format(metric=metric).split())
            yield name.format(metric), FigureSpec(caption.format(words=words), needed, drawn, optional)

    # First those of results whose calibration rows were drawn.
    caption = "Change of {words} against the number of calibration rows, with bands over datasets."
    yield from each_loss("draw_curves_{}", caption, "draw_curves", draw.draw_curves, True, baseline=BASELINE)
    caption = "Average rank of every method by number of calibration rows."
    yield "rank_by_draw", FigureSpec(caption, ("draws",), partial(draw.rank_by_draw, metrics=METRICS), True)
    caption = (
        "Share of draws in which a method beat no calibration, where there is at least 1 % to gain, and the rows it "
        "needs to do so in 95 of 100."
    )
    needed = "draw_curves", "rows_needed"
    yield "rows_needed", FigureSpec(caption, needed, partial(draw.rows_needed, metrics=METRICS), True)
    caption = "Calibration rows that the other methods need to gain what the best one gains with few."
    yield "rows_to_match", FigureSpec(caption, ("rows_to_match",), partial(draw.rows_to_match, metrics=METRICS), True)

    caption = f"Relative change of test {{words}}: {_RELATIVE}."
    yield from each_loss("relative_{}", caption, "relative_by_dataset", draw.relative_change)
    caption = "Average ranks by {words}; a bar joins methods that Nemenyi's test cannot tell apart."
    yield from each_loss("critical_difference_{}", caption, "ranks_{metric} friedman", draw.critical_difference_diagram)
    caption = "Win rates against the other methods."
    yield "winrates", FigureSpec(caption, ("winrates",), partial(draw.win_rates, metrics=METRICS))
    yield "fit_time", FigureSpec("Time to fit a calibrator.", ("fit_time",), draw.fit_time)
    for name, what in (("rank_by_rows", "calibration rows"), ("rank_by_classes", "classes")):
        caption = f"Average rank by Brier score in groups of datasets by number of {what}."
        yield name, FigureSpec(caption, (name,), partial(draw.rank_by_group, what=what, baseline=BASELINE))
    caption = "Relative change of test {words}, by model."
    yield from each_loss("relative_{}_by_model", caption, "relative_by_model", draw.relative_change_by_model)


FIGURES: dict[str, FigureSpec] = dict(_figures())


def make_figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Figure]]:
    """Name and `matplotlib.figure.Figure` of every figure, one after the other."""
    for name, spec in FIGURES.items():
        if spec.optional and not all(table in tables for table in spec.tables):
            continue
        yield name, spec.draw(*(tables[table] for table in spec.tables), methods=tables["methods"])


def draw_figures(tables: Mapping[str, pd.DataFrame], directory: str | Path) -> list[Path]:
    """Draw every figure from tables by name, as PDF and PNG, and return the files."""
    return [path for name, figure in make_figures(tables) for path in draw.save(figure, Path(directory), name)]


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
