"""Tables from a path, from several files or from standard input.

Several files are a folder, with Hive partitions as columns, a pattern or a list: they are opened one after the other,
in the order of their names, and a row is named by its file and its number there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile

from calibrant.files.tables.formats import ArrayTable, ExcelTable, FeatherTable, JsonLinesTable, ParquetTable
from calibrant.files.tables.table import SUFFIXES, Batch, Table, TableError, file_format, pa
from calibrant.files.tables.text import CsvTable
from calibrant.inputs.words import RequestError
from calibrant.optional import require
from calibrant.text_table import list_names

_READERS: dict[str, Callable[..., Table]] = {
    "csv": CsvTable,
    "feather": FeatherTable,
    "jsonl": JsonLinesTable,
    "npy": partial(ArrayTable, kind="npy"),
    "npz": partial(ArrayTable, kind="npz"),
    "parquet": ParquetTable,
    "xlsx": ExcelTable,
}
#: Hive's directory for rows whose partition is missing.
_MISSING = "__HIVE_DEFAULT_PARTITION__"
#: Names with these beginnings are what engines leave beside their data, such as _SUCCESS.
_HIDDEN = (".", "_")


def open_table(path: str | Path | Sequence[str | Path], kind: str | None = None, name: str = "") -> Table:
    """Open a file of predictions, or several as one table; nothing but names and sizes is read yet.

    `kind` is the format, if the name of the file does not tell; `name` is what messages call it, if not by its path.
    """
    if is_several(path):
        said = str(path) if isinstance(path, (str, Path)) else f"a table of {len(list(path))} files"
        return FolderTable(files_of(path), name or said)
    path = Path(str(path))
    if not path.exists():
        raise RequestError(f"there is no file {path}")
    require("pyarrow", extra="cli")
    table = _READERS[kind or file_format(path)](path, name=name)
    twice = next((name for name, count in Counter(table.columns).items() if count > 1), None)
    if twice is not None:
        named = f"has more than one column {twice!r}" if twice else "has columns without a name"
        raise TableError(f"{table.name} {named}; give each column its own name")
    return table


def is_several(path: str | Path | Sequence[str | Path]) -> bool:
    """Whether a path stands for several files: a list, a folder, or a pattern that is not the name of a file."""
    if not isinstance(path, (str, os.PathLike)):
        return True
    return Path(path).is_dir() or (has_magic(str(path)) and not Path(path).exists())


def files_of(path: str | Path | Sequence[str | Path]) -> list[tuple[Path, dict[str, str]]]:
    """The files that a folder, a pattern or a list stands for, by name, each with its Hive partition."""
    if not isinstance(path, (str, os.PathLike)):
        return [file for part in path for file in (files_of(part) if is_several(part) else [(Path(part), {})])]
    if not Path(path).is_dir():
        found = sorted(Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file())
        if not found:
            raise RequestError(f"no file matches {path}")
        return [(file, {}) for file in found]
    root, found = Path(path), []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        tables = [name for name in names if name.lower().removesuffix(".gz").endswith(tuple(SUFFIXES))]
        found += [Path(folder) / name for name in tables if not name.startswith(_HIDDEN)]
    if not found:
        raise RequestError(f"{path} is a folder without prediction files; known extensions are {', '.join(SUFFIXES)}")
    return [(file, _partition(file.relative_to(root))) for file in sorted(found)]


def _partition(file: Path) -> dict[str, str]:
    """What the names of folders, such as month=2026-03, say of the rows below them."""
    pairs = [part.split("=", 1) for part in file.parts[:-1] if "=" in part]
    return {name: "" if value == _MISSING else unquote(value) for name, value in pairs}


class FolderTable(Table):
    """Files with the same columns, as `files_of` lists them, one after the other."""

    def __init__(self, files: list[tuple[Path, dict[str, str]]], name: str) -> None:
        super().__init__(files[0][0], name)
        self._files = files
        kinds = {file_format(path): path for path, _ in files}
        if len(kinds) > 1:
            raise TableError(f"{name} holds files of several formats, {list_names(map(str, kinds.values()), 5)}")
        self.format = next(iter(kinds))
        first = self._opened(0)
        self.row_word, self.columns = first.row_word, [*first.columns, *files[0][1]]
        if len(files) == 1:
            self.n_rows = first.n_rows
        #: Rows before each file that was read so far, and the file under way.
        self._before, self._current = [0], first
        self._number = 0

    def _opened(self, number: int) -> Table:
        """A file, which must have the columns of the first one."""
        path, partition = self._files[number]
        table = open_table(path)
        both = sorted(set(partition) & set(table.columns))
        if both:
            raise TableError(
                f"{path} has a column {both[0]!r} that is also in the name of its folder; rename one of them"
            )
        names = {*table.columns, *partition}
        if number and names != set(self.columns):
            lacks, more = sorted(set(self.columns) - names), sorted(names - set(self.columns))
            said = f"lacks the column {lacks[0]!r}, which" if lacks else f"has the column {more[0]!r}, which"
            verb = "has" if lacks else "lacks"
            raise TableError(f"{path} {said} {self._files[0][0]} {verb}; all files of a table have the same columns")
        return table

    def batches(self, columns: Sequence[str] | None = None, *, skip_errors: bool = False) -> Iterator[Batch]:
        wanted = self.columns if columns is None else list(columns)
        self._before, self.skipped = [0], []
        for number, (_, partition) in enumerate(self._files):
            self._number, self._current = number, self._opened(number)
            start, last, noted = self._before[-1], 0, 0
            stored = [name for name in wanted if name not in partition]
            # A table without any of its own columns is still read, for the number of its rows.
            for batch in self._current.batches(stored or self._current.columns[:1], skip_errors=skip_errors):
                self.skipped += [(start + row, why) for row, why in self._current.skipped[noted:]]
                noted, last = len(self._current.skipped), int(batch.rows[-1])
                yield replace(batch, data=_with(batch.data, partition, wanted), rows=batch.rows + start)
            self.skipped += [(start + row, why) for row, why in self._current.skipped[noted:]]
            last = max([last, *(row for row, _ in self._current.skipped)])
            self._before.append(start + last)

    def fraction_read(self) -> float | None:
        """How many of the files are read."""
        return (self._number + (self._current.fraction_read() or 0.0)) / len(self._files)

    def row_name(self, row: int) -> str:
        """The number of a row in its file, and the file."""
        number = min(max(0, bisect_left(self._before, row) - 1), len(self._files) - 1)
        return f"{self.row_word} {row - self._before[number]} of {self._files[number][0]}"


def _with(data: Any, partition: dict[str, str], wanted: Sequence[str]) -> Any:
    """A record batch with the columns of its partition, in the wanted order."""
    arrays = [
        pa.array([partition[name] or None] * data.num_rows, pa.string()) if name in partition else data.column(name)
        for name in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted))


@contextmanager
def opened_table(path: str | Path, columns: Sequence[str | None] = ()) -> Iterator[tuple[Table, list[str | None]]]:
    """The table in a file (``-``: on standard input), and the names of the columns asked for.

    Beside an npy file a column may be another npy file, which is joined in under its path.
    """
    with _spooled(path) as (file, kind):
        table = open_table(file, kind, "standard input" if str(path) == "-" else "")
        names = list(columns)
        if isinstance(table, ArrayTable):
            for number, name in enumerate(columns):
                if name and name not in table.columns and name.lower().endswith(".npy") and Path(name).exists():
                    names[number] = table.attach(Path(name))
        yield table, names


@contextmanager
def _spooled(path: str | Path) -> Iterator[tuple[Path, str | None]]:
    """A path to read from; standard input goes to a temporary file first, as some formats are read from the end."""
    if str(path) != "-":
        yield Path(path), None
        return
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        file = Path(folder) / "input"
        with file.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        yield file, _sniffed(file)


def _sniffed(file: Path) -> str:
    """The format of a file by its first bytes."""
    with file.open("rb") as stream:
        start = stream.read(8)
    for magic, kind in ((b"PAR1", "parquet"), (b"ARROW1", "feather"), (b"\x93NUMPY", "npy"), (b"{", "jsonl")):
        if start.startswith(magic):
            return kind
    if not start.startswith(b"PK"):
        return "csv"
    try:
        with ZipFile(file) as archive:
            return "xlsx" if "[Content_Types].xml" in archive.namelist() else "npz"
    except BadZipFile:
        return "npz"
