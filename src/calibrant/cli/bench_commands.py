"""`calibrant bench`: build prediction sets, run methods on them, study the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant.cli.mistakes import asked
from calibrant.cli.options import command, flag, option, split_names
from calibrant.numerals import amount

if TYPE_CHECKING:
    from calibrant.files.prediction_sets.experiments import Experiment, PredictionSource

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False)

Predictions = Annotated[
    Path | None, typer.Option(exists=True, help="HDF5, npz, parquet or pickle file, or a folder of them.")
]
Datasets = Annotated[str | None, typer.Option(help="Only these datasets, separated by commas.")]
Models = Annotated[str | None, typer.Option(help="Only these models, separated by commas.")]
Folds = Annotated[str | None, typer.Option(help="Only these folds, separated by commas.")]
MaxCalRows = Annotated[int | None, typer.Option(help="Subsample larger calibration sets (usually to 10000).")]
TimeLimit = Annotated[float, typer.Option(help="Seconds for one fit; 0 for no limit.", min=0)]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; by default one per core.")]
#: What an interrupted command leaves behind.
_KEPT = "Finished work is kept in {out}; run the same command to continue"


@app.callback()
def _bench() -> None:
    """Build prediction sets, run methods on them, study the results."""


@app.command()
@command(_KEPT)
def build(
    *,
    out: Path = option("HDF5 file to write.", "--out", "-o", default=Path("predictions.h5")),
    suite: str = option(
        "quick (12 datasets, 7 models), embedded (16 larger ones, 4 models), standard (50 datasets, 7 models, three "
        "folds) or distorted (22 datasets, 11 ways to be miscalibrated).",
        default="quick",
    ),
    part: Literal["open", "unseen", "all"] = option(
        "For a suite that holds out a third of its datasets: the open ones, the unseen ones, or all.", default="open"
    ),
    datasets: Datasets = None,
    models: str | None = option("Only these models, such as LR,RF,LGBM,XGB,CB,MLP,MLP3."),
    folds: str | None = option("Test folds, 0 to 9, separated by commas."),
    max_rows: int | None = option("Subsample larger datasets to this many rows."),
    configs: int = option("Configurations tried for each model.", default=1, min=1),
    seed: int = option("Seed of folds, models and subsamples.", default=0),
    jobs: Jobs = None,
) -> None:
    """Train real models on real datasets and store their predictions.

    Works offline. A build that was interrupted continues with the same command.
    """
    from calibrant.bench import build_predictions, open_predictions
    from calibrant.bench.building.suites import find_suite

    with asked():
        find_suite(suite)
        wanted_folds = None if folds is None else [int(fold) for fold in split_names(folds) or ()]
    path = build_predictions(
        out,
        suite,
        part=part,
        datasets=split_names(datasets),
        models=split_names(models),
        folds=wanted_folds,
        max_rows=max_rows,
        n_configs=configs,
        seed=seed,
        n_jobs=jobs,
    )
    typer.echo(f"{path}: {len(open_predictions(path).experiments())} experiments")


@app.command()
@command(_KEPT)
def run(
    *,
    methods: str = option(
        "Methods, separated by commas: names, name(parameter=value), package.module:Class, all.", default=...
    ),
    out: Path = option("Result folder; continued when it exists.", "--out", "-o", default=...),
    predictions: Predictions = None,
    embedded: bool = flag("Use the predictions that come with the package."),
    index: Path | None = option("CSV that names the experiments of an HDF5 file to use.", exists=True),
    datasets: Datasets = None,
    models: Models = None,
    folds: Folds = None,
    time_limit: TimeLimit = 600,
    max_cal_rows: MaxCalRows = None,
    draw: str | None = option(
        "Draw this many calibration rows from each experiment, as in 30,100,300, and test on the others; 'split' "
        "redraws the split (with --rows both)."
    ),
    repeats: int = option("Draws of each size.", default=3, min=1),
    rows: Literal["cal", "test", "both"] = option(
        "Part to draw from and to test on; both pools the two.", default="cal"
    ),
    labels: Literal["real", "drawn"] = option(
        "drawn: draw labels from the predictions, so that any change is harmful.", default="real"
    ),
    seed: int = option("Seed of subsamples and draws.", default=0),
    retry: bool = flag("Run failed and timed-out fits again."),
    jobs: Jobs = None,
    dask: str | None = option("Address of a dask scheduler to run on."),
) -> None:
    """Run every method on every experiment and store tidy results.

    An interrupted run, however it ended, continues with the same command. Rows are recomputed when the version or the
    parameters of their method have changed.
    """
    from calibrant.bench import Draw, Options, describe, embedded_predictions, open_predictions, run_benchmark
    from calibrant.bench.runs.drawn_rows import draw_sizes
    from calibrant.bench.runs.method_spec import parse_methods
    from calibrant.bench.runs.store import ResultFolder
    from calibrant.bench.study.run_summary import failed_everywhere

    with asked():
        if (predictions is None) == (not embedded):
            raise ValueError("give either --predictions FILE or --embedded")
        if ":" in methods:
            # A class in a file beside the data is found; last on the path, where it hides no installed package.
            sys.path.append(os.getcwd())
        specs = parse_methods(methods)
    source = embedded_predictions() if predictions is None else open_predictions(predictions, index)
    with asked():
        chosen = _chosen(source, datasets, models, folds)
        if draw is None and (labels != "real" or rows != "cal"):
            raise ValueError("--labels and --rows are for draws: name their sizes, as in --draw 30,100,300,1000")
        drawn = None if draw is None else Draw(draw_sizes(draw), repeats, rows, labels, seed)
        settings = Options(time_limit or None, max_cal_rows, seed, drawn)
    run_benchmark(source, specs, out, experiments=chosen, options=settings, n_jobs=jobs, dask=dask, retry=retry)
    found = list(ResultFolder(out).rows().values())
    typer.echo(describe(found))
    typer.echo(_result_lines(out, [row["status"] for row in found]))
    if failures := failed_everywhere(found, [spec.label for spec in specs]):
        raise RuntimeError(failures)


@app.command()
@command()
def merge(
    *,
    folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Result folders.")],
    out: Path = option("Folder to write.", "--out", "-o", default=...),
) -> None:
    """Join result folders into one."""
    from calibrant.bench.runs.store import ResultFolder, merge_results

    merge_results(folders, out)
    typer.echo(_result_lines(out, [row["status"] for row in ResultFolder(out).rows().values()]))


@app.command()
@command()
def report(
    *,
    out: Path = option("Folder to write: tables, figures, leaderboard.html.", "--out", "-o", default=...),
    results: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, help="Result folders or files (parquet, CSV, CSV.gz) of `bench run`."),
    ] = None,
    alpha: float = option("Level of the tests.", default=0.05),
    methods: str | None = option("Only these methods, separated by commas; none is always kept."),
    benchmarks: str | None = option("Only these benchmarks, separated by commas."),
    unranked: str | None = option("Methods left out of ranks and tests, separated by commas."),
    seed: int = option("Seed of the bootstrap.", default=0),
    title: str = option("Heading of the page.", default="Calibration leaderboard"),
    redraw: bool = flag("Only redraw the figures of DIR from its tables."),
) -> None:
    """Turn results into tables, statistics, figures and a leaderboard page. Nothing is refitted."""
    if redraw:
        from calibrant.bench.study.figures import redraw as draw_again

        with asked():
            if results:
                raise ValueError("--redraw draws from the tables in --out and takes no results")
        typer.echo(f"{len(draw_again(out))} files in {out / 'figures'}")
        return
    from calibrant.bench import make_report
    from calibrant.bench.study.render import to_text

    with asked():
        if not results:
            raise ValueError("name the results: folders or files of `calibrant bench run`")
    made = make_report(
        results,
        out,
        alpha=alpha,
        methods=split_names(methods),
        benchmarks=split_names(benchmarks),
        unranked=split_names(unranked) or (),
        seed=seed,
        title=title,
    )
    for name in ("absolute", "ranks_logloss", "ranks_brier"):
        table = made.tables[name]
        typer.echo(f"{table.caption}\n{to_text(table)}\n")
    for note in made.notes:
        typer.echo(f"Note: {note}")
    typer.echo(made.page)


@app.command()
@command(_KEPT)
def search(
    *,
    out: Path = option("Folder to write; a search in it is continued.", "--out", "-o", default=...),
    predictions: Predictions = None,
    calibrator: str = option("sms or svs.", default="sms"),
    penalty: str = option("ridge, lasso, group_lasso or mcp.", default="ridge"),
    trials: int = option("Configurations in total, including those of earlier runs.", default=100, min=1),
    datasets: Datasets = None,
    models: Models = None,
    folds: Folds = None,
    max_cal_rows: MaxCalRows = None,
    time_limit: TimeLimit = 0,
    seed: int = option("Seed of the sampler and of subsamples.", default=0),
    jobs: Jobs = None,
    redraw: bool = flag("Only redraw the figure of DIR from its tables."),
) -> None:
    """Search for hyperparameters of SMS or SVS on half of the datasets, and test them on the other half."""
    from calibrant.bench import SearchOptions, open_predictions, search_hyperparameters
    from calibrant.bench.search_report import redraw_search, search_tables
    from calibrant.bench.study.render import to_text

    if redraw:
        typer.echo("\n".join(map(str, redraw_search(out))))
        return
    with asked():
        if predictions is None:
            raise ValueError("name the predictions: --predictions FILE")
        settings = SearchOptions(calibrator, penalty, trials, max_cal_rows, time_limit or None, seed)
    source = open_predictions(predictions)
    with asked():
        chosen = _chosen(source, datasets, models, folds)
    result = search_hyperparameters(source, out, settings, experiments=chosen, n_jobs=jobs)
    typer.echo(to_text(search_tables(result)["search_best"]))
    typer.echo(result.comparison.sentence())
    typer.echo(out / "search.json")


def _chosen(source: PredictionSource, *names: str | None) -> list[Experiment]:
    """The experiments with these datasets, models and folds, each a list separated by commas."""
    from calibrant.bench import select_experiments

    return select_experiments(source.experiments(), *map(split_names, names))


def _result_lines(out: Path, statuses: list[str]) -> str:
    """Where the results are, how many there are, and how many of them failed."""
    unfinished = [f"{statuses.count(s)} {s}" for s in ("failed", "timeout") if s in statuses]
    return f"{out / 'results.parquet'}: {amount(len(statuses), 'row')}" + "".join(f", {text}" for text in unfinished)
