"""What tells the segment of a row, as numbers: columns of frames, mappings or arrays, one number for each row.

Of a column with levels it is the place of the row's text among them, -1 for another text; of a column of numbers it is
the number itself. Missing values are the empty text, or `MISSING`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import to_numpy
from calibrant.typing import FloatArray

#: How missing values are written, all of which become the empty text.
MISSING_TEXTS = ("", "None", "nan", "NaN", "NaT", "<NA>")
#: What stands for a missing number, and the largest size of one that is not missing.
MISSING, LARGEST = -1e100, 1e99

#: The columns that a map needs, by name: levels, or None for numbers.
SegmentInputs = Mapping[str, "Sequence[str] | None"]


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


def segment_numbers(frame: Mapping[str, NDArray[Any]], inputs: SegmentInputs) -> FloatArray:
    """The numbers (n, columns) of what `read_segments` gives.

    Examples
    --------
    >>> frame = {"region": np.array(["b", "c"]), "age": np.array([31.0, np.nan])}
    >>> segment_numbers(frame, {"region": ["a", "b"], "age": None}).tolist()
    [[1.0, 31.0], [-1.0, -1e+100]]
    """
    absent = [name for name in inputs if name not in frame]
    if absent:
        raise ValueError(f"segments lacks the column {absent[0]!r}: it has {list(frame)}, fit saw {list(inputs)}.")
    columns = []
    for name, levels in inputs.items():
        if levels is None:
            values = _numbers(frame[name], name)
            columns.append(np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), MISSING))
        else:
            place = places_of(levels)
            columns.append(np.array([place.get(text, -1) for text in texts_of(frame[name])], dtype=np.float64))
    return np.column_stack(columns)


def places_of(levels: Sequence[str]) -> dict[str, int]:
    """The place of each level, by its text and by how other programs spell that: whole numbers with decimals, Booleans.

    A file with missing values holds 3.0 where another one holds 3.

    Examples
    --------
    >>> places_of(["3", "True", "north"])
    {'3': 0, 'True': 1, 'north': 2, '3.0': 0, 'true': 1}
    >>> places_of(["3", "3.0"])
    {'3': 0, '3.0': 1}
    """
    place = {text: code for code, text in enumerate(levels)}
    for code, level in enumerate(levels):
        if re.fullmatch("-?[0-9]+", level):
            place.setdefault(f"{level}.0", code)
        elif level in ("True", "False"):
            place.setdefault(level.lower(), code)
    return place


def texts_of(column: NDArray[Any]) -> list[str]:
    """The values of a column as texts, whole numbers without decimals and the empty text for what is missing.

    Zero characters at the end are left out, as NumPy's own texts leave them out: levels are found again in any array.

    Examples
    --------
    >>> texts_of(np.array([1.0, np.nan, 2.5]))
    ['1', '', '2.5']
    """
    return [_text(value) for value in column.tolist()]


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # whole numbers beside missing ones
        return str(int(value))
    text = str(value).rstrip("\0")
    return "" if text in MISSING_TEXTS else text


def _numbers(column: NDArray[Any], name: str) -> FloatArray:
    """The values of a column of numbers, NaN where they are missing."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    numbers = np.empty(len(column))
    for row, text in enumerate(texts_of(column)):
        try:
            numbers[row] = float(text) if text else np.nan
        except ValueError:
            raise ValueError(
                f"The column {name!r} of segments held numbers in fit, now {text!r} at row {row}."
            ) from None
    return numbers
