"""The figures of the study, each drawn from its tables alone.

`FIGURES` names every figure, the tables it needs and the function that draws them; `draw_figures` draws from
tables in memory and `redraw` from the CSV files of an earlier report. Statistics are never computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.optional import require
from calibrant.plots.study.bars import fit_time, win_rates
from calibrant.plots.study.critical import critical_difference_diagram
from calibrant.plots.study.groups import rank_by_group
from calibrant.plots.study.relative import relative_change, relative_change_by_model
from calibrant.plots.study.style import save

if TYPE_CHECKING:
    import pandas as pd

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
    """A figure: its caption, the tables it draws (besides `methods`), and the function that draws them."""

    caption: str
    tables: tuple[str, ...]
    draw: Callable[..., Any]


_RELATIVE = "relative per experiment, mean per dataset, boxes at 10/25/50/75/90 %, clipped to ±100 %"

FIGURES: dict[str, FigureSpec] = {
    "relative_logloss": FigureSpec(
        f"Relative change of test log loss: {_RELATIVE}.",
        ("relative_by_dataset",),
        partial(relative_change, metric="logloss"),
    ),
    "relative_brier": FigureSpec(
        f"Relative change of test Brier score: {_RELATIVE}.",
        ("relative_by_dataset",),
        partial(relative_change, metric="brier"),
    ),
    "critical_difference_logloss": FigureSpec(
        "Average ranks by log loss; a bar joins methods that Nemenyi's test cannot tell apart.",
        ("ranks_logloss", "friedman"),
        partial(critical_difference_diagram, metric="logloss"),
    ),
    "critical_difference_brier": FigureSpec(
        "Average ranks by Brier score; a bar joins methods that Nemenyi's test cannot tell apart.",
        ("ranks_brier", "friedman"),
        partial(critical_difference_diagram, metric="brier"),
    ),
    "winrates": FigureSpec("Win rates against the other methods.", ("winrates",), win_rates),
    "fit_time": FigureSpec("Time to fit a calibrator.", ("fit_time",), fit_time),
    "rank_by_rows": FigureSpec(
        "Average rank by Brier score in groups of datasets by number of calibration rows.",
        ("rank_by_rows",),
        partial(rank_by_group, what="calibration rows"),
    ),
    "rank_by_classes": FigureSpec(
        "Average rank by Brier score in groups of datasets by number of classes.",
        ("rank_by_classes",),
        partial(rank_by_group, what="classes"),
    ),
    "relative_logloss_by_model": FigureSpec(
        "Relative change of test log loss, by model.",
        ("relative_by_model",),
        partial(relative_change_by_model, metric="logloss"),
    ),
    "relative_brier_by_model": FigureSpec(
        "Relative change of test Brier score, by model.",
        ("relative_by_model",),
        partial(relative_change_by_model, metric="brier"),
    ),
}


def make_figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Any]]:
    """Name and `matplotlib.figure.Figure` of every figure, one after the other."""
    for name, spec in FIGURES.items():
        yield name, spec.draw(*(tables[table] for table in spec.tables), methods=tables["methods"])


def draw_figures(tables: Mapping[str, pd.DataFrame], directory: str | Path) -> list[Path]:
    """Draw every figure from tables by name, as PDF and PNG, and return the files."""
    return [path for name, figure in make_figures(tables) for path in save(figure, Path(directory), name)]


def read_tables(directory: str | Path) -> dict[str, pd.DataFrame]:
    """The tables that figures need, from the CSV files of a folder."""
    pd = require("pandas", extra="bench")
    folder = Path(directory)
    needed = sorted({"methods", *(table for spec in FIGURES.values() for table in spec.tables)})
    missing = [name for name in needed if not (folder / f"{name}.csv").is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(f'{name}.csv' for name in missing)}")
    # A dataset or method may be called "NA": only numbers can be missing.
    names = {"benchmark": str, "dataset": str, "model": str, "method": str, "family": str}
    numbers = ("logloss", "brier", "rank", "low", "high", "critical_difference", "seconds_per_1000", "winrate")
    gaps = {name: ["", "nan"] for name in numbers}
    return {
        name: pd.read_csv(folder / f"{name}.csv", dtype=names, keep_default_na=False, na_values=gaps) for name in needed
    }


def redraw(directory: str | Path) -> list[Path]:
    """Draw the figures of a report again, from the CSV files in `directory/tables`, without its results.

    A table that was edited or cut by hand is drawn as it is: to leave a method out of a figure, delete its rows.
    """
    return draw_figures(read_tables(Path(directory) / "tables"), Path(directory) / "figures")
