"""Columns that say which segments a row belongs to: read from frames, divided into levels, found again later.

A column of texts, Booleans or few different numbers has a level for each value; one of more numbers has a level for
each of its quantile bins. Missing values are a level of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import to_numpy
from calibrant.typing import FloatArray, IntArray

#: Columns of more different numbers are cut into as many bins of about equal size.
BINS = 10
#: How missing values are written, all of which become the empty text.
_MISSING = frozenset(["", "None", "nan", "NaN", "NaT", "<NA>"])

#: The levels of each column by its name: texts, sorted, or the numbers between bins.
Columns = dict[str, NDArray[Any]]


def read_segments(segments: Any, n: int) -> dict[str, NDArray[Any]]:
    """The columns of a frame, a mapping, a series or an array, with a value for each of `n` rows.

    Examples
    --------
    >>> read_segments(["north", "south"], 2)
    {'segment': array(['north', 'south'], dtype='<U5')}
    """
    is_frame = hasattr(segments, "columns") and hasattr(segments, "to_numpy")
    if is_frame or isinstance(segments, Mapping):
        names = list(segments.columns if is_frame else segments)
        texts = [str(name) for name in names]
        twice = [text for text in texts if texts.count(text) > 1]
        if twice:
            raise ValueError(f"segments has several columns of the name {twice[0]!r}: give each a name of its own.")
        found = {text: to_numpy(segments[name], "segments") for text, name in zip(texts, names)}
    else:
        array = to_numpy(segments, "segments")
        if array.ndim == 2:
            found = {str(number): column for number, column in enumerate(array.T)}
        else:
            found = {str(getattr(segments, "name", None) or "segment"): array}
    if not found:
        raise ValueError("segments has no columns: give at least one that tells the segment of each row.")
    for name, column in found.items():
        if column.shape != (n,):
            raise ValueError(
                f"The column {name!r} of segments has shape {column.shape}, expected ({n},): one value for each row "
                "of the predictions."
            )
    return found


def learn_columns(frame: Mapping[str, NDArray[Any]]) -> Columns:
    """The levels of each column.

    Examples
    --------
    >>> learn_columns({"region": np.array(["b", "a", "b"]), "age": np.arange(20.0)})["age"].round(1).tolist()
    [1.9, 3.8, 5.7, 7.6, 9.5, 11.4, 13.3, 15.2, 17.1]
    """
    return {
        name: _edges(column) if _many_numbers(column) else np.unique(_texts(column)) for name, column in frame.items()
    }


def level_codes(frame: Mapping[str, NDArray[Any]], columns: Columns) -> IntArray:
    """The level of each row in each column, (n, c), -1 for one that was not there when the levels were learned.

    Examples
    --------
    >>> level_codes({"region": np.array(["b", "c"])}, {"region": np.array(["a", "b"])}).tolist()
    [[1], [-1]]
    """
    absent = [name for name in columns if name not in frame]
    if absent:
        raise ValueError(f"segments lacks the column {absent[0]!r}: it has {list(frame)}, fit saw {list(columns)}.")
    codes = []
    for name, levels in columns.items():
        if is_numeric(levels):
            values = as_numbers(frame[name], name)
            code = np.searchsorted(levels, values, side="right")
            codes.append(np.where(np.isnan(values), len(levels) + 1, code))
        else:
            texts = _texts(frame[name])
            code = np.minimum(np.searchsorted(levels, texts), len(levels) - 1)
            codes.append(np.where(levels[code] == texts, code, -1))
    return np.column_stack(codes).astype(np.int64)


def is_numeric(levels: NDArray[Any]) -> bool:
    """Whether these are the levels of a numeric column: the numbers between its bins."""
    return levels.dtype.kind == "f"


def count_levels(levels: NDArray[Any]) -> int:
    """How many levels a column has: one for each text, or each bin and one for missing numbers."""
    return len(levels) + 2 if is_numeric(levels) else len(levels)


def level_name(name: str, levels: NDArray[Any], code: int) -> str:
    """A level in words.

    Examples
    --------
    >>> level_name("age", np.array([20.0, 30.0]), 1), level_name("region", np.array(["north"]), 0)
    ('age from 20 to 30', 'region = north')
    """
    if not is_numeric(levels):
        return f"{name} = {levels[code]}" if levels[code] else f"{name} missing"
    if code > len(levels):
        return f"{name} missing"
    if code == 0:
        return f"{name} below {levels[0]:g}"
    return f"{name} from {levels[code - 1]:g}" + (f" to {levels[code]:g}" if code < len(levels) else "")


def as_numbers(column: NDArray[Any], name: str) -> FloatArray:
    """The values of a numeric column, NaN where they are missing.

    Examples
    --------
    >>> as_numbers(np.array(["3", "", "1.5"]), "age")
    array([3. , nan, 1.5])
    """
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    numbers = np.empty(len(column))
    for row, text in enumerate(_texts(column).tolist()):
        try:
            numbers[row] = float(text) if text else np.nan
        except ValueError:
            raise ValueError(
                f"The column {name!r} of segments held numbers in fit, now {text!r} at row {row}."
            ) from None
    return numbers


def cells_of(codes: IntArray) -> IntArray:
    """The different combinations of known levels, (m, c)."""
    return np.unique(codes[(codes >= 0).all(axis=1)], axis=0)


def cell_codes(codes: IntArray, cells: IntArray) -> IntArray:
    """The combination of levels of each row, as its row in `cells`; -1 for one that is not there.

    Examples
    --------
    >>> cell_codes(np.array([[0, 1], [1, 1], [-1, 0]]), np.array([[0, 0], [0, 1]])).tolist()
    [1, -1, -1]
    """
    known = {tuple(cell): number for number, cell in enumerate(cells.tolist())}
    different, place = np.unique(codes, axis=0, return_inverse=True)
    return np.array([known.get(tuple(cell), -1) for cell in different.tolist()], dtype=np.int64)[place.ravel()]


def _many_numbers(column: NDArray[Any]) -> bool:
    if column.dtype.kind not in "fiu":
        return False
    different = np.unique(column)
    return int(np.isfinite(different).sum()) > BINS


def _edges(column: NDArray[Any]) -> FloatArray:
    finite = column[np.isfinite(column)].astype(np.float64)
    return np.unique(np.quantile(finite, np.arange(1, BINS) / BINS))


def _texts(column: NDArray[Any]) -> NDArray[Any]:
    return np.array([_text(value) for value in column.tolist()], dtype=str)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # whole numbers beside missing ones
        return str(int(value))
    text = str(value)
    return "" if text in _MISSING else text
