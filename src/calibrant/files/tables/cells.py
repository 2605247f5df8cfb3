"""Cells of Arrow columns as text and label positions, whatever type they are stored in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.numeric import decoded, is_text, read_number
from calibrant.files.tables.table import Table
from calibrant.inputs.class_columns import label_text
from calibrant.inputs.words import HintedError, RequestError, UnknownLabelError
from calibrant.optional import require


def cast_text(column: Any, kind: Any, refusal: HintedError) -> Any:
    """An Arrow column cast to the text type `kind`; `refusal` is raised if its type or its bytes are no text."""
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    try:
        return compute.cast(column, kind)
    # Nested types have no cast to text, and bytes may not be UTF-8: Arrow's words for it name neither file nor column.
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise refusal from error


def to_text(column: Any) -> Any:
    """An Arrow column of labels, groups or segments as text; Booleans as Python writes them."""
    pa, compute = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli")
    column = stripped(column)
    if pa.types.is_boolean(column.type):
        return compute.if_else(column, "True", "False")
    refusal = RequestError(f"a column of type {column.type} holds neither labels nor segments nor groups")
    return cast_text(column, pa.string(), refusal)


def stripped(column: Any) -> Any:
    """Plain values of an Arrow column; blanks around texts do not count, as around the names of columns."""
    column = decoded(column)
    return require("pyarrow.compute", extra="cli").utf8_trim_whitespace(column) if is_text(column) else column


def to_cells(column: Any) -> list[Any]:
    """Cells of a column of segments as Python objects: floating-point numbers and times as such, all others as text."""
    pa, column = require("pyarrow", extra="cli"), decoded(column)
    # Arrow writes 0.00001 where Python, whose texts levels are, writes 1e-05, and midnight with all its zeros.
    if pa.types.is_floating(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz), safe=False).to_pylist())
    return list(to_text(column).to_pylist())


def segment_texts(cells: NDArray[Any]) -> NDArray[Any]:
    """The segment of each row as text, from its cells in the columns of segments (n, c); missing ones are `(none)`.

    Examples
    --------
    >>> segment_texts(np.array([["north", 1.0], ["", None]], dtype=object)).tolist()
    ['north, 1', '(none), (none)']
    """
    texts = [["(none)" if cell in (None, "") or cell != cell else label_text(cell) for cell in row] for row in cells]
    return np.array([", ".join(row) for row in texts], dtype=object)


def group_codes(column: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A number for each cell, equal for equal texts in whatever chunk of a table, and which cells are missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes, missing = group_codes(pa.array(["ann", "bob", "ann", None]))
    >>> bool(codes[0] == codes[2] != codes[1]), missing.tolist()
    (True, [False, False, False, True])
    """
    texts = np.array(["" if text is None else text.strip() for text in to_text(column).to_pylist()], dtype=object)
    found, places = np.unique(texts.astype(str), return_inverse=True)
    numbers = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True) for text in found]
    return np.array(numbers, dtype=np.int64)[places], texts == ""


def read_labels(column: Any) -> list[Any]:
    """Different labels of an Arrow column, without missing ones."""
    labels = stripped(column).unique().to_pylist()
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
    column, pa = stripped(column), require("pyarrow", extra="cli")
    try:
        encoded = column.dictionary_encode()  # of few labels: they alone are turned into text
    except pa.ArrowNotImplementedError:  # Arrow cannot encode nested types; `to_text` refuses them by name
        encoded = to_text(column).dictionary_encode()
    texts = to_text(encoded.dictionary).to_pylist()
    known = np.array([place.get(text, place.get(_whole(text), -1)) for text in texts] or [-1])
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(codes < 0, -1, known[codes]).astype(np.int64)


def missing_cells(column: Any) -> NDArray[np.bool_]:
    """Which cells of an Arrow column hold nothing: null, NaN or blanks.

    Examples
    --------
    >>> import pyarrow as pa
    >>> missing_cells(pa.array(["yes", " ", None])).tolist()
    [False, True, True]
    """
    texts = to_text(column).to_pylist()
    return np.array([text is None or text in ("", "nan", "NaN") for text in texts], dtype=bool)


def to_dates(column: Any) -> NDArray[np.datetime64]:
    """The days of an Arrow column of dates, times or texts that begin with a date such as 2026-03-14; else NaT.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_dates(pa.array(["2026-03-14 10:30", "2026-03", "14 March"])).tolist()
    [datetime.date(2026, 3, 14), datetime.date(2026, 3, 1), None]
    """
    pa, compute, column = require("pyarrow", extra="cli"), require("pyarrow.compute", extra="cli"), decoded(column)
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
