"""Files other than CSV as tables: parquet, feather, npz and npy with typed columns, JSON Lines and Excel with values.

An npz file is a table of its arrays, an npy file a table of its columns. A matrix `p` of shape (n, k) becomes the
columns `p_0` to `p_{k-1}`, a vector one column of its own name; `writers.ArrayWriter` puts them together again. Rows of
values are put together to Arrow columns chunk by chunk.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant.files.archives import ArchiveError, FileTooLargeError, check_size, open_archive
from calibrant.files.tables.table import CHUNK_ROWS, LONGEST_LINE, Batch, Table, TableError, ipc, pa, parquet
from calibrant.optional import require
from calibrant.text_table import list_names
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

#: What the matrix of an npy file, which has no names in it, is called.
NPY_NAME = "p"


class RecordTable(Table):
    """A file that an Arrow reader, or NumPy, hands over in batches of typed columns."""

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        first = 1
        try:
            for data in self._record_batches(None if columns is None else list(columns)):
                if data.num_rows:
                    yield Batch(data, np.arange(first, first + data.num_rows))
                    first += data.num_rows
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error

    @abstractmethod
    def _record_batches(self, columns: list[str] | None) -> Iterator[RecordBatch]:
        """Arrow record batches with these columns, or with all of them."""


class ParquetTable(RecordTable):
    format = "parquet"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        try:
            # Pages are read as they are needed: a single row group may be larger than memory.
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
            self.columns = self._file.schema_arrow.names
            self.n_rows = self._file.metadata.num_rows
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a parquet file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[RecordBatch]:
        return iter(self._file.iter_batches(batch_size=CHUNK_ROWS, columns=columns))


class FeatherTable(RecordTable):
    """An Arrow IPC file, which is what feather is since its second version."""

    format = "feather"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        try:
            self._file = ipc.open_file(pa.memory_map(str(path)))
            self.columns = self._file.schema.names
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a feather (Arrow IPC) file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[RecordBatch]:
        for number in range(self._file.num_record_batches):
            whole = self._file.get_batch(number)
            whole.validate(full=True)  # offsets of damaged text would point outside of the file
            for start in range(0, whole.num_rows, CHUNK_ROWS):
                part = whole.slice(start, CHUNK_ROWS)
                yield part if columns is None else part.select(columns)


class ArrayTable(RecordTable):
    """Arrays of an npz or npy file as columns."""

    def __init__(self, path: Path, kind: str, name: str = "") -> None:
        super().__init__(path, name)
        self.format = kind
        self._arrays = load_arrays(path, kind, self.name)
        lengths = {name: len(array) for name, array in self._arrays.items()}
        if not lengths:
            raise TableError(f"{self.name} holds no arrays")
        if len(set(lengths.values())) > 1:
            found = list_names((f"{name!r} {length}" for name, length in lengths.items()), write=str)
            raise TableError(f"{self.name}: the arrays differ in their number of rows: {found}")
        self.n_rows = next(iter(lengths.values()))
        #: Column names of each array.
        self.layout = {
            name: [name] if array.ndim == 1 else [f"{name}_{number}" for number in range(array.shape[1])]
            for name, array in self._arrays.items()
        }
        self.columns = [column for names in self.layout.values() for column in names]

    def attach(self, path: Path) -> str:
        """Add a vector from another npy file as a column; its name is that of the file."""
        vector = load_arrays(path, "npy")[NPY_NAME]
        if vector.ndim == 2 and vector.shape[1] == 1:
            vector = vector[:, 0]
        if vector.shape != (self.n_rows,):
            raise TableError(f"{path} has the shape {vector.shape}; {self.name} has {self.n_rows} rows")
        self._arrays[str(path)] = vector
        self.layout[str(path)] = [str(path)]
        self.columns.append(str(path))
        return str(path)

    def _record_batches(self, columns: list[str] | None) -> Iterator[RecordBatch]:
        place = {column: (name, number) for name, names in self.layout.items() for number, column in enumerate(names)}
        names = self.columns if columns is None else columns
        for start in range(0, self.n_rows or 0, CHUNK_ROWS):
            cells = []
            for array_name, number in (place[column] for column in names):
                block = self._arrays[array_name][start : start + CHUNK_ROWS]
                cells.append(pa.array(np.ascontiguousarray(block if block.ndim == 1 else block[:, number])))
            yield pa.RecordBatch.from_arrays(cells, names=names)


def load_arrays(path: Path, kind: str, name: str = "") -> dict[str, AnyArray]:
    """Arrays of one or two dimensions by name; an npy file is mapped into memory, not read."""
    try:
        if kind == "npy":
            arrays = {NPY_NAME: np.load(path, mmap_mode="r", allow_pickle=False)}
        else:
            with open_archive(path) as stored:
                arrays = dict(zip(stored.names, stored.read(*stored.names)))
    except (ArchiveError, FileTooLargeError) as error:
        raise TableError(str(error)) from error
    except (ValueError, EOFError, OSError) as error:
        raise TableError(f"{name or path} cannot be read as {kind}: {error}") from error
    for key, array in arrays.items():
        if array.ndim not in (1, 2):
            raise TableError(f"{name or path}: the array {key!r} has {array.ndim} dimensions; one or two are expected")
    return arrays


class ValueTable(Table):
    """A file that is read row by row, as Python values."""

    @abstractmethod
    def _rows(self, skip_errors: bool) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Number and values of each row, by column; a value may be absent."""

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        self.skipped = []
        names = self.columns if columns is None else list(columns)
        rows = self._rows(skip_errors)
        while part := list(islice(rows, CHUNK_ROWS)):
            cells = [_column([row.get(name) for _, row in part]) for name in names]
            yield Batch(pa.RecordBatch.from_arrays(cells, names=names), np.array([number for number, _ in part]))


def _column(values: Sequence[object]) -> Array:
    """An Arrow column; values of several types become text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([value if value is None else str(value) for value in values], pa.string())


class JsonLinesTable(ValueTable):
    """One JSON object per line; lists and objects in it become several columns, `p_0`, `p_1` or `p_cat`, `p_dog`."""

    format = "jsonl"
    row_word = "line"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        # Keys are known from the first rows; a bad line among them is reported when it is read.
        first = islice(self.objects(skip_errors=True), CHUNK_ROWS)
        self.columns = list(dict.fromkeys(name for _, record in first for name in _flat(record)))
        if not self.columns:
            raise TableError(f"{self.name} holds no JSON object; one per line is expected")

    def objects(self, skip_errors: bool = False) -> Iterator[tuple[int, dict[str, object]]]:
        """The number of each line that is not blank, and the JSON object in it."""
        number = 0
        try:
            with (gzip.open if self.path.name.endswith(".gz") else open)(self.path, "rb") as stream:
                # A line is read up to the limit only: a small gzip file may hold one of gigabytes.
                for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), start=1):
                    if len(line) > LONGEST_LINE:
                        raise TableError(f"{self.name}, line {number} is longer than {LONGEST_LINE >> 20} MB")
                    if not line.strip():
                        continue
                    try:
                        record = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
                        if not isinstance(record, dict):
                            raise ValueError("not a JSON object")
                    except (ValueError, RecursionError) as error:
                        why = error if isinstance(error, ValueError) else "its lists are too deeply nested"
                        self.leave_out(number, f"no valid JSON object ({why})", skip_errors)
                    else:
                        yield number, record
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error

    def _rows(self, skip_errors: bool) -> Iterator[tuple[int, Mapping[str, object]]]:
        known = set(self.columns)
        for number, nested in self.objects(skip_errors):
            record = _flat(nested)
            unknown = next((name for name in record if name not in known), None)
            if unknown is None:
                yield number, record
            else:
                self.leave_out(number, f"the key {unknown!r}, which no earlier row has", skip_errors)


def _flat(record: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in record.items():
        if isinstance(value, (list, dict)):
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            flat.update({f"{name}_{part}": item for part, item in parts})
        else:
            flat[name] = value
    return flat


class ExcelTable(ValueTable):
    """The first sheet of an xlsx file; its first row that is not blank holds the names."""

    format = "xlsx"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        self._openpyxl = require("openpyxl", extra="excel")
        self._check_size()
        self._header, names = next(self._filled(), (0, ()))
        if not names:
            raise TableError(f"{self.name} is empty")
        self.columns = ["" if name is None else str(name).strip() for name in names]
        while self.columns[-1] == "":  # cells that were emptied, or only formatted
            self.columns.pop()

    def _check_size(self) -> None:
        """Refuse an xlsx file whose texts, which are unpacked as a whole, exceed the limit of memory."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                check_size(sum(member.file_size for member in archive.infolist()), self.name)
        except FileTooLargeError as error:
            raise TableError(str(error)) from error
        except (zipfile.BadZipFile, OSError):
            pass  # said better where it is read

    def _filled(self) -> Iterator[tuple[int, Sequence[object]]]:
        """Number and values of the rows that are not blank."""
        try:
            # A stream, because openpyxl refuses names without the usual extension, as of standard input.
            with (
                open(self.path, "rb") as stream,
                closing(self._openpyxl.load_workbook(stream, read_only=True, data_only=True)) as book,
            ):
                for number, values in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
                    if any(value is not None for value in values):
                        yield number, values
        # Damaged zip archives and XML show in many kinds of errors, none of which names the file.
        except Exception as error:
            raise TableError(f"{self.name} is not an xlsx file, or is damaged: {error}") from error

    def _rows(self, skip_errors: bool) -> Iterator[tuple[int, Mapping[str, object]]]:
        for number, values in self._filled():
            if number > self._header:
                yield number, dict(zip(self.columns, values))  # a row may end before the last column
