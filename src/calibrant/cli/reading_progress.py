"""Progress of reading a table in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from calibrant.progress import ProgressBar

if TYPE_CHECKING:
    from calibrant.files.tables.row_checks import TableRows
    from calibrant.files.tables.table import Table


def progress_over(table: Table, what: str) -> Callable[[Iterator[TableRows]], Iterator[TableRows]]:
    """Wraps the reading of chunks in a progress bar."""

    def wrapped(chunks: Iterator[TableRows]) -> Iterator[TableRows]:
        with ProgressBar(1.0, what) as bar:
            rows = 0
            for chunk in chunks:
                rows += len(chunk.batch or ())
                bar.move(rows / table.n_rows if table.n_rows else table.fraction_read() or 0.0, f"{rows:,} rows")
                yield chunk

    return wrapped
