"""Progress of reading a table in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from calibrant.progress import ProgressBar

if TYPE_CHECKING:
    from calibrant.files.tables.table import Table
    from calibrant.files.tables.table_rows import RowChunk


def progress_over(table: Table, what: str) -> Callable[[Iterator[RowChunk]], Iterator[RowChunk]]:
    """Wraps the reading of chunks in a progress bar."""

    def wrapped(chunks: Iterator[RowChunk]) -> Iterator[RowChunk]:
        with ProgressBar(1.0, what) as bar:
            rows = 0
            for chunk in chunks:
                rows += len(chunk.batch)
                bar.move(rows / table.n_rows if table.n_rows else table.fraction_read() or 0.0, f"{rows:,} rows")
                yield chunk

    return wrapped
