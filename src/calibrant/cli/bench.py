"""`calibrant bench`: build prediction sets, run methods on them, study the results."""

from __future__ import annotations

import typer

from calibrant.cli.lazy import lazy_group

COMMANDS: dict[str, tuple[str, str]] = {}

app = typer.Typer(cls=lazy_group(COMMANDS), rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Build prediction sets, run methods on them, study the results."""
