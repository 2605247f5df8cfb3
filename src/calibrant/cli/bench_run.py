"""`calibrant bench run`: every method on every experiment."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import bench_options as options
from calibrant.cli.mistakes import asked, explained
from calibrant.cli.options import split_names

app = typer.Typer(rich_markup_mode=None)


class DrawFrom(StrEnum):
    """Part of an experiment that calibration rows are drawn from."""

    cal = "cal"
    test = "test"
    both = "both"


class LabelKind(StrEnum):
    """Where labels come from."""

    real = "real"
    drawn = "drawn"


@app.command()
def run(
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas: names, name(parameter=value), package.module:Class, all.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Result folder; continued when it exists.")],
    predictions: options.Predictions = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Use the predictions that come with the package.")
    ] = False,
    index: Annotated[
        Path | None, typer.Option(exists=True, help="CSV that names the experiments of an HDF5 file to use.")
    ] = None,
    datasets: options.Datasets = None,
    models: options.Models = None,
    folds: options.Folds = None,
    time_limit: options.TimeLimit = 600,
    max_cal_rows: options.MaxCalRows = None,
    draw: Annotated[
        str | None,
        typer.Option(
            help="Draw so many calibration rows from each experiment, as in 30,100,300, and test on the others; "
            "'split' redraws the split (with --rows both)."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Draws of each size.", min=1)] = 3,
    rows: Annotated[
        DrawFrom, typer.Option(help="Part to draw from and to test on; both pools the two.")
    ] = DrawFrom.cal,
    labels: Annotated[
        LabelKind, typer.Option(help="drawn: labels drawn from the predictions, so that any change is harm.")
    ] = LabelKind.real,
    seed: Annotated[int, typer.Option(help="Seed of subsamples and draws.")] = 0,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed and timed-out fits again.")] = False,
    jobs: options.Jobs = None,
    dask: Annotated[str | None, typer.Option(help="Address of a dask scheduler to run on.")] = None,
) -> None:
    """Run every method on every experiment and store tidy results.

    An interrupted run, however it ended, continues with the same command. Rows are computed anew when the version or
    the parameters of their method changed.
    """
    with explained(kept=f"What is done is kept in {out}; the same command continues"):
        from calibrant.bench.building.embedded import embedded_predictions
        from calibrant.bench.runs.drawn_rows import Draw, draw_sizes
        from calibrant.bench.runs.method_spec import parse_methods
        from calibrant.bench.runs.run_plan import Options
        from calibrant.bench.runs.runner import run_benchmark
        from calibrant.bench.runs.store import ResultFolder
        from calibrant.bench.study.run_summary import describe, failed_everywhere
        from calibrant.files.prediction_sets.experiments import select_experiments
        from calibrant.files.prediction_sets.open_set import open_predictions

        with asked():
            if (predictions is None) == (not embedded):
                raise ValueError("give either --predictions FILE or --embedded")
            if ":" in methods:
                # A class in a file beside the data is found; last on the path, where it hides no installed package.
                sys.path.append(os.getcwd())
            specs = parse_methods(methods)
        source = embedded_predictions() if predictions is None else open_predictions(predictions, index)
        experiments = source.experiments()
        with asked():
            chosen = select_experiments(experiments, split_names(datasets), split_names(models), split_names(folds))
            if draw is None and (labels is not LabelKind.real or rows is not DrawFrom.cal):
                raise ValueError("--labels and --rows are for draws: name their sizes, as in --draw 30,100,300,1000")
            drawn = None if draw is None else Draw(draw_sizes(draw), repeats, rows.value, labels.value, seed)
            settings = Options(time_limit or None, max_cal_rows, seed, drawn)
        run_benchmark(source, specs, out, experiments=chosen, options=settings, n_jobs=jobs, dask=dask, retry=retry)
        found = list(ResultFolder(out).rows().values())
        typer.echo(describe(found))
        typer.echo(options.result_lines(out, [row["status"] for row in found]))
        if failures := failed_everywhere(found, [spec.label for spec in specs]):
            raise RuntimeError(failures)
