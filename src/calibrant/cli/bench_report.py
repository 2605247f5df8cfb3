"""`calibrant bench report`: tables, figures and a leaderboard page from results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.mistakes import asked, explained
from calibrant.cli.options import split_names

app = typer.Typer(rich_markup_mode=None)


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: tables, figures, leaderboard.html.")],
    results: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, help="Result folders or files (parquet, CSV, CSV.gz) of `bench run`."),
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
            from calibrant.bench.study.figures import redraw as draw_again

            with asked():
                if results:
                    raise ValueError("--redraw draws from the tables in --out and takes no results")
            typer.echo(f"{len(draw_again(out))} files in {out / 'figures'}")
            return
        from calibrant.bench.study.render import to_text
        from calibrant.bench.study.study_report import make_report

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
