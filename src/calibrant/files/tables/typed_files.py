"""Files of typed columns as tables: parquet and feather, read by Arrow in chunks, and NumPy's npz and npy.

An npz file is a table of its arrays, an npy file a table of its columns. A matrix `p` of shape (n, k) becomes the
columns `p_0` to `p_{k-1}`, a vector one column of its own name; `writers.ArrayWriter` puts them together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.archives import ArchiveError, FileTooLargeError, open_archive
from calibrant.files.tables.arrow import ipc, pa, parquet
from calibrant.files.tables.table import CHUNK_ROWS, RecordTable, TableError
from calibrant.text_table import list_names

#: What the matrix of an npy file, which has no names in it, is called.
NPY_NAME = "p"


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

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
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

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
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

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        place = {column: (name, number) for name, names in self.layout.items() for number, column in enumerate(names)}
        names = self.columns if columns is None else columns
        for start in range(0, self.n_rows or 0, CHUNK_ROWS):
            cells = []
            for array_name, number in (place[column] for column in names):
                block = self._arrays[array_name][start : start + CHUNK_ROWS]
                cells.append(pa.array(np.ascontiguousarray(block if block.ndim == 1 else block[:, number])))
            yield pa.RecordBatch.from_arrays(cells, names=names)


def load_arrays(path: Path, kind: str, name: str = "") -> dict[str, NDArray[Any]]:
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
            raise TableError(
                f"{name or path}: the array {key!r} has {array.ndim} dimensions; there should be one or two"
            )
    return arrays
