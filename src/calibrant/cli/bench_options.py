"""Options that several `bench` commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Predictions = Annotated[
    Path | None, typer.Option(exists=True, help="HDF5, npz, parquet or pickle file, or a folder of them.")
]
Datasets = Annotated[str | None, typer.Option(help="Only these datasets, separated by commas.")]
Models = Annotated[str | None, typer.Option(help="Only these models, separated by commas.")]
Folds = Annotated[str | None, typer.Option(help="Only these folds, separated by commas.")]
MaxCalRows = Annotated[int | None, typer.Option(help="Subsample larger calibration sets (10000 is usual).")]
TimeLimit = Annotated[float, typer.Option(help="Seconds for one fit; 0 for no limit.", min=0)]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; by default one per core.")]


def result_lines(out: Path, statuses: list[str]) -> str:
    """Where the results are, how many there are, and how many of them failed."""
    unfinished = [f"{statuses.count(s)} {s}" for s in ("failed", "timeout") if s in statuses]
    return f"{out / 'results.parquet'}: {len(statuses)} rows" + "".join(f", {text}" for text in unfinished)
