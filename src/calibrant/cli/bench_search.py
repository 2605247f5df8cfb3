"""`calibrant bench search`: hyperparameters of SMS or SVS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import bench_options as options
from calibrant.cli.mistakes import asked, explained
from calibrant.cli.options import split_names

app = typer.Typer(rich_markup_mode=None)


@app.command()
def search(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a search in it is continued.")],
    predictions: options.Predictions = None,
    calibrator: Annotated[str, typer.Option(help="sms or svs.")] = "sms",
    penalty: Annotated[str, typer.Option(help="ridge, lasso, group_lasso or mcp.")] = "ridge",
    trials: Annotated[int, typer.Option(help="Configurations in total, including those of earlier runs.", min=1)] = 100,
    datasets: options.Datasets = None,
    models: options.Models = None,
    folds: options.Folds = None,
    max_cal_rows: options.MaxCalRows = None,
    time_limit: options.TimeLimit = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sampler and of subsamples.")] = 0,
    jobs: options.Jobs = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only draw the figure of DIR again from the tables in it.")
    ] = False,
) -> None:
    """Search for hyperparameters of SMS or SVS on half of the datasets, and test them on the other half."""
    with explained(kept=f"What is done is kept in {out}; the same command continues"):
        if redraw:
            from calibrant.bench.search_report import redraw_search

            typer.echo("\n".join(map(str, redraw_search(out))))
            return
        from calibrant.bench.hyperparameters import SearchOptions, search_hyperparameters
        from calibrant.bench.search_report import search_tables
        from calibrant.bench.study.render import to_text
        from calibrant.files.prediction_sets.experiments import select_experiments
        from calibrant.files.prediction_sets.open_set import open_predictions

        with asked():
            if predictions is None:
                raise ValueError("name the predictions: --predictions FILE")
            settings = SearchOptions(calibrator, penalty, trials, max_cal_rows, time_limit or None, seed)
        source = open_predictions(predictions)
        experiments = source.experiments()
        with asked():
            chosen = select_experiments(experiments, split_names(datasets), split_names(models), split_names(folds))
        result = search_hyperparameters(source, out, settings, experiments=chosen, n_jobs=jobs)
        typer.echo(to_text(search_tables(result)["search_best"]))
        typer.echo(result.comparison.sentence())
        typer.echo(out / "search.json")
