"""NumPy files as tables: an npz is a table of its arrays, an npy a table of its columns.

A matrix `p` of shape (n, k) becomes the columns `p_0` to `p_{k-1}`, a vector one column of its own name; writing puts
the columns together again. Arrays are shown to the rest as Arrow columns, so that all formats meet the same code.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.archives import ArchiveError, open_archive
from calibrant.files.limits import FileTooLargeError
from calibrant.files.tables.table import CHUNK_ROWS, RecordTable, TableError
from calibrant.optional import require
from calibrant.text_table import list_names

#: What the matrix of an npy file, which has no names in it, is called.
NPY_NAME = "p"


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
        self.layout = {name: column_names(name, array) for name, array in self._arrays.items()}
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
        pa = require("pyarrow", extra="cli")
        place = {column: (name, number) for name, names in self.layout.items() for number, column in enumerate(names)}
        names = self.columns if columns is None else columns
        for start in range(0, self.n_rows or 0, CHUNK_ROWS):
            stop = start + CHUNK_ROWS
            cells = []
            for column in names:
                array_name, number = place[column]
                block = self._arrays[array_name][start:stop]
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


def column_names(name: str, array: NDArray[Any]) -> list[str]:
    """Names of the columns that stand for an array.

    Examples
    --------
    >>> column_names("p", np.zeros((4, 2))), column_names("y", np.zeros(4))
    (['p_0', 'p_1'], ['y'])
    """
    return [name] if array.ndim == 1 else [f"{name}_{number}" for number in range(array.shape[1])]


class ArrayWriter:
    """Collects record batches and writes their columns as the arrays they came from.

    Columns that `layout` does not know stay vectors, unless they are those of one array with a suffix, which then
    become a matrix under the array's name with that suffix.
    """

    text = False

    def __init__(self, stream: IO[bytes], kind: str, layout: Mapping[str, list[str]] | None, suffix: str = "") -> None:
        self._stream = stream
        self._kind = kind
        self._layout = dict(layout or {})
        self._suffix = suffix
        self._batches: list[Any] = []

    def write(self, data: Any) -> None:
        """Add rows."""
        self._batches.append(data)

    def close(self) -> None:
        """Write everything."""
        pa = require("pyarrow", extra="cli")
        table = pa.Table.from_batches(self._batches)
        columns = {name: _as_array(table.column(name), name) for name in table.column_names}
        arrays: dict[str, NDArray[Any]] = {}
        layout = {
            **self._layout,
            **{n + self._suffix: [c + self._suffix for c in cs] for n, cs in self._layout.items()},
        }
        for name, names in layout.items():
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


def _as_array(column: Any, name: str) -> NDArray[Any]:
    array = column.to_numpy()
    if array.dtype.kind == "O":
        # Text; without this NumPy would have to pickle it.
        array = np.array(["" if value is None else value for value in array.tolist()])
    if array.dtype.kind == "O":
        raise TableError(f"the column {name!r} cannot be stored as a NumPy array")
    return array
