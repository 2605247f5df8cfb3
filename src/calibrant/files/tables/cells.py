"""Cells of Arrow columns as numbers, text and label positions, whatever type they are stored in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.columns import label_text
from calibrant.files.tables.table import RequestError, TableError
from calibrant.optional import require

#: Spellings of a missing number in text, besides the empty cell.
MISSING = {"", "na", "n/a", "nan", "null", "none", "-nan"}


@dataclass(frozen=True)
class Numbers:
    """Numbers of a column, NaN where there is none, and the text of cells that are no number by position."""

    values: NDArray[Any]
    unreadable: dict[int, str] = field(default_factory=dict)


def to_numbers(column: Any) -> Numbers:
    """Numbers of an Arrow column; float32 and narrower stay float32, the rest becomes float64.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_numbers(pa.array(["0.5", "x"]))
    Numbers(values=array([0.5, nan]), unreadable={1: 'x'})
    """
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return Numbers(np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        try:
            numbers = compute.cast(column, pa.float64())
        except pa.ArrowInvalid:
            return _parse(column.to_pylist())
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = column
    elif pa.types.is_decimal(kind):
        numbers = compute.cast(column, pa.float64())
    elif pa.types.is_null(kind):
        return Numbers(np.full(len(column), np.nan))
    else:
        raise RequestError(f"a column of type {kind} holds no numbers")
    return Numbers(np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64))


def _parse(cells: list[str | None]) -> Numbers:
    values = np.full(len(cells), np.nan)
    unreadable = {}
    for row, cell in enumerate(cells):
        text = "" if cell is None else cell.strip()
        try:
            values[row] = float(text)
        except ValueError:
            unreadable[row] = "" if text.lower() in MISSING else text
    return Numbers(values, unreadable)


def cast_text(column: Any, kind: Any, refusal: TableError) -> Any:
    """An Arrow column cast to the text type `kind`; `refusal` is raised if its type or its bytes are no text."""
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    try:
        return compute.cast(column, kind)
    # Nested types have no cast to text, and bytes may not be UTF-8: Arrow's words for it name neither file nor column.
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise refusal from error


def to_text(column: Any) -> Any:
    """An Arrow column as text; Booleans as Python writes them."""
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        return compute.if_else(column, "True", "False")
    refusal = RequestError(f"a column of type {column.type} holds neither labels nor groups")
    return cast_text(column, pa.string(), refusal)


def read_labels(column: Any) -> list[Any]:
    """Different labels of an Arrow column, without missing ones."""
    pa = require("pyarrow", extra="cli")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    labels = column.unique().to_pylist()
    return [label for label in labels if label is not None and label != "" and label == label]


def label_codes(column: Any, classes: Sequence[Any]) -> NDArray[np.int64]:
    """Position of each label among the classes, -1 for missing and unknown ones.

    Examples
    --------
    >>> import pyarrow as pa
    >>> label_codes(pa.array([1.0, None, 2.0, 7.0]), [1, 2]).tolist()
    [0, -1, 1, -1]
    """
    place = {label_text(label): number for number, label in enumerate(classes)}
    encoded = to_text(column).dictionary_encode()
    known = np.array([place.get(text, place.get(_whole(text), -1)) for text in encoded.dictionary.to_pylist()] or [-1])
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(codes < 0, -1, known[codes]).astype(np.int64)


def _whole(text: str) -> str:
    """`1` for `1.0`, as other programs write whole numbers of a column with gaps."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if math.isfinite(number) and number.is_integer() else text
