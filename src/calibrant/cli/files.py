"""Between the options of a command and tables of predictions: opening, standard input, progress, counts."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from calibrant.files.tables.rows import Layout, RowReader, Rows
    from calibrant.files.tables.table import Table

Item = TypeVar("Item")


@contextlib.contextmanager
def opened(path: str, columns: Sequence[str | None] = ()) -> Iterator[tuple[Table, list[str | None]]]:
    """The table in a file or on standard input, and the columns asked for, npy files beside an npy file joined in."""
    from calibrant.files.tables.arrays import ArrayTable
    from calibrant.files.tables.table import open_table

    with _spooled(path) as (file, kind):
        table = open_table(file, kind)
        names = list(columns)
        if isinstance(table, ArrayTable):
            names = [
                table.attach(Path(name)) if name and name not in table.columns and _is_npy(name) else name
                for name in names
            ]
        yield table, names


def _is_npy(name: str) -> bool:
    return name.lower().endswith(".npy") and Path(name).exists()


@contextlib.contextmanager
def _spooled(path: str) -> Iterator[tuple[Path, str | None]]:
    """A path to read from; standard input goes to a temporary file first, as some formats are read from the end."""
    if path != "-":
        yield Path(path), None
        return
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        file = Path(folder) / "standard input"
        with file.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        yield file, _sniffed(file)


def _sniffed(file: Path) -> str:
    with file.open("rb") as stream:
        start = stream.read(8)
    for magic, kind in ((b"PAR1", "parquet"), (b"ARROW1", "feather"), (b"\x93NUMPY", "npy"), (b"PK", "npz")):
        if start.startswith(magic):
            return kind
    return "csv"


def make_layout(
    label: str | None,
    weight: str | None,
    group: str | None,
    probs: Sequence[str] | None,
    classes: str | None,
    logits: bool,
    renormalize: bool,
) -> Layout:
    """The layout that the shared options describe."""
    from calibrant.files.tables.rows import Layout

    return Layout(
        label=label,
        probs=tuple(probs or ()),
        weight=weight,
        group=group,
        classes=None if classes is None else tuple(part.strip() for part in classes.split(",")),
        logits=logits,
        renormalize=renormalize,
    )


def progress_over(table: Table, what: str) -> Callable[[Iterator[Rows]], Iterator[Rows]]:
    """Wraps the reading of chunks in a progress bar; silent unless standard error is a terminal."""

    def wrapped(chunks: Iterator[Rows]) -> Iterator[Rows]:
        if not sys.stderr.isatty():
            yield from chunks
            return
        with bar(what) as update:
            rows = 0
            for chunk in chunks:
                rows += len(chunk.batch)
                fraction = rows / table.n_rows if table.n_rows else table.fraction_read()
                update(fraction, f"{rows:,} rows")
                yield chunk

    return wrapped


@contextlib.contextmanager
def bar(what: str) -> Iterator[Callable[[float | None, str], None]]:
    """A progress bar on standard error, and the function that moves it."""
    if not sys.stderr.isatty():
        yield lambda fraction, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0, text="")
        yield lambda fraction, text: progress.update(task, completed=fraction or 0.0, text=text)


def tell_skipped(reader: RowReader) -> None:
    """Say how many rows were left out, and why the first of them."""
    if reader.skipped.count:
        rows = "1 row" if reader.skipped.count == 1 else f"{reader.skipped.count} rows"
        typer.echo(f"Skipped {rows}; the first is {reader.skipped.first}", err=True)


def print_json(value: Any) -> None:
    """Print as JSON; numbers that JSON lacks (NaN, infinity) become null."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """A value made of what JSON knows."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def columns_of_text(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of text in aligned columns, the first `left` of them to the left, the rest to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    sides = [str.ljust if i < left else str.rjust for i in range(len(widths))]
    lines = ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
