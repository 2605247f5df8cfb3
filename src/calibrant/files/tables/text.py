"""CSV files as tables: comma, semicolon or tab, plain or gzip, read in blocks with every cell as text.

Text stays the text it is (`007` does not become 7), and lines that cannot be split into cells are known by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.table import Batch, Table, TableError
from calibrant.optional import require

#: Bytes of text handled at a time.
CSV_BLOCK = 1 << 23


class CsvTable(Table):
    """Comma-, semicolon- or tab-separated text; every cell is read as text."""

    format = "csv"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size = max(path.stat().st_size, 1)
        self._file: IO[bytes] | None = None
        with self._stream() as stream:
            header = bytes(self._guarded(stream.read, 1 << 16)).split(b"\n", 1)[0]
        counts = {mark: header.count(mark.encode()) for mark in (",", ";", "\t")}
        self.delimiter = max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","
        with self._stream() as stream:
            # Bad lines of the first block are not met here, only names are wanted.
            self.columns = self._reader(stream, [], [], True).schema.names
        twice = [name for name, count in Counter(self.columns).items() if count > 1]
        if twice:
            raise TableError(f"{path}: the column {twice[0]!r} is there more than once; give each its own name")

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        pa = require("pyarrow", extra="cli")
        with open(self.path, "rb") as file:
            self._file = file
            zipped = file.peek(2)[:2] == b"\x1f\x8b"
            with pa.CompressedInputStream(file, "gzip") if zipped else pa.PythonFile(file) as stream:
                yield stream

    def _reader(self, stream: Any, columns: list[str] | None, bad: list[tuple[int, str]], skip_errors: bool) -> Any:
        pa, csv = require("pyarrow", extra="cli"), require("pyarrow.csv", extra="cli")

        def handle(row: Any) -> str:
            bad.append((row.number - 1, f"{row.actual_columns} cells where there are {row.expected_columns} columns"))
            return "skip" if skip_errors else "error"

        try:
            return csv.open_csv(
                stream,
                # One thread, as row numbers are known only then.
                read_options=csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
                parse_options=csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=handle
                ),
                convert_options=csv.ConvertOptions(
                    column_types={name: pa.string() for name in self.columns},
                    include_columns=columns,
                    strings_can_be_null=False,
                ),
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise self._explained(error, bad) from error

    def _explained(self, error: Exception, bad: list[tuple[int, str]]) -> TableError:
        if bad:
            row, reason = bad[-1]
            return TableError(f"{self.path}, {self.row_name(row)}: {reason}")
        if "Empty CSV" in str(error):
            return TableError(f"{self.path} is empty")
        if "UTF8" in str(error) or "UTF-8" in str(error):
            return TableError(f"{self.path} is not UTF-8 text: save it in that encoding")
        return TableError(f"{self.path} cannot be read as CSV: {error}")

    def _guarded(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a reading function of Arrow with its errors put into words."""
        pa = require("pyarrow", extra="cli")
        try:
            return function(*arguments)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._explained(error, self.skipped) from error

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        bad = self.skipped = []
        # Rows are numbered as they stand in the file, lines left out included.
        next_row, seen_bad = 1, 0
        with self._stream() as stream:
            reader = self._reader(stream, None if columns is None else list(columns), bad, skip_errors)
            while True:
                try:
                    data = self._guarded(reader.read_next_batch)
                except StopIteration:
                    return
                if data.num_rows:
                    rows, next_row, seen_bad = _next_rows(data.num_rows, next_row, bad, seen_bad)
                    yield Batch(data, rows)

    def fraction_read(self) -> float | None:
        with suppress(ValueError, AttributeError):
            return min(self._file.tell() / self._size, 1.0)  # type: ignore[union-attr]
        return None

    def row_name(self, row: int) -> str:
        return f"row {row} (line {row + 1} with the header)"


def _next_rows(
    count: int, next_row: int, bad: list[tuple[int, str]], seen_bad: int
) -> tuple[NDArray[np.int64], int, int]:
    """The next `count` row numbers from `next_row` that are not among the bad ones, which are sorted."""
    parts: list[NDArray[np.int64]] = []
    while count:
        if seen_bad < len(bad) and next_row == bad[seen_bad][0]:
            next_row, seen_bad = next_row + 1, seen_bad + 1
            continue
        stop = bad[seen_bad][0] if seen_bad < len(bad) else next_row + count
        parts.append(np.arange(next_row, min(stop, next_row + count)))
        count -= len(parts[-1])
        next_row += len(parts[-1])
    return np.concatenate(parts), next_row, seen_bad
