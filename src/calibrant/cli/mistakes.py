"""Mistakes of the user end in one line, not in a stack trace.

Exit codes: 0 for success, 1 when the work could not be done (a file, a value in it, a missing package), 2 when
the command itself was wrong (an unknown option, a missing argument, a column or file that is not there, an output
that would be overwritten). The environment variable `CALIBRANT_DEBUG` brings the stack trace back.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import typer


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors about files, values and missing packages into a message and an exit code, warnings into lines."""
    with warnings.catch_warnings():
        # What the package has to say about the data; what libraries say to programmers is not for here.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _once()
        try:
            yield
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except (ValueError, OSError, ImportError, RuntimeError, TypeError, MemoryError) as error:
            if os.environ.get("CALIBRANT_DEBUG"):
                raise
            # A system error without our words names the file; its own text does that well enough.
            typer.echo(f"Error: {error or type(error).__name__}", err=True)
            raise typer.Exit(getattr(error, "exit_code", 1)) from error


def _once() -> Any:
    """Shows each warning a single time: folds of a cross-validation all say the same."""
    shown: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            typer.echo(f"Warning: {message}", err=True)

    return show
