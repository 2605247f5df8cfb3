"""The command line: parse, call, print.

Each command is a function in a module of its name, which is imported when it is called; `COMMANDS` is the list of them.
Nothing here may import NumPy, so that help and completion answer at once.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from calibrant.cli.mistakes import end_cleanly

COMMANDS = {
    "report": "Is it calibrated? What would each method gain? One HTML page.",
    "fit": "Learn a calibrator from predictions with labels, stored as JSON.",
    "apply": "Replace the probabilities in a file by calibrated ones.",
    "decide": "Add the cheapest action to each row, by the costs of actions.",
    "adapt": "Adapt a calibrator to new class frequencies, known or estimated.",
    "watch": "Is a calibrator still right? Raises an alarm if not.",
    "export": "Write a calibrator in another language, with proof that it predicts the same.",
    "document": "What a validator asks for: one HTML, Markdown or Word file.",
    "evaluate": "Metrics of predictions with labels.",
    "methods": "List the calibration methods.",
    "bench": "Build prediction sets, run methods on them, study the results.",
}


class LazyCommands(TyperGroup):
    """Knows the one-line helps of its commands, and imports the module of a command when it is called."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, with all of its options."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _loaded(args[0])
        return super().resolve_command(ctx, args)


@functools.cache
def _loaded(name: str) -> Any:
    """A command with its options; `bench` has commands of its own."""
    if name == "bench":
        from calibrant.cli.bench_commands import app
    else:
        # Completion is installed once, for the program as a whole.
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command()(getattr(importlib.import_module(f"calibrant.cli.{name}"), name))
    command = get_command(app)
    command.name = name
    return command


app = typer.Typer(
    name="calibrant",
    cls=LazyCommands,
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
    end_cleanly()
    if sys.stderr.isatty():  # what takes a while, such as compiling for the first fit
        logging.basicConfig(format="%(message)s")
        logging.getLogger("calibrant").setLevel(logging.INFO)
    app()
