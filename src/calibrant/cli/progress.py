"""Progress bars on standard error, shown on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.files.tables.rows import Rows
    from calibrant.files.tables.table import Table


def progress_over(table: Table, what: str) -> Callable[[Iterator[Rows]], Iterator[Rows]]:
    """Wraps the reading of chunks in a progress bar."""

    def wrapped(chunks: Iterator[Rows]) -> Iterator[Rows]:
        with bar(what) as update:
            rows = 0
            for chunk in chunks:
                rows += len(chunk.batch)
                update(rows / table.n_rows if table.n_rows else table.fraction_read(), f"{rows:,} rows")
                yield chunk

    return wrapped


@contextlib.contextmanager
def bar(what: str) -> Iterator[Callable[[float | None, str], None]]:
    """A progress bar, and the function that moves it."""
    if not sys.stderr.isatty():
        yield lambda fraction, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0, text="")
        yield lambda fraction, text: progress.update(task, completed=fraction or 0.0, text=text)
