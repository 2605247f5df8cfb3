"""Tables of predictions in files, read in chunks: CSV and JSON Lines (also gzip), xlsx, parquet, feather, npz, npy.

Every format gives the same thing, a sequence of Arrow record batches with the number of each row, so that commands
work on files much larger than memory. Cells of a CSV stay text; only columns requested as numbers are parsed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.words import HintedError, RequestError
from calibrant.optional import require
from calibrant.text_table import list_names

#: Rows of a chunk, where the format does not set them itself: a thousand classes of them take half a gigabyte.
CHUNK_ROWS = 1 << 16
#: Bytes without the end of a line from which a file is not taken for a table.
LONGEST_LINE = 1 << 24

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


class _OnFirstUse:
    """A module of Arrow, imported on first use: without it, the error says how to install it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        setattr(self, name, found := getattr(require(self._module, extra="cli"), name))
        return found


pa, compute = _OnFirstUse("pyarrow"), _OnFirstUse("pyarrow.compute")
arrow_csv, ipc, parquet = _OnFirstUse("pyarrow.csv"), _OnFirstUse("pyarrow.ipc"), _OnFirstUse("pyarrow.parquet")


class TableError(HintedError):
    """A file that cannot be used as it is; the message says where and why."""


@dataclass(frozen=True)
class Batch:
    """Rows of a table: an Arrow record batch, and the number of each row in the file, counted from 1."""

    data: Any
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def file_format(path: Path) -> str:
    """Format of a file by its name: csv, jsonl, xlsx, parquet, feather, npz or npy."""
    name = path.name.lower().removesuffix(".gz")
    for suffix, kind in SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    raise RequestError(
        f"{path}: the format is not known from this extension; known are {', '.join(SUFFIXES)} and .csv.gz"
    )


class Table(ABC):
    """A file of rows and named columns; `name` is what messages call it."""

    format: str
    #: What a row is called in messages, with its number.
    row_word = "row"

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        self.name = name or str(path)
        self.columns: list[str] = []
        #: Where the format tells without reading.
        self.n_rows: int | None = None
        #: Lines left out in the last reading, because they could not be split into cells, with the reason.
        self.skipped: list[tuple[int, str]] = []

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        """Chunks of rows with these columns, or with all of them, in the order of the file."""

    def fraction_read(self) -> float | None:
        """How much has been read so far, from 0 to 1, where the number of rows is not known."""
        return None

    def row_name(self, row: int) -> str:
        """How messages name a row."""
        return f"{self.row_word} {row}"

    def leave_out(self, row: int, reason: str, skip_errors: bool) -> None:
        """Note a line that cannot be used, or raise an error that names it."""
        if not skip_errors:
            raise TableError(f"{self.name}, {self.row_name(row)}: {reason}", "skip_errors")
        self.skipped.append((row, reason))

    def require(self, names: Sequence[str], *hints: str) -> None:
        """Raise an error that lists the columns there are unless all `names` are among them."""
        known = set(self.columns)
        for name in names:
            if name not in known:
                raise RequestError(
                    f"{self.name} has no column {name!r}; its columns are {list_names(self.columns)}", *hints
                )
