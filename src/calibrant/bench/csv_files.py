"""Tables as CSV files with all digits, which read back as the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.files.atomic import atomic_path
from calibrant.optional import require
from calibrant.text_table import as_cell, from_cell

if TYPE_CHECKING:
    import pandas as pd


def read_csv(path: Path, text: Iterable[str], numbers: Iterable[str]) -> pd.DataFrame:
    """Read a table that this package wrote, with the names of its columns of text and of numbers.

    A dataset may well be called "NA" or "null": only an empty field of a number is missing.
    """
    pd = require("pandas", extra="bench")
    gaps = {name: ["", "nan", "NaN", "NA"] for name in numbers}
    return _each_text(
        from_cell, pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=gaps)
    )


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table with all digits; a text that a spreadsheet program would take for a formula stays text."""
    with atomic_path(path) as part:
        _each_text(as_cell, frame).to_csv(part, index=False, lineterminator="\n")


def _each_text(change: Callable[[str], str], frame: pd.DataFrame) -> pd.DataFrame:
    return frame.map(lambda cell: change(cell) if isinstance(cell, str) else cell)
