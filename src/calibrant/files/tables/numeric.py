"""Cells of Arrow columns as numbers, whatever type they are stored in and however they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.table import RequestError
from calibrant.optional import require

#: Spellings of a missing number in text, besides the empty cell.
MISSING = {"", "na", "n/a", "nan", "null", "none", "-nan"}


@dataclass(frozen=True)
class NumberStyle:
    """How a file writes its probabilities: decimal mark, 1 or 100 as the whole, with a percent sign or without."""

    decimal: str = "."
    whole: float = 1.0
    percent_sign: bool = False

    @property
    def is_special(self) -> bool:
        """Whether numbers are written in another way than most programs do."""
        return self.decimal != "." or self.percent_sign

    def text(self, numbers: Any) -> Any:
        """An Arrow column of numbers as text in this style."""
        pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
        text = compute.cast(numbers, pa.string())
        if self.decimal != ".":
            text = compute.replace_substring(text, ".", self.decimal)
        return compute.binary_join_element_wise(text, "%", "") if self.percent_sign else text


@dataclass(frozen=True)
class Numbers:
    """Numbers of a column, NaN where there is none, and the text of cells that are no number by position."""

    values: NDArray[Any]
    unreadable: dict[int, str] = field(default_factory=dict)


def to_numbers(column: Any, decimal: str = ".") -> Numbers:
    """Numbers of an Arrow column; float32 and narrower stay float32, the rest becomes float64.

    Text may have another decimal mark, and a percent sign: `12.3%` is 0.123.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_numbers(pa.array(["0.5", "25%", "x"]))
    Numbers(values=array([0.5 , 0.25,  nan]), unreadable={2: 'x'})
    """
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    column = decoded(column)
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return Numbers(np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32))
    if is_text(column):
        try:
            numbers = compute.cast(
                column if decimal == "." else compute.replace_substring(column, decimal, "."), pa.float64()
            )
        except pa.ArrowInvalid:
            return _parse(column.to_pylist(), decimal)
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = column
    elif pa.types.is_decimal(kind):
        numbers = compute.cast(column, pa.float64())
    elif pa.types.is_null(kind):
        return Numbers(np.full(len(column), np.nan))
    else:
        raise RequestError(f"a column of type {kind} holds no numbers")
    return Numbers(np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64))


def decoded(column: Any) -> Any:
    """An Arrow column with categories as plain values."""
    return column.dictionary_decode() if require("pyarrow", extra="cli").types.is_dictionary(column.type) else column


def is_text(column: Any) -> bool:
    """Whether an Arrow column holds text."""
    pa = require("pyarrow", extra="cli")
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _parse(cells: list[str | None], decimal: str) -> Numbers:
    values = np.full(len(cells), np.nan)
    unreadable = {}
    for row, cell in enumerate(cells):
        text = "" if cell is None else cell.strip()
        number = text if decimal == "." else text.replace(decimal, ".")
        try:
            values[row] = float(number[:-1]) / 100 if number.endswith("%") else float(number)
        except ValueError:
            unreadable[row] = "" if text.lower() in MISSING else text
    return Numbers(values, unreadable)


def find_style(columns: Sequence[Any], decimal: str | None = None) -> NumberStyle:
    """Decimal mark and percent signs of columns, by their first cells; whether 100 is the whole shows in the numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> find_style([pa.array(["12,5 %", "0"])])
    NumberStyle(decimal=',', whole=100.0, percent_sign=True)
    """
    cells = [cell for column in map(decoded, columns) if is_text(column) for cell in column.to_pylist() if cell]
    if decimal is None:
        commas = any(re.fullmatch(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*%?\s*", cell, re.IGNORECASE) for cell in cells)
        decimal = "," if commas and not any(re.search(r"\d\.\d", cell) for cell in cells) else "."
    signs = any(re.search(r"\d\s*%\s*$", cell) for cell in cells)
    return NumberStyle(decimal, 100.0 if signs else 1.0, signs)
