"""Cells of Arrow columns as numbers, whatever type they are stored in and however they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.rows import are_percentages, whole_of_probabilities
from calibrant.inputs.words import RequestError
from calibrant.optional import require

#: Spellings of a missing number in text, besides the empty cell.
MISSING = {"", "na", "n/a", "nan", "null", "none", "-nan"}
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|infinity|nan)", re.ASCII | re.IGNORECASE)


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
    """Numbers of a column, NaN where there is none, and the text of cells that are no number by position.

    Of several columns `values` has the shape (n, c), and positions are pairs of row and column.
    """

    values: NDArray[Any]
    unreadable: dict[Any, str] = field(default_factory=dict)


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


def several_numbers(columns: Sequence[Any], decimal: str = ".") -> Numbers:
    """Numbers of several Arrow columns side by side.

    Examples
    --------
    >>> import pyarrow as pa
    >>> several_numbers([pa.array(["0.5", "x"]), pa.array([1.0, 2.0])]).unreadable
    {(1, 0): 'x'}
    """
    found = [to_numbers(column, decimal) for column in columns]
    unreadable = {(row, j): text for j, cells in enumerate(found) for row, text in cells.unreadable.items()}
    return Numbers(np.column_stack([cells.values for cells in found]), unreadable)


def read_number(text: str) -> float:
    """The number that a text is, as other programs read it: Python's own `1_000` and digits of other scripts are none.

    Examples
    --------
    >>> read_number("-2.5e3")
    -2500.0
    >>> read_number("0.5_0")
    Traceback (most recent call last):
        ...
    ValueError: '0.5_0' is not a number
    """
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.80} is not a number")
    return float(text)


def decoded(column: Any) -> Any:
    """An Arrow column with categories as plain values, and bytes as the text that they are."""
    pa = require("pyarrow", extra="cli")
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not is_bytes(column.type):
        return column
    try:
        # Cast to variable length first: bytes of a fixed length have no cast to text.
        return column.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise RequestError(f"a column of type {column.type} holds bytes that are not UTF-8 text") from error


def is_bytes(kind: Any) -> bool:
    """Whether an Arrow type holds bytes."""
    types = require("pyarrow", extra="cli").types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


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
            values[row] = read_number(number[:-1]) / 100 if number.endswith("%") else read_number(number)
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


def measured(
    columns: Sequence[Any], decimal: str | None, *, logits: bool, percentages: bool = False
) -> tuple[NumberStyle, NDArray[np.float64] | None]:
    """How Arrow columns are written, and their numbers as fractions; None if few of the cells are numbers.

    `percentages`: those of an earlier file were, so that these are unless their rows sum to one.
    """
    style = find_style(columns, decimal)
    cells = [to_numbers(column, style.decimal) for column in columns]
    if not cells or any(len(cell.unreadable) > len(cell.values) / 2 for cell in cells):
        return style, None
    values = np.column_stack([cell.values for cell in cells]).astype(np.float64)
    percentages = percentages and whole_of_probabilities(values) != 1.0
    if not logits and not style.percent_sign and (percentages or are_percentages(values)):
        return replace(style, whole=100.0), values / 100
    return style, values
