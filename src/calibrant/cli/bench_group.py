"""`calibrant bench`: build prediction sets, run methods on them, study the results."""

from __future__ import annotations

import typer

from calibrant.cli.lazy_commands import lazy_group

COMMANDS: dict[str, tuple[str, str]] = {
    "build": ("calibrant.cli.bench_build:app", "Train models on real datasets and store their predictions."),
    "run": ("calibrant.cli.bench_run:app", "Run every method on every experiment and store the results."),
    "merge": ("calibrant.cli.bench_merge:app", "Join result folders into one."),
    "report": ("calibrant.cli.bench_report:app", "Turn results into tables, figures and a leaderboard page."),
    "search": ("calibrant.cli.bench_search:app", "Search for hyperparameters of SMS or SVS."),
}

app = typer.Typer(cls=lazy_group(COMMANDS), rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Build prediction sets, run methods on them, study the results."""
