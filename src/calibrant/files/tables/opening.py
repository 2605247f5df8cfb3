"""Tables from a path or from standard input, with labels and weights in files of their own joined in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from calibrant.files.tables.arrays import ArrayTable
from calibrant.files.tables.table import Table, open_table


@contextmanager
def opened_table(path: str | Path, columns: Sequence[str | None] = ()) -> Iterator[tuple[Table, list[str | None]]]:
    """The table in a file (``-``: on standard input), and the names of the columns asked for.

    Beside an npy file a column may be another npy file, which is joined in under its path.
    """
    with _spooled(path) as (file, kind):
        table = open_table(file, kind, "standard input" if str(path) == "-" else "")
        names = list(columns)
        if isinstance(table, ArrayTable):
            names = [
                table.attach(Path(name)) if name and name not in table.columns and _is_npy(name) else name
                for name in names
            ]
        yield table, names


def _is_npy(name: str) -> bool:
    return name.lower().endswith(".npy") and Path(name).exists()


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
