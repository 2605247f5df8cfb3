"""Tables from a path or from standard input, with labels and weights in files of their own joined in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from calibrant.files.tables.arrow import FeatherTable, ParquetTable
from calibrant.files.tables.folder import FolderTable, files_of, is_several
from calibrant.files.tables.numpy_files import ArrayTable
from calibrant.files.tables.records import ExcelTable, JsonLinesTable
from calibrant.files.tables.table import Table, TableError, file_format
from calibrant.files.tables.text import CsvTable
from calibrant.inputs.words import RequestError
from calibrant.optional import require


def open_table(path: str | Path | Sequence[str | Path], kind: str | None = None, name: str = "") -> Table:
    """Open a file of predictions, or several as one table; nothing but names and sizes is read yet.

    Parameters
    ----------
    path : path or sequence of paths
        CSV (also .csv.gz, .tsv), JSON Lines, xlsx, parquet, feather, npz or npy file; a folder of such files, a pattern
        such as ``day-*.csv``, or several of these.
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
    if is_several(path):
        said = str(path) if isinstance(path, (str, Path)) else f"a table of {len(list(path))} files"
        return FolderTable(files_of(path), open_table, name or said)
    path = Path(str(path))
    if not path.exists():
        raise RequestError(f"there is no file {path}")
    table = _reader(kind or file_format(path))(path, name=name)
    twice = next((name for name, count in Counter(table.columns).items() if count > 1), None)
    if twice is not None:
        named = f"has more than one column {twice!r}" if twice else "has columns without a name"
        raise TableError(f"{table.name} {named}; give each column its own name")
    return table


def _reader(kind: str) -> Callable[..., Table]:
    require("pyarrow", extra="cli")
    readers: dict[str, Callable[..., Table]] = {
        "csv": CsvTable,
        "feather": FeatherTable,
        "jsonl": JsonLinesTable,
        "npy": partial(ArrayTable, kind="npy"),
        "npz": partial(ArrayTable, kind="npz"),
        "parquet": ParquetTable,
        "xlsx": ExcelTable,
    }
    return readers[kind]


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
