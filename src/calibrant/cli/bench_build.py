"""`calibrant bench build`: real models on real datasets, their predictions in one file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import bench_options as options
from calibrant.cli.mistakes import asked, explained
from calibrant.cli.options import split_names

app = typer.Typer(rich_markup_mode=None)


class DatasetChoice(StrEnum):
    """Datasets of a suite."""

    open = "open"
    unseen = "unseen"
    all = "all"


@app.command()
def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="HDF5 file to write.")] = Path("predictions.h5"),
    suite: Annotated[
        str,
        typer.Option(
            help="quick (12 datasets, 7 models), embedded (16 larger ones, 4 models), standard (50 datasets, 7 models, "
            "three folds) or distorted (22 datasets, 11 ways to be miscalibrated)."
        ),
    ] = "quick",
    part: Annotated[
        DatasetChoice,
        typer.Option(help="Of a suite that keeps a third of its datasets apart: the open ones, the unseen, or all."),
    ] = DatasetChoice.open,
    datasets: options.Datasets = None,
    models: Annotated[str | None, typer.Option(help="Only these models, such as LR,RF,LGBM,XGB,CB,MLP,MLP3.")] = None,
    folds: Annotated[str | None, typer.Option(help="Test folds, 0 to 9, separated by commas.")] = None,
    max_rows: Annotated[int | None, typer.Option(help="Subsample larger datasets to this many rows.")] = None,
    configs: Annotated[int, typer.Option(help="Configurations tried for each model.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of folds, models and subsamples.")] = 0,
    jobs: options.Jobs = None,
) -> None:
    """Train real models on real datasets and store their predictions.

    Works offline. A build that was interrupted continues with the same command.
    """
    with explained(kept=f"What is done is kept in {out}; the same command continues"):
        from calibrant.bench.building.builder import build_predictions
        from calibrant.bench.building.suites import find_suite
        from calibrant.files.prediction_sets.open_set import open_predictions

        with asked():
            find_suite(suite)
            wanted_folds = None if folds is None else [int(fold) for fold in split_names(folds) or ()]
        path = build_predictions(
            out,
            suite,
            part=part.value,
            datasets=split_names(datasets),
            models=split_names(models),
            folds=wanted_folds,
            max_rows=max_rows,
            n_configs=configs,
            seed=seed,
            n_jobs=jobs,
        )
        typer.echo(f"{path}: {len(open_predictions(path).experiments())} experiments")
