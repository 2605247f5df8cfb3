"""Tables of predictions in files, read in chunks: CSV and JSON Lines (also gzip), xlsx, parquet, feather, npz, npy.

Every format gives the same thing, a sequence of Arrow record batches with the number of each row, so that commands
work on files much larger than memory. Cells of a CSV stay the text they are; only columns asked for as numbers are
ever parsed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.optional import require

#: Rows of a chunk, where the format does not set them itself.
CHUNK_ROWS = 1 << 16

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".npz": "npz",
    ".npy": "npy",
}


class TableError(ValueError):
    """A file that cannot be used as it is; the message says where and why.

    `hints` name settings that may help (fields of `Layout`, `skip_errors`, `force`, ...): who shows the error says how
    they are set.
    """

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints


class RequestError(TableError):
    """What was asked for is not there or cannot be told from other things: a file, a column, a label."""


@dataclass(frozen=True)
class Batch:
    """Rows of a table: an Arrow record batch, and the number of each row in the file, counted from 1."""

    data: Any
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def file_format(path: Path) -> str:
    """Format of a file by its name: csv, jsonl, xlsx, parquet, feather, npz or npy.

    Examples
    --------
    >>> file_format(Path("predictions.csv.gz")), file_format(Path("predictions.pq"))
    ('csv', 'parquet')
    """
    name = path.name.lower().removesuffix(".gz")
    for suffix, kind in SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    raise RequestError(f"{path}: the format is not known by this ending; there are {', '.join(SUFFIXES)} and .csv.gz")


class Table(ABC):
    """A file of rows and named columns.

    Attributes
    ----------
    path : Path
    name : str
        What messages call the file.
    format : str
    columns : list of str
    n_rows : int or None
        Number of rows, where the format tells without reading.
    skipped : list of (int, str)
        Lines left out in the last reading, because they could not be split into cells, with the reason.
    """

    format: str
    #: What a row is called in messages, with its number.
    row_word = "row"

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        self.name = name or str(path)
        self.columns: list[str] = []
        self.n_rows: int | None = None
        self.skipped: list[tuple[int, str]] = []

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        """Chunks of rows with these columns, or with all of them, in the order of the file."""

    def fraction_read(self) -> float | None:
        """How far the reading under way has come, from 0 to 1, where the number of rows does not tell."""
        return None

    def row_name(self, row: int) -> str:
        """How messages name a row."""
        return f"{self.row_word} {row}"

    def require(self, names: Sequence[str], *hints: str) -> None:
        """Raise an error that lists the columns there are unless all `names` are among them."""
        for name in names:
            if name not in self.columns:
                raise RequestError(
                    f"{self.name} has no column {name!r}; its columns are {list_names(self.columns)}", *hints
                )


class RecordTable(Table):
    """A file that an Arrow reader, or NumPy, hands over in batches of typed columns."""

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        first = 1
        for data in self._record_batches(None if columns is None else list(columns)):
            if data.num_rows:
                yield Batch(data, np.arange(first, first + data.num_rows))
                first += data.num_rows

    @abstractmethod
    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        """Arrow record batches with these columns, or with all of them."""


def list_names(names: Sequence[str], limit: int = 40) -> str:
    """Names for a message, shortened if there are very many.

    Examples
    --------
    >>> list_names(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name if len(name) < 80 else f"{name[:76]} ...") for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def open_table(path: str | Path, kind: str | None = None, name: str = "") -> Table:
    """Open a file of predictions; nothing but names and sizes is read yet.

    Parameters
    ----------
    path : str or Path
        CSV (also .csv.gz, .tsv), JSON Lines, xlsx, parquet, feather, npz or npy file.
    kind : str, optional
        The format, if the name does not tell.
    name : str, optional
        What messages call the file, if not by its path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "p.csv"
    ...     _ = file.write_text("id,p_no,p_yes\\n007,0.25,0.75\\n")
    ...     table = open_table(file)
    ...     table.columns, [batch.data.to_pydict()["id"] for batch in table.batches()]
    (['id', 'p_no', 'p_yes'], [['007']])
    """
    path = Path(path)
    kind = kind or file_format(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file of predictions")
    if not path.exists():
        raise RequestError(f"there is no file {path}")
    table = _reader(kind)(path, name=name)
    twice = next((name for name, count in Counter(table.columns).items() if count > 1), None)
    if twice is not None:
        named = f"has more than one column {twice!r}" if twice else "has columns without a name"
        raise TableError(f"{table.name} {named}; give each column its own name")
    return table


def _reader(kind: str) -> Callable[..., Table]:
    require("pyarrow", extra="cli")
    if kind in ("npz", "npy"):
        from calibrant.files.tables.arrays import ArrayTable

        return partial(ArrayTable, kind=kind)
    if kind == "csv":
        from calibrant.files.tables.text import CsvTable

        return CsvTable
    if kind in ("jsonl", "xlsx"):
        from calibrant.files.tables.records import ExcelTable, JsonLinesTable

        return JsonLinesTable if kind == "jsonl" else ExcelTable
    return ParquetTable if kind == "parquet" else FeatherTable


class ParquetTable(RecordTable):
    """An Apache Parquet file."""

    format = "parquet"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        pa, parquet = require("pyarrow", extra="cli"), require("pyarrow.parquet", extra="cli")
        try:
            # Pages are read as they are needed: a single row group may be larger than memory.
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
            self.columns = self._file.schema_arrow.names
            self.n_rows = self._file.metadata.num_rows
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a parquet file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        pa = require("pyarrow", extra="cli")
        try:
            yield from self._file.iter_batches(batch_size=CHUNK_ROWS, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error


class FeatherTable(RecordTable):
    """An Arrow IPC file, which is what feather is since its second version."""

    format = "feather"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        pa, ipc = require("pyarrow", extra="cli"), require("pyarrow.ipc", extra="cli")
        try:
            self._file = ipc.open_file(pa.memory_map(str(path)))
            self.columns = self._file.schema.names
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a feather (Arrow IPC) file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        pa = require("pyarrow", extra="cli")
        try:
            for number in range(self._file.num_record_batches):
                whole = self._file.get_batch(number)
                whole.validate(full=True)  # offsets of damaged text would point outside of the file
                for start in range(0, whole.num_rows, CHUNK_ROWS):
                    part = whole.slice(start, CHUNK_ROWS)
                    yield part if columns is None else part.select(columns)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error
