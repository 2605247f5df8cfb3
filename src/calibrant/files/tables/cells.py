"""Cells of Arrow columns as numbers, texts, label positions and dates, whatever type they are stored in."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.table import Table, compute, pa
from calibrant.inputs.class_columns import label_text
from calibrant.inputs.rows import are_percentages, whole_of_probabilities
from calibrant.inputs.words import HintedError, RequestError, UnknownLabelError
from calibrant.typing import AnyArray, Label

if TYPE_CHECKING:
    from pyarrow import Array

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

    def text(self, numbers: object) -> Array:
        """An Arrow column of numbers as text in this style."""
        text = compute.cast(numbers, pa.string())
        if self.decimal != ".":
            text = compute.replace_substring(text, ".", self.decimal)
        return compute.binary_join_element_wise(text, "%", "") if self.percent_sign else text


def to_numbers(column: Array, decimal: str = ".") -> AnyArray:
    """Numbers of an Arrow column, NaN where there is none; float32 and narrower stay so, the rest becomes float64.

    Text may have another decimal mark, and a percent sign: `12.3%` is 0.123.
    """
    column = decoded(column)
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32)
    if is_text(column):
        plain = column if decimal == "." else compute.replace_substring(column, decimal, ".")
        try:
            numbers = compute.cast(plain, pa.float64())
        except pa.ArrowInvalid:
            return np.array([_number(cell, decimal) for cell in column.to_pylist()], dtype=np.float64)
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = column
    elif pa.types.is_decimal(kind):
        numbers = compute.cast(column, pa.float64())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    else:
        raise RequestError(f"a column of type {kind} holds no numbers")
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def several_numbers(columns: Sequence[object], decimal: str = ".") -> AnyArray:
    """Numbers of several Arrow columns side by side."""
    return np.column_stack([to_numbers(column, decimal) for column in columns])


def unreadable(column: Array, row: int, decimal: str = ".") -> str | None:
    """The text of a cell that is no number, empty if it is missing; `None` of a number."""
    column = decoded(column.slice(row, 1))
    if not is_text(column) or _number(text := column[0].as_py(), decimal) is not None:
        return None
    return "" if text is None or text.strip().lower() in MISSING else str(text.strip())


def read_number(text: str) -> float:
    """The number in a text, as other programs read it: not Python's `1_000`, nor digits of other scripts."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.80} is not a number")
    return float(text)


def decoded(column: Array) -> Array:
    """An Arrow column with plain values for categories, and text for bytes."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not is_bytes(column.type):
        return column
    try:
        # Cast to variable length first: bytes of a fixed length have no cast to text.
        return column.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise RequestError(f"a column of type {column.type} holds bytes that are not UTF-8 text") from error


def is_bytes(kind: object) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_text(column: Array) -> bool:
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _number(cell: str | None, decimal: str) -> float | None:
    text = "" if cell is None else cell.strip().replace(decimal, ".")
    try:
        return read_number(text[:-1]) / 100 if text.endswith("%") else read_number(text)
    except ValueError:
        return None


def find_style(columns: Sequence[Label], decimal: str | None = None) -> NumberStyle:
    """Decimal mark and percent signs, by the first cells; whether 100 is the whole is seen from the numbers."""
    cells = [cell for column in map(decoded, columns) if is_text(column) for cell in column.to_pylist() if cell]
    if decimal is None:
        commas = any(re.fullmatch(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*%?\s*", cell, re.IGNORECASE) for cell in cells)
        decimal = "," if commas and not any(re.search(r"\d\.\d", cell) for cell in cells) else "."
    signs = any(re.search(r"\d\s*%\s*$", cell) for cell in cells)
    return NumberStyle(decimal, 100.0 if signs else 1.0, signs)


def measured(
    columns: Sequence[Label], decimal: str | None, *, logits: bool, percentages: bool = False
) -> tuple[NumberStyle, NDArray[np.float64] | None]:
    """How Arrow columns are written, and their numbers as fractions; `None` if few cells are numbers.

    `percentages`: those of an earlier file were, so that these are unless their rows sum to one.
    """
    style = find_style(columns, decimal)
    if not columns:
        return style, None
    values = several_numbers(columns, style.decimal).astype(np.float64)
    mostly_nan = np.isnan(values).sum(axis=0) > len(values) / 2
    texts = [cells.to_pylist() for cells, nan in zip(map(decoded, columns), mostly_nan) if nan and is_text(cells)]
    if any(sum(_number(cell, style.decimal) is None for cell in cells) > len(cells) / 2 for cells in texts):
        return style, None
    percentages = percentages and whole_of_probabilities(values) != 1.0
    if not logits and not style.percent_sign and (percentages or are_percentages(values)):
        return replace(style, whole=100.0), values / 100
    return style, values


def cast_text(column: object, kind: object, refusal: HintedError) -> Array:
    """An Arrow column cast to the text type `kind`; `refusal` is raised if it cannot be text."""
    try:
        return compute.cast(column, kind)
    # Nested types have no cast to text, and bytes may not be UTF-8: Arrow's words for it name neither file nor column.
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise refusal from error


def to_text(column: Array) -> Array:
    """An Arrow column of labels, groups or segments as text; Booleans as Python writes them."""
    column = stripped(column)
    if pa.types.is_boolean(column.type):
        return compute.if_else(column, "True", "False")
    refusal = RequestError(f"a column of type {column.type} cannot hold labels, segments or groups")
    return cast_text(column, pa.string(), refusal)


def stripped(column: object) -> Array:
    """Plain values of an Arrow column; blanks around texts do not count, as around the names of columns."""
    column = decoded(column)
    return compute.utf8_trim_whitespace(column) if is_text(column) else column


def to_cells(column: Array) -> list[Label]:
    """Cells of a column of segments as Python objects: floating-point numbers and times as such, all others as text."""
    column = decoded(column)
    # Arrow writes 0.00001 where Python, whose texts levels are, writes 1e-05, and midnight with all its zeros.
    if pa.types.is_floating(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz), safe=False).to_pylist())
    return list(to_text(column).to_pylist())


def segment_texts(cells: AnyArray) -> AnyArray:
    """The segment of each row as text, from its cells in the columns of segments (n, c); missing ones are `(none)`."""
    texts = [["(none)" if cell in (None, "") or cell != cell else label_text(cell) for cell in row] for row in cells]
    return np.array([", ".join(row) for row in texts], dtype=object)


def group_codes(column: object) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A number for each cell, the same for the same text in every chunk, and which cells are missing."""
    texts = compute.fill_null(to_text(column), "").dictionary_encode()
    hashes = [blake2b(text.encode(), digest_size=8).digest() for text in texts.dictionary.to_pylist()]
    numbers = [int.from_bytes(found, "little", signed=True) for found in hashes]
    places = texts.indices.to_numpy()
    return np.array(numbers, dtype=np.int64)[places], np.array(texts.dictionary.to_pylist())[places] == ""


def read_labels(column: object) -> list[Label]:
    """Different labels of an Arrow column, without missing ones."""
    labels = stripped(column).unique().to_pylist()
    return [label for label in labels if label is not None and label != "" and label == label]


def label_codes(column: Array, classes: Sequence[Label]) -> NDArray[np.int64]:
    """Position of each label among the classes, -1 for missing and unknown ones."""
    place = {label_text(label): number for number, label in enumerate(classes)}
    column = stripped(column)
    try:
        encoded = column.dictionary_encode()  # of few labels: they alone are turned into text
    except pa.ArrowNotImplementedError:  # Arrow cannot encode nested types; `to_text` refuses them by name
        encoded = to_text(column).dictionary_encode()
    texts = to_text(encoded.dictionary).to_pylist()
    known = np.array([place.get(text, place.get(_whole(text), -1)) for text in texts] or [-1])
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(codes < 0, -1, known[codes]).astype(np.int64)


def missing_cells(column: object) -> NDArray[np.bool_]:
    """Which cells of an Arrow column hold nothing: null, NaN or blanks."""
    texts = compute.fill_null(to_text(column), "")
    return np.asarray(compute.is_in(texts, pa.array(["", "nan", "NaN"])).to_numpy(zero_copy_only=False))


def to_dates(column: Array) -> NDArray[np.datetime64]:
    """The days of an Arrow column of dates, times or texts that begin with a date such as 2026-03-14; else NaT."""
    column = decoded(column)
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        texts = compute.utf8_slice_codeunits(to_text(column), 0, 10)
        of_month = compute.equal(compute.utf8_length(texts), 7)
        texts = compute.if_else(of_month, compute.binary_join_element_wise(texts, "01", "-"), texts)
        column = compute.strptime(texts, format="%Y-%m-%d", unit="s", error_is_null=True)
    return np.asarray(column.cast(pa.date32(), safe=False).to_numpy(zero_copy_only=False)).astype("datetime64[D]")


def located(error: UnknownLabelError, table: Table, column: str) -> UnknownLabelError:
    """The same error with the first row of the table that has the label in this column."""
    for batch in table.batches([column], skip_errors=True):
        found = np.flatnonzero(label_codes(batch.data.column(0), [error.label]) == 0)
        if len(found):
            row = table.row_name(int(batch.rows[found[0]]))
            return UnknownLabelError(error.label, f"{table.name}, {row}: {error}", *error.hints)
    return error


def _whole(text: str) -> str:
    """`1` for `1.0`, as other programs write whole numbers of a column with gaps."""
    try:
        number = read_number(text)
    except ValueError:
        return text
    return str(int(number)) if math.isfinite(number) and number.is_integer() else text
