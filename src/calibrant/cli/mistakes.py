"""Mistakes of the user end in one line, not in a stack trace.

Exit codes: 0 for success, 1 when the work could not be done (a file, a value in it, a missing package), 2 when
the command itself was wrong (unknown option, missing argument).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors about files, values and missing packages into a message and exit code 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        # A system error without our words names the file; its own text does that well enough.
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
