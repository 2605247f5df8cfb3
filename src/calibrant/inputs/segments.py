"""The segment of a row, as numbers: columns of frames, mappings or arrays, one number for each row.

Of a column with levels it is the place of the row's level among them, -1 for another one; of a column of numbers it is
the number itself. Missing values are the empty text, or `MISSING`.

Levels are texts, and every value has one (`texts_of`): numbers have no redundant zeros (3, 2.5), whatever their
type, Booleans are True and False, midnight is its date, and texts are unchanged. A value belongs to the level
of the same text; if there is none, to the only level that spells the same number, Boolean or date (`places_of`). So 7
and 7.00 find the level "007" of codes, and "007" the level 7 of numbers, while "007" and "7" are two levels where fit
saw both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from calibrant.inputs.predictions import to_numpy
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, FloatArray

#: How missing values are written, all of which become the empty text.
MISSING_TEXTS = ("", "None", "nan", "NaN", "NaT", "<NA>")
#: What stands for a missing number, and the largest size of one that is not missing.
MISSING, LARGEST = -1e100, 1e99

#: How other programs spell a Boolean, and midnight of a date.
_BOOLEANS = (("True", "true", "TRUE"), ("False", "false", "FALSE"))
_MIDNIGHTS = ("", " 00:00:00", "T00:00:00", " 00:00:00.000")
#: Of so many rows at least this share should have a known level, or there is a warning.
_ROWS, _SHARE = 20, 0.1
#: Levels that a warning names.
_NAMED = 5

#: The columns that a map needs, by name: levels, or None for numbers.
SegmentInputs = Mapping[str, "Sequence[str] | None"]


def read_segments(segments: Any, n: int) -> dict[str, AnyArray]:
    """The columns of a frame, a mapping, a series or an array, with a value for each of `n` rows."""
    is_frame = hasattr(segments, "columns") and hasattr(segments, "to_numpy")
    if is_frame or isinstance(segments, Mapping):
        names = list(segments.columns if is_frame else segments)
        texts = [str(name) for name in names]
        twice = [text for text in texts if texts.count(text) > 1]
        if twice:
            raise ValueError(f"segments has several columns called {twice[0]!r}: give each a name of its own.")
        found = {text: _column(segments[name]) for text, name in zip(texts, names)}
    else:
        array = _column(segments)
        if array.ndim == 2:
            found = {str(number): _numbers_of_objects(column) for number, column in enumerate(array.T)}
        else:
            found = {str(getattr(segments, "name", None) or "segment"): array}
    if not found:
        raise ValueError("segments has no columns: give at least one with the segment of each row.")
    for name, column in found.items():
        if column.shape != (n,):
            raise ValueError(
                f"The column {name!r} of segments has shape {column.shape}, expected ({n},): one value for each row "
                "of the predictions."
            )
    return found


def _column(values: object) -> AnyArray:
    """One column, or several; categories are texts, as they are levels and no numbers."""
    array = to_numpy(values, "segments")
    if str(getattr(values, "dtype", "")) == "category":
        return np.array(texts_of(array), dtype=object)
    return _numbers_of_objects(array) if array.ndim == 1 else array


def _numbers_of_objects(array: AnyArray) -> AnyArray:
    """Decimal and other numbers that NumPy holds as objects, missing ones among them, in double precision."""
    if array.dtype.kind != "O":
        return array
    numbers = np.empty(len(array))
    for row, value in enumerate(array.tolist()):
        if isinstance(value, (int, float, Decimal, np.integer, np.floating)) and not isinstance(value, bool):
            numbers[row] = float(_text(value) or np.nan)  # single precision by its own digits
            if not isinstance(value, float) and abs(numbers[row]) > 2.0**53:
                return array
        elif not _text(value) and not isinstance(value, str):
            numbers[row] = np.nan
        else:
            return array
    return array if np.isnan(numbers).all() else numbers


def segment_numbers(frame: Mapping[str, AnyArray], inputs: SegmentInputs) -> FloatArray:
    """The numbers (n, columns) of what `read_segments` gives."""
    absent = [name for name in inputs if name not in frame]
    if absent:
        raise ValueError(
            f"segments lacks the column {absent[0]!r}: it has {list_names(frame)}, but fit had {list_names(inputs)}."
        )
    columns = []
    for name, levels in inputs.items():
        if levels is None:
            values = _numbers(frame[name], name)
            columns.append(np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), MISSING))
        else:
            texts, place = texts_of(frame[name]), places_of(levels)
            known = {text: place.get(text, place.get(plain_number(text) or text, -1)) for text in set(texts)}
            columns.append(np.array([known[text] for text in texts], dtype=np.float64))
    return np.column_stack(columns)


def places_of(levels: Sequence[str]) -> dict[str, int]:
    """The place of each level, by its text and by how other programs spell it: as a number, a Boolean or a date.

    What is no key itself has the place of its `plain_number`, if that is one. A spelling of several levels, none of
    which is spelled so, is left out.
    """
    place = {text: code for code, text in enumerate(levels)}
    spelled: dict[str, set[int]] = {}
    for code, level in enumerate(levels):
        for text in _spellings(level):
            spelled.setdefault(text, set()).add(code)
    for text, codes in spelled.items():
        if len(codes) == 1:
            place.setdefault(text, codes.pop())
    return place


def _spellings(level: str) -> Iterable[str]:
    if re.fullmatch(r"-?[0-9.]+e[-+]?[0-9]+", level):  # as Python writes small and large numbers
        level = format(Decimal(level), "f")
    if number := plain_number(level):
        return (number,)
    if date := re.fullmatch(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})({'|'.join(map(re.escape, _MIDNIGHTS))})", level):
        return [date[1] + midnight for midnight in _MIDNIGHTS]
    return next((texts for texts in _BOOLEANS if level in texts), ())


def plain_number(text: str) -> str:
    """A number without exponent and needless zeros; the empty text if it is not a number."""
    whole, _, part = text.removeprefix("-").partition(".")
    if not (text.isascii() and (whole + part).isdigit()):
        return ""
    whole, part = whole.lstrip("0"), part.rstrip("0")
    sign = "-" if text.startswith("-") and whole + part else ""
    return f"{sign}{whole or '0'}{'.' if part else ''}{part}"


def texts_of(column: AnyArray) -> list[str]:
    """The values of a column as texts: numbers without needless zeros, and the empty text for missing values.

    Zero characters at the end are left out, as NumPy's own texts leave them out: levels are found again in any array.
    """
    if column.dtype.kind in "mM":  # of nanoseconds NumPy makes whole numbers
        column = column.astype(f"{column.dtype.kind}8[us]")
    if column.dtype.kind == "f" and column.dtype.itemsize < 8:
        return [_text(value) for value in column]
    return [_text(value) for value in column.tolist()]


def _text(value: object) -> str:
    if isinstance(value, str):
        text = value.rstrip("\0")
    elif isinstance(value, datetime):
        text = str(value).removesuffix(_MIDNIGHTS[1])
    else:
        if isinstance(value, np.floating):  # by its own digits: single precision has no 0.1, but writes it so
            value = float(str(value))
        elif isinstance(value, Decimal):
            whole = value.is_finite() and abs(value) < 1e30 and value == value.to_integral_value()
            value = int(value) if whole else np.nan if value.is_nan() else float(value)
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return "" if text in MISSING_TEXTS else text


def numbers_if_all_are(cells: AnyArray, few: int) -> AnyArray:
    """Cells of a file as numbers if all that are not missing are such; codes with a zero in front stay texts.

    So do numbers in another spelling, as 1E5, if there are no more than `few`: levels are found by that spelling.
    """
    texts = texts_of(cells)
    try:
        numbers = np.array([float(text or np.nan) for text in texts])
    except ValueError:
        return cells
    odd = any(isinstance(cell, str) and text and not plain_number(text) for cell, text in zip(cells.tolist(), texts))
    if any(re.match("-?0[0-9]", text) for text in texts) or (odd and len(np.unique(numbers)) <= few):
        return cells
    return numbers


@dataclass
class SeenLevels:
    """Counts, batch by batch, the rows whose levels are known from `fit`, and keeps some of the other levels."""

    inputs: SegmentInputs
    rows: int = 0
    known: dict[str, int] = field(default_factory=dict)
    others: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, frame: Mapping[str, AnyArray], numbers: FloatArray | None = None) -> None:
        """Count the rows of a frame, whose `segment_numbers` may be known already."""
        numbers = segment_numbers(frame, self.inputs) if numbers is None else numbers
        self.rows += len(numbers)
        for (name, levels), column in zip(self.inputs.items(), numbers.T):
            if levels is not None:
                unknown = column < 0.0
                self.known[name] = self.known.get(name, 0) + int((~unknown).sum())
                others = self.others.setdefault(name, {})
                if len(others) <= _NAMED and unknown.any():
                    others.update(dict.fromkeys(texts_of(frame[name][unknown][:1000])))

    def notes(self) -> list[str]:
        """A sentence about each column in which hardly any row has a known level."""
        return [
            (f"Only {known:,}" if known else "None")
            + f" of {self.rows:,} rows {'have' if known > 1 else 'has'} a known level of "
            f"{name!r}: the global map is used{' for the others' if known else ''}. "
            f"Found: {_some(self.others[name])}. Known: {_some(self.inputs[name] or ())}."
            for name, known in self.known.items()
            if self.rows >= _ROWS and known < _SHARE * self.rows
        ]


def _some(levels: Iterable[str]) -> str:
    """The first few levels, quoted."""
    every = [repr(level if len(level) <= 40 else f"{level[:37]}...") if level else "missing" for level in levels]
    return ", ".join(every[:_NAMED]) + (" and others" if len(every) > _NAMED else "")


def _numbers(column: AnyArray, name: str) -> FloatArray:
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
