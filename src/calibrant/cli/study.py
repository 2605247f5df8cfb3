"""`calibrant bench report` and `calibrant bench search`: the study of results, and of hyperparameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.mistakes import explained

report_app = typer.Typer(rich_markup_mode=None)
search_app = typer.Typer(rich_markup_mode=None)


@report_app.command()
def report(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: tables, figures, leaderboard.html.")],
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result folders or files (parquet, CSV, CSV.gz) of `bench run`.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Level of the tests.")] = 0.05,
    methods: Annotated[str | None, typer.Option(help="Only these methods, separated by commas; none stays.")] = None,
    benchmarks: Annotated[str | None, typer.Option(help="Only these benchmarks, separated by commas.")] = None,
    unranked: Annotated[
        str | None, typer.Option(help="Methods left out of ranks and tests, separated by commas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Calibration leaderboard",
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only draw the figures of DIR again from the tables in it.")
    ] = False,
) -> None:
    """Turn results into tables, statistics, figures and a leaderboard page. Nothing is refitted."""
    with explained():
        if redraw:
            from calibrant.plots.study import redraw as draw_again

            if results:
                raise ValueError("--redraw draws from the tables in --out and takes no results")
            typer.echo(f"{len(draw_again(out))} files in {out / 'figures'}")
            return
        from calibrant.bench.study.render import to_text
        from calibrant.bench.study.report import make_report

        if not results:
            raise ValueError("name the results: folders or files of `calibrant bench run`")
        made = make_report(
            results,
            out,
            alpha=alpha,
            methods=_names(methods),
            benchmarks=_names(benchmarks),
            unranked=_names(unranked) or (),
            seed=seed,
            title=title,
        )
        for name in ("absolute", "ranks_logloss", "ranks_brier"):
            table = made.tables[name]
            typer.echo(f"{table.caption}\n{to_text(table)}\n")
        for note in made.notes:
            typer.echo(f"Note: {note}")
        typer.echo(made.page)


@search_app.command()
def search(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a search in it is continued.")],
    predictions: Annotated[
        Path | None, typer.Option(help="HDF5, npz, parquet or pickle file, or a folder of them.")
    ] = None,
    calibrator: Annotated[str, typer.Option(help="sms or svs.")] = "sms",
    penalty: Annotated[str, typer.Option(help="ridge, lasso, group_lasso or mcp.")] = "ridge",
    trials: Annotated[int, typer.Option(help="Configurations in all, those of earlier runs included.", min=1)] = 100,
    datasets: Annotated[str | None, typer.Option(help="Only these datasets, separated by commas.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these models, separated by commas.")] = None,
    folds: Annotated[str | None, typer.Option(help="Only these folds, separated by commas.")] = None,
    max_cal_rows: Annotated[
        int | None, typer.Option(help="Subsample larger calibration sets (10000 is usual).")
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for one fit; 0 for no limit.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sampler and of subsamples.")] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; by default one for each core.")] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only draw the figure of DIR again from the tables in it.")
    ] = False,
) -> None:
    """Search for hyperparameters of SMS or SVS on half of the datasets, and test them on the other half."""
    with explained():
        if redraw:
            from calibrant.bench.search.report import redraw_search

            typer.echo("\n".join(map(str, redraw_search(out))))
            return
        from calibrant.bench.search.hyperparameters import SearchOptions, search_hyperparameters
        from calibrant.bench.search.report import search_tables
        from calibrant.bench.study.render import to_text
        from calibrant.files.predictions.source import open_predictions, select

        if predictions is None:
            raise ValueError("name the predictions: --predictions FILE")
        options = SearchOptions(calibrator, penalty, trials, max_cal_rows, time_limit or None, seed)
        source = open_predictions(predictions)
        chosen = select(source.experiments(), _names(datasets), _names(models), _names(folds))
        result = search_hyperparameters(source, out, options, experiments=chosen, n_jobs=jobs)
        typer.echo(to_text(search_tables(result)["search_best"]))
        typer.echo(result.comparison.sentence())
        typer.echo(out / "search.json")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
