"""Columns that say which segments a row belongs to: divided into levels, found again later.

A column of texts, Booleans or few different numbers has a level for each value; one of more numbers has a level for
each of its quantile bins. Missing values are a level of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.bins import quantiles
from calibrant.inputs.segments import LARGEST, MISSING, segment_numbers, texts_of
from calibrant.steps import Columns as PickColumns
from calibrant.steps import Join, Step, StepFunction, run
from calibrant.typing import FloatArray, IntArray

#: Columns of more different numbers are cut into as many bins of about equal size.
BINS = 10

#: Edges of bins that are closer are one.
APART = 1e-99

#: The levels of each column by its name: texts, sorted, or the numbers between bins.
Columns = dict[str, NDArray[Any]]


def learn_columns(frame: Mapping[str, NDArray[Any]], weight: FloatArray | None = None) -> Columns:
    """The levels of each column; rows count as often as their `weight` says.

    Examples
    --------
    >>> learn_columns({"region": np.array(["b", "a", "b"]), "age": np.arange(20.0)})["age"].round(1).tolist()
    [1.9, 3.8, 5.7, 7.6, 9.5, 11.4, 13.3, 15.2, 17.1]
    """
    return {
        name: _edges(column, weight) if _many_numbers(column) else np.unique(np.array(texts_of(column), dtype=str))
        for name, column in frame.items()
    }


def inputs_of(columns: Columns) -> dict[str, list[str] | None]:
    """What a map has to know of the columns: the texts of levels, and which columns are numbers."""
    return {name: None if is_numeric(levels) else levels.tolist() for name, levels in columns.items()}


def level_codes(frame: Mapping[str, NDArray[Any]], columns: Columns) -> IntArray:
    """The level of each row in each column, (n, c), -1 for one that was not there when the levels were learned.

    Examples
    --------
    >>> level_codes({"region": np.array(["b", "c"])}, {"region": np.array(["a", "b"])}).tolist()
    [[1], [-1]]
    """
    numbers = segment_numbers(frame, inputs_of(columns))
    return run([Join(level_steps(columns, 0))], numbers).astype(np.int64)


def level_steps(columns: Columns, first: int) -> tuple[list[Step], ...]:
    """Steps that make the level of each column of a row whose numbers of segments start at column `first`."""
    return tuple(
        [PickColumns(np.array([first + j])), *([_bins(levels)] if is_numeric(levels) else [])]
        for j, levels in enumerate(columns.values())
    )


def _bins(edges: FloatArray) -> StepFunction:
    """The bin of a number, each with its left end; missing numbers come after the last bin."""
    # A step function counts edges below a number: so that it counts equal ones, too, edges are a last digit lower.
    lower = np.concatenate([[(MISSING - LARGEST) / 2.0], np.nextafter(edges, -np.inf)])
    return StepFunction(lower, np.array([len(edges) + 1.0, *range(len(edges) + 1)]))


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


def _many_numbers(column: NDArray[Any]) -> bool:
    if column.dtype.kind not in "fiu":
        return False
    different = np.unique(column)
    return int(np.isfinite(different).sum()) > BINS


def _edges(column: NDArray[Any], weight: FloatArray | None) -> FloatArray:
    known = np.isfinite(column)
    finite = np.clip(column[known].astype(np.float64), -LARGEST, LARGEST)
    edges = np.unique(quantiles(finite, None if weight is None else weight[known], np.arange(1, BINS) / BINS))
    return edges[np.diff(edges, prepend=-np.inf) > APART]
