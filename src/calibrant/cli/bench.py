"""`calibrant bench`: build prediction sets, run methods on them, study the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.lazy import lazy_group
from calibrant.cli.mistakes import explained

STUDY: dict[str, tuple[str, str]] = {
    "report": ("calibrant.cli.study:report_app", "Turn results into tables, figures and a leaderboard page."),
    "search": ("calibrant.cli.study:search_app", "Search for hyperparameters of SMS or SVS."),
}

app = typer.Typer(cls=lazy_group(STUDY), rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Build prediction sets, run methods on them, study the results."""


@app.command()
def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="HDF5 file to write.")] = Path("predictions.h5"),
    suite: Annotated[
        str, typer.Option(help="quick (12 datasets, one fold) or standard (50 datasets, three).")
    ] = "quick",
    datasets: Annotated[str | None, typer.Option(help="Only these datasets, separated by commas.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these models: LR,RF,LGBM,XGB,CB,MLP,MLP3.")] = None,
    folds: Annotated[str | None, typer.Option(help="Test folds, 0 to 9, separated by commas.")] = None,
    max_rows: Annotated[int | None, typer.Option(help="Subsample larger datasets to this many rows.")] = None,
    configs: Annotated[int, typer.Option(help="Configurations tried for each model.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of folds, models and subsamples.")] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; by default one for each core.")] = None,
) -> None:
    """Train real models on real datasets and store their predictions.

    Works offline. A build that was interrupted continues with the same command.
    """
    with explained():
        from calibrant.bench.data.builder import build_predictions
        from calibrant.files.predictions.source import open_predictions

        wanted_folds = None if folds is None else [int(fold) for fold in _names(folds) or ()]
        path = build_predictions(
            out,
            suite,
            datasets=_names(datasets),
            models=_names(models),
            folds=wanted_folds,
            max_rows=max_rows,
            n_configs=configs,
            seed=seed,
            n_jobs=jobs,
        )
        typer.echo(f"{path}: {len(open_predictions(path).experiments())} experiments")


@app.command()
def run(
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas: names, name(parameter=value), package.module:Class, all.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Result folder; continued when it exists.")],
    predictions: Annotated[
        Path | None, typer.Option(help="HDF5, npz, parquet or pickle file, or a folder of them.")
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Use the predictions that come with the package.")
    ] = False,
    index: Annotated[Path | None, typer.Option(help="CSV that names the experiments of an HDF5 file to use.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these datasets, separated by commas.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these models, separated by commas.")] = None,
    folds: Annotated[str | None, typer.Option(help="Only these folds, separated by commas.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for one fit; 0 for no limit.", min=0)] = 600,
    max_cal_rows: Annotated[
        int | None, typer.Option(help="Subsample larger calibration sets (10000 is usual).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of subsamples.")] = 0,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed and timed-out fits again.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; by default one for each core.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a dask scheduler to run on.")] = None,
) -> None:
    """Run every method on every experiment and store tidy results.

    A run that was interrupted, in whatever way, continues with the same command. Rows are computed anew when
    version or parameters of their method changed.
    """
    with explained():
        from calibrant.bench.data.embedded import embedded_predictions
        from calibrant.bench.run.method_spec import parse_methods
        from calibrant.bench.run.plan import Options
        from calibrant.bench.run.runner import run_benchmark
        from calibrant.bench.run.store import ResultFolder
        from calibrant.bench.study.summary import describe
        from calibrant.files.predictions.source import open_predictions, select

        # A script does not look for modules where it is called; a class beside the data is found all the same.
        sys.path.insert(0, os.getcwd())
        if (predictions is None) == (not embedded):
            raise ValueError("give either --predictions FILE or --embedded")
        source = embedded_predictions() if predictions is None else open_predictions(predictions, index)
        options = Options(time_limit or None, max_cal_rows, seed)
        chosen = select(source.experiments(), _names(datasets), _names(models), _names(folds))
        run_benchmark(
            source,
            parse_methods(methods),
            out,
            experiments=chosen,
            options=options,
            n_jobs=jobs,
            dask=dask,
            retry=retry,
        )
        rows = list(ResultFolder(out).rows().values())
        typer.echo(describe(rows))
        typer.echo(_summary(out, [row["status"] for row in rows]))


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(help="Result folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
) -> None:
    """Join result folders into one."""
    with explained():
        from calibrant.bench.run.store import ResultFolder, merge_results

        merge_results(folders, out)
        typer.echo(_summary(out, [row["status"] for row in ResultFolder(out).rows().values()]))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _summary(out: Path, statuses: list[str]) -> str:
    unfinished = [f"{statuses.count(s)} {s}" for s in ("failed", "timeout") if s in statuses]
    return f"{out / 'results.parquet'}: {len(statuses)} rows" + "".join(f", {text}" for text in unfinished)
