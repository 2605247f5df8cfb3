"""The command line: parse, call, print.

Each command lives in a module of its own, as a `typer.Typer` named `app`, and is imported when it is called;
`COMMANDS` is the list of them. Nothing here may import NumPy, so that help and completion answer at once.
"""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from calibrant.cli.lazy_commands import lazy_group
from calibrant.cli.mistakes import end_cleanly

COMMANDS: dict[str, tuple[str, str]] = {
    "report": ("calibrant.cli.report:app", "Is it calibrated? What would each method gain? One HTML page."),
    "fit": ("calibrant.cli.fit:app", "Learn a calibrator from predictions with labels, stored as JSON."),
    "apply": ("calibrant.cli.apply:app", "Replace the probabilities in a file by calibrated ones."),
    "decide": ("calibrant.cli.decide:app", "Add the cheapest action to each row, by the costs of actions."),
    "adapt": ("calibrant.cli.adapt:app", "Adapt a calibrator to new class frequencies, known or estimated."),
    "watch": ("calibrant.cli.watch:app", "Is a calibrator still right? Raises an alarm if not."),
    "export": (
        "calibrant.cli.export:app",
        "Write a calibrator in another language, with proof that it predicts the same.",
    ),
    "document": ("calibrant.cli.document:app", "What a validator asks for: one HTML, Markdown or Word file."),
    "evaluate": ("calibrant.cli.evaluate:app", "Metrics of predictions with labels."),
    "methods": ("calibrant.cli.methods:app", "List the calibration methods."),
    "bench": ("calibrant.cli.bench_commands:app", "Build prediction sets, run methods on them, study the results."),
}

app = typer.Typer(
    name="calibrant",
    cls=lazy_group(COMMANDS),
    # Plain help: rich costs more to import than everything else together.
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from calibrant import __version__

        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def _calibrant(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Calibrated probabilities from files of predictions."""


def main() -> None:
    """Entry point of the program `calibrant`."""
    end_cleanly()
    if sys.stderr.isatty():  # what takes a while, such as compiling for the first fit
        logging.basicConfig(format="%(message)s")
        logging.getLogger("calibrant").setLevel(logging.INFO)
    app()
