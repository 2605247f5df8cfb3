"""Tables written in chunks and put in place at the end: a crash leaves no half file, and nothing is overwritten.

CSV rows are joined from cells by Arrow, so that cells that came as text leave as the same text; a cell is quoted
only if it has to be. Excel files are built in memory, as their format requires.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from calibrant.files.atomic import NotARegularFileError, atomic_stream, check_replaceable
from calibrant.files.json_values import plain
from calibrant.files.tables.cells import cast_text, is_bytes
from calibrant.files.tables.table import Table, TableError, compute, file_format, ipc, pa, parquet
from calibrant.inputs.words import RequestError
from calibrant.optional import require
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, RecordBatchFileWriter, Schema
    from pyarrow.parquet import ParquetWriter


class TableWriter(ABC):
    """Writes record batches of one schema; `text`: numbers are written as text."""

    text = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    @abstractmethod
    def write(self, data: object) -> None:
        """Add rows."""

    def close(self) -> None:  # noqa: B027
        """Write what is left, and the end of the file: nothing, where every row is written at once."""


def check_output(path: str | Path, *, force: bool) -> None:
    """Raise unless `path` (``-`` for standard output) may be written."""
    if str(path) == "-":
        return
    path = Path(path)
    try:
        check_replaceable(path)
    except NotARegularFileError as error:
        raise RequestError(str(error)) from None
    if path.exists() and not force:
        raise RequestError(f"{path} exists already", "force")
    if not path.parent.is_dir():
        raise RequestError(f"there is no folder {path.parent} to write {path.name} into")


@contextmanager
def atomic_output(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Stream that becomes the file `path` at the end, all at once; ``-`` is standard output."""
    check_output(path, force=force)
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_stream(path, before_move=lambda: check_output(path, force=force)) as stream:
        yield stream


@contextmanager
def open_writer(path: str | Path, source: Table, *, force: bool = False, suffix: str = "") -> Iterator[TableWriter]:
    """Writer of a table like `source` to `path`, in the format its name tells (``-``: that of `source`)."""
    kind = source.format if str(path) == "-" else file_format(Path(path))
    if kind == "npy" and source.format != "npy":
        raise RequestError(f"{path}: an npy file holds one array without names; write npz, CSV or parquet")
    with atomic_output(path, force=force) as stream:
        zipped = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) if str(path).endswith(".gz") else None
        writer = _make_writer(zipped or stream, kind, Path(path), source, suffix)  # type: ignore[arg-type]
        yield writer
        writer.close()
        if zipped is not None:
            zipped.close()


def _make_writer(stream: IO[bytes], kind: str, path: Path, source: Table, suffix: str) -> TableWriter:
    if kind == "csv":
        tab = path.name.lower().removesuffix(".gz").endswith(".tsv")
        return CsvWriter(stream, "\t" if tab else getattr(source, "delimiter", ","))
    if kind == "jsonl":
        return JsonLinesWriter(stream)
    if kind == "xlsx":
        return ExcelWriter(stream)
    if kind in ("npz", "npy"):
        return ArrayWriter(stream, kind, getattr(source, "layout", None), suffix)
    return ArrowWriter(stream, kind, decode=kind == "feather" and source.format != "feather")


class CsvWriter(TableWriter):
    """Rows of text, cells quoted where needed, `\\n` at the end of a line."""

    text = True

    def __init__(self, stream: IO[bytes], delimiter: str = ",") -> None:
        super().__init__(stream)
        self._delimiter = delimiter
        self._started = False

    def write(self, data: RecordBatch) -> None:
        names = data.schema.names
        if not self._started:
            self._stream.write((self._delimiter.join(map(self._quoted, names)) + "\n").encode())
            self._started = True
        cells = [self._text(data.column(i), name) for i, name in enumerate(names)]
        # The bytes of a joined array lie one behind the other: they are the file.
        self._stream.write(_joined(_joined(*cells, by=self._delimiter), "\n").buffers()[2])

    def _quoted(self, text: str) -> str:
        special = any(mark in text for mark in (self._delimiter, '"', "\n", "\r"))
        return '"' + text.replace('"', '""') + '"' if special else text

    def _text(self, column: Array, name: str) -> Array:
        refusal = TableError(f"the column {name!r} of type {column.type} cannot be written as CSV")
        text = compute.fill_null(cast_text(column, pa.large_string(), refusal), "")
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            return text  # numbers need no quotes
        special = compute.match_substring_regex(text, f'[{self._delimiter}"\n\r]')
        if not compute.any(special).as_py():
            return text
        return compute.if_else(special, _joined('"', compute.replace_substring(text, '"', '""'), '"'), text)


def _joined(*parts: object, by: str = "") -> Array:
    """Texts put together cell by cell; a plain text is the same in every row."""
    kind = pa.large_string()
    return compute.binary_join_element_wise(
        *(pa.scalar(part, kind) if isinstance(part, str) else part for part in parts), pa.scalar(by, kind)
    )


class JsonLinesWriter(TableWriter):
    """One JSON object per row, null for NaN and infinities, which JSON does not know."""

    def write(self, data: object) -> None:
        for row in _plain_rows(data, "JSON Lines"):
            self._stream.write((json.dumps(row, ensure_ascii=False, default=str) + "\n").encode())


def _plain_rows(data: RecordBatch, kind: str) -> list[dict[str, object]]:
    """Rows as Python values, without NaN and infinities; bytes become the text that they are, or are refused."""
    columns = list(data.columns)
    for number, field in enumerate(data.schema):
        if is_bytes(field.type):
            refusal = TableError(f"the column {field.name!r} of type {field.type} cannot be written as {kind}")
            columns[number] = cast_text(columns[number].cast(pa.large_binary()), pa.large_string(), refusal)
    return plain(pa.RecordBatch.from_arrays(columns, names=data.schema.names).to_pylist())


class ExcelWriter(TableWriter):
    """One sheet of an xlsx file; text that looks like a formula stays text."""

    #: What a sheet has room for.
    _MOST_ROWS = 1 << 20

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._book = require("openpyxl", extra="excel").Workbook(write_only=True)
        self._sheet = self._book.create_sheet("predictions")
        self._rows = 0

    def write(self, data: RecordBatch) -> None:
        rows = [list(row.values()) for row in _plain_rows(data, "xlsx")]
        if not self._rows:
            rows = [data.schema.names, *rows]
        self._rows += len(rows)
        if self._rows > self._MOST_ROWS:
            raise TableError("an xlsx sheet holds at most 1,048,576 rows; write CSV or parquet")
        for row in rows:
            self._sheet.append([self._cell(value) for value in row])

    def _cell(self, value: object) -> object:
        if value is None or isinstance(value, (bool, int, float)):
            return value
        text = require("openpyxl.cell.cell", extra="excel")
        cell = text.WriteOnlyCell(self._sheet)
        # Control characters cannot stand in XML; the type is set by hand, as `=1+1` would become a formula.
        cell.value, cell.data_type = text.ILLEGAL_CHARACTERS_RE.sub("", str(value)), "s"
        return cell

    def close(self) -> None:
        buffer = io.BytesIO()  # a zip file is written back and forth, which standard output cannot
        self._book.save(buffer)
        self._stream.write(buffer.getbuffer())


class ArrowWriter(TableWriter):
    """Parquet or feather (Arrow IPC); `decode` turns categories into plain values."""

    def __init__(self, stream: IO[bytes], kind: str, *, decode: bool = False) -> None:
        super().__init__(stream)
        self._kind, self._decode = kind, decode
        self._writer: ParquetWriter | RecordBatchFileWriter | None = None
        self._schema: Schema | None = None

    def write(self, data: RecordBatch) -> None:
        if self._decode:
            data = _without_dictionaries(data)
        if self._writer is None:
            self._schema, self._writer = data.schema, self._start(data.schema)
        try:
            # Rows of JSON Lines and Excel may have other types than the first ones: whole numbers before fractions.
            self._writer.write_batch(data if data.schema == self._schema else data.cast(self._schema))
        except pa.ArrowInvalid as error:
            raise TableError(f"a column changes its type within the file: {error}; write CSV or JSON Lines") from error

    def _start(self, schema: Schema) -> ParquetWriter | RecordBatchFileWriter:
        if self._kind == "parquet":
            # Looking for repeated numbers takes longer than writing them, and calibrated ones hardly repeat.
            repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
            return parquet.ParquetWriter(self._stream, schema, use_dictionary=repeated)
        return ipc.new_file(self._stream, schema, options=ipc.IpcWriteOptions(compression="lz4"))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _without_dictionaries(data: RecordBatch) -> RecordBatch:
    """Categories as plain values: an IPC file allows one dictionary per column, but chunks may have several."""
    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in data.columns]
    fields = [field.with_type(column.type) for field, column in zip(data.schema, columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=data.schema.metadata))


class ArrayWriter(TableWriter):
    """Collects record batches and writes their columns as the arrays of NumPy that they came from.

    Columns that `layout` does not know stay vectors, unless they are those of one array with a suffix, which then
    become a matrix under the array's name with that suffix.
    """

    def __init__(self, stream: IO[bytes], kind: str, layout: Mapping[str, list[str]] | None, suffix: str = "") -> None:
        super().__init__(stream)
        self._kind = kind
        self._layout = dict(layout or {})
        self._layout |= {n + suffix: [c + suffix for c in columns] for n, columns in self._layout.items()}
        self._batches: list[object] = []

    def write(self, data: object) -> None:
        self._batches.append(data)

    def close(self) -> None:
        table = pa.Table.from_batches(self._batches)
        columns = {name: _as_array(table.column(name), name) for name in table.column_names}
        arrays: dict[str, AnyArray] = {}
        for name, names in self._layout.items():
            if all(column in columns for column in names):
                parts = [columns.pop(column) for column in names]
                arrays[name] = parts[0] if names == [name] else np.column_stack(parts)
        arrays.update(columns)
        # np.save needs a stream that can tell its position, which standard output cannot.
        buffer = io.BytesIO()
        if self._kind == "npy":
            # There is room for one array: the one that came last, which is the calibrated one.
            np.save(buffer, list(arrays.values())[-1], allow_pickle=False)
        else:
            np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        self._stream.write(buffer.getbuffer())


def _as_array(column: Array, name: str) -> AnyArray:
    array: AnyArray = column.to_numpy()
    if array.dtype.kind == "O":
        # Text; without this NumPy would have to pickle it.
        array = np.array(["" if value is None else value for value in array.tolist()])
    if array.dtype.kind == "O":
        raise TableError(f"the column {name!r} cannot be stored as a NumPy array")
    return array
