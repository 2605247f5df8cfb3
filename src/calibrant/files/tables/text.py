"""CSV files as tables: comma, semicolon or tab, plain or gzip, read in blocks with every cell as text.

Text stays unchanged (`007` does not become 7), and lines that cannot be split into cells are known by number.
Arrow reads blocks in which every line is a row. Where a line is blank or ends within quotes, Python's own reader takes
over, line by line: a stray quote then costs its own line and not all the lines up to the next quote.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.files.tables.table import LONGEST_LINE, Batch, Table, TableError, arrow_csv, pa

#: Bytes of text handled at a time: enough that the start of a block costs nothing, few for the memory.
CSV_BLOCK = 1 << 23

_BLANK = " \r\n"


class _Unfinished(Exception):
    """A quote is still open at the end of the lines read so far."""


class CsvTable(Table):
    """Comma-, semicolon- or tab-separated text; every cell is read as text."""

    format = "csv"
    row_word = "line"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        self._size = max(path.stat().st_size, 1)
        self._file: IO[bytes] | None = None
        self.delimiter = ","
        self._read_header()

    def _read_header(self) -> None:
        data = b""
        for chunk, last in self._chunks():
            data += chunk
            lines = self._lines(data, last)
            self._start, self._first_line = 0, 1
            for place, line in enumerate(lines):
                marked = re.fullmatch("sep=(.)", line.strip(_BLANK))  # a line that Excel understands
                if line.strip(_BLANK) and not marked:
                    with suppress(_Unfinished):
                        self._take_names(lines, place, last)
                        return
                    break
                self.delimiter = marked[1] if marked else self.delimiter
                self._start += len(line.encode())
                self._first_line += 1
        raise TableError(f"{self.name} is empty")

    def _take_names(self, lines: list[str], place: int, last: bool) -> None:
        if self.delimiter == ",":
            bare = re.sub(r'"[^"]*"', "", lines[place])
            self.delimiter = max(",;\t", key=bare.count)
        try:
            names, used = self._record(lines, place, last)
        except ValueError as error:
            raise TableError(f"{self.name}, the names of the columns: {error}") from error
        self.columns = [name.strip() for name in names]
        self._start += len("".join(lines[place : place + used]).encode())
        self._first_line += used

    def _chunks(self, skip: int = 0) -> Iterator[tuple[bytes, bool]]:
        """Blocks of bytes after the first `skip`, and whether it is the last one, which is empty."""
        with open(self.path, "rb") as file:
            self._file = file
            stream: Any = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
            first, old_mac = True, False
            while True:
                try:
                    chunk = stream.read(CSV_BLOCK)
                except (OSError, EOFError, zlib.error) as error:
                    raise TableError(f"{self.name} is damaged: {error}") from error
                if first:
                    first, old_mac = False, b"\r" in chunk[:-1] and b"\n" not in chunk
                    chunk = chunk.removeprefix(b"\xef\xbb\xbf")
                chunk = chunk.replace(b"\r", b"\n") if old_mac else chunk
                if not chunk:
                    yield b"", True
                    return
                chunk, skip = chunk[skip:], max(skip - len(chunk), 0)
                yield chunk, False

    def _lines(self, data: bytes, last: bool) -> list[str]:
        cut = len(data) if last else data.rfind(b"\n") + 1
        if len(data) - cut > LONGEST_LINE:
            raise TableError(f"{self.name} has a line of more than {LONGEST_LINE >> 20} MB; is it a CSV file?")
        try:
            return list(io.StringIO(data[:cut].decode(), newline="\n"))
        except UnicodeDecodeError as error:
            raise self._not_text() from error

    def _not_text(self) -> TableError:
        return TableError(f"{self.name} is not UTF-8 text; save it as CSV with the encoding UTF-8")

    def _record(self, lines: list[str], place: int, last: bool) -> tuple[list[str], int]:
        """Cells of the row that begins in a line, and the number of lines it takes; ValueError with the reason."""
        line = lines[place]
        if '"' not in line:
            return line.rstrip("\r\n").split(self.delimiter), 1
        reader = csv.reader(map(lines.__getitem__, count(place)), delimiter=self.delimiter, strict=True)
        try:
            return next(reader), reader.line_num
        except IndexError:
            if not last:
                raise _Unfinished from None
            raise ValueError("a quote that is never closed") from None
        except csv.Error as error:
            raise ValueError(
                "a quote that is never closed, or a cell of more than 131,072 characters"
                if "limit" in str(error)
                else "a quote in the wrong place"
            ) from None

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        self.skipped = []
        names = self.columns if columns is None else list(columns)
        rest, line = b"", self._first_line
        for chunk, last in self._chunks(self._start):
            data = rest + chunk
            cut = len(data) if last else data.rfind(b"\n") + 1
            block, rest = data[:cut], data[cut:]
            if len(rest) > LONGEST_LINE:
                raise TableError(f"{self.name}, line {line} is longer than {LONGEST_LINE >> 20} MB")
            if not block:
                continue
            if _rows_are_lines(block):
                batch, line = self._with_arrow(block, line, names, skip_errors)
            else:
                batch, line, unread = self._with_python(self._lines(block, True), line, last, names, skip_errors)
                rest = unread.encode() + rest
            if len(batch):
                yield batch

    def _with_arrow(self, block: bytes, line: int, names: list[str], skip_errors: bool) -> tuple[Batch, int]:
        wrong: list[Any] = []

        def handle(row: object) -> str:
            wrong.append(row)
            return "skip"

        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                # One thread, as row numbers are known only then.
                read_options=arrow_csv.ReadOptions(
                    column_names=self.columns, block_size=len(block) + 1, use_threads=False
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if b'"' in block else False,
                    ignore_empty_lines=False,
                    invalid_row_handler=handle,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.columns, pa.string()),
                    include_columns=names,
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "UTF" in str(error):
                raise self._not_text() from error
            raise TableError(f"{self.name} cannot be read as CSV: {error}") from error
        for row in wrong:
            if row.text.strip(_BLANK):
                self.leave_out(line + row.number - 1, self._wrong_number(row.actual_columns), skip_errors)
        end = line + block.count(b"\n") + (not block.endswith(b"\n"))
        rows = np.delete(np.arange(line, end), [row.number - 1 for row in wrong])
        parts = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return Batch(parts[0], rows), end

    def _with_python(
        self, lines: list[str], line: int, last: bool, names: list[str], skip_errors: bool
    ) -> tuple[Batch, int, str]:
        """Rows of these lines, the number of the line after them, and text whose row ends in a later block."""
        rows: list[list[str]] = []
        numbers: list[int] = []
        place = 0
        while place < len(lines):
            used = 1
            if lines[place].strip(_BLANK):
                try:
                    cells, used = self._record(lines, place, last)
                    if len(cells) != len(self.columns):
                        reason = self._wrong_number(len(cells))
                        if used > 1:
                            # More likely a stray quote than a cell of several lines: only its own line is lost.
                            reason, used = f"a quote that runs over {used} lines, with {reason}", 1
                        raise ValueError(reason)
                    rows.append(cells)
                    numbers.append(line + place)
                except _Unfinished:
                    break
                except ValueError as error:
                    self.leave_out(line + place, str(error), skip_errors)
            place += used
        at = {name: number for number, name in enumerate(self.columns)}
        columns = [pa.array([row[at[name]] for row in rows], pa.string()) for name in names]
        data = pa.RecordBatch.from_arrays(columns, names=names)
        return Batch(data, np.array(numbers, dtype=np.int64)), line + place, "".join(lines[place:])

    def _wrong_number(self, found: int) -> str:
        cells = "1 cell" if found == 1 else f"{found} cells"
        return f"{cells}, but there are {len(self.columns)} columns"

    def fraction_read(self) -> float | None:
        with suppress(ValueError, AttributeError):
            return min(self._file.tell() / self._size, 1.0)  # type: ignore[union-attr]
        return None


def _rows_are_lines(block: bytes) -> bool:
    """Whether no line is blank, and none ends within quotes."""
    if b"\n\n" in block or b"\n\r\n" in block or block.startswith((b"\n", b"\r\n")):
        return False
    if b'"' not in block:
        return True
    raw = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(raw == ord('"'))
    before = np.searchsorted(quotes, np.flatnonzero(raw == ord("\n")))
    return len(quotes) % 2 == 0 and not (before % 2).any()
