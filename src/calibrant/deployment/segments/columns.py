"""Columns that say which segments a row belongs to: divided into levels, found again later, and corrected by steps.

A column of texts, Booleans or few different numbers has a level for each value; one of more numbers has a level for
each of its quantile bins. Missing values are a level of their own. The correction of a global map works on rows of its
log-probabilities and the numbers of segments behind them: every column's levels add intercepts and slopes, combinations
of levels theirs, and trees their steps; the sum of all with the log-probabilities goes through softmax.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibrant.bins import quantiles
from calibrant.inputs.segments import LARGEST, MISSING, segment_numbers, texts_of
from calibrant.steps import Columns as PickColumns
from calibrant.steps import Join, Lead, Levels, Linear, LogOdds, Softmax, Step, StepFunction, Sum, run
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Columns of more different numbers are cut into as many bins of about equal size: tenths, as quantiles usually are.
BINS = 10

#: Edges of bins that are closer are one.
APART = 1e-99

#: Whole numbers up to this one, and the halves between them, are exact in double precision.
_MOST_COMBINATIONS = 2**51
#: Trees ask about columns with more levels by the number of a level, about others level by level, which takes as many
#: questions.
_MOST_LEVELS = 12
#: Of more classes the largest log-probability stands for all, and by how much it leads: two questions instead of one
#: for each class.
_MOST_CLASSES = 10
#: The levels of each column by its name: texts, sorted, or the numbers between bins.
Columns = dict[str, AnyArray]


def learn_columns(frame: Mapping[str, AnyArray], weight: FloatArray | None = None) -> Columns:
    """The levels of each column; rows count as often as their `weight` says."""
    return {
        name: _edges(column, weight) if _many_numbers(column) else np.unique(np.array(texts_of(column), dtype=str))
        for name, column in frame.items()
    }


def inputs_of(columns: Columns) -> dict[str, list[str] | None]:
    """What a map has to know of the columns: the texts of levels, and which columns are numbers."""
    return {name: None if is_numeric(levels) else levels.tolist() for name, levels in columns.items()}


def level_codes(frame: Mapping[str, AnyArray], columns: Columns) -> IntArray:
    """The level of each row in each column, (n, c), -1 for one that was not there when the levels were learned."""
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


def is_numeric(levels: AnyArray) -> bool:
    """Whether these are the levels of a numeric column: the numbers between its bins."""
    return levels.dtype.kind == "f"


def count_levels(levels: AnyArray) -> int:
    """How many levels a column has: one for each text, or each bin and one for missing numbers."""
    return len(levels) + 2 if is_numeric(levels) else len(levels)


def level_name(name: str, levels: AnyArray, code: int) -> str:
    if not is_numeric(levels):
        return f"{name} = {levels[code]}" if levels[code] else f"{name} missing"
    if code > len(levels):
        return f"{name} missing"
    if code == 0:
        return f"{name} below {levels[0]:g}"
    return f"{name} from {levels[code - 1]:g}" + (f" to {levels[code]:g}" if code < len(levels) else "")


def _many_numbers(column: AnyArray) -> bool:
    if column.dtype.kind not in "fiu":
        return False
    different = np.unique(column)
    return int(np.isfinite(different).sum()) > BINS


def _edges(column: AnyArray, weight: FloatArray | None) -> FloatArray:
    known = np.isfinite(column)
    finite = np.clip(column[known].astype(np.float64), -LARGEST, LARGEST)
    edges = np.unique(quantiles(finite, None if weight is None else weight[known], np.arange(1, BINS) / BINS))
    return edges[np.diff(edges, prepend=-np.inf) > APART]


def cell_steps(columns: Columns, cells: IntArray, first: int) -> list[Step]:
    """Steps that make the combination of levels of a row, as its row in the sorted `cells`; -1 if it is not there."""
    # The digits of one number are the levels, from 1 on: an unknown level is the digit 0.
    sizes = [count_levels(levels) + 1 for levels in columns.values()]
    place = [1]
    for size in sizes[:0:-1]:
        place.insert(0, place[0] * size)
    if place[0] * sizes[0] > _MOST_COMBINATIONS:
        raise ValueError(
            f"crossed=True: the columns of segments have {place[0] * sizes[0]:.0e} combinations of levels, too many to "
            "number. Leave out columns or crossed=True: trees use combinations anyway."
        )
    worth = np.array(place)
    numbers = (cells + 1) @ worth
    edges = np.unique(np.concatenate([numbers - 0.5, numbers + 0.5]))
    values = np.full(len(edges) + 1, -1.0)
    values[np.searchsorted(edges, numbers)] = np.arange(len(cells))
    digits = Linear(worth[:, None].astype(np.float64), np.array([float(worth.sum())]))
    return [Join(level_steps(columns, first)), digits, StepFunction(edges, values)]


def correction_steps(
    columns: Columns,
    cells: IntArray,
    intercept: FloatArray,
    slope: FloatArray,
    trees: list[Step],
) -> list[Step]:
    """Steps that make corrected probabilities of rows of probabilities and numbers of segments, after the global map.

    `intercept` and `slope` (levels, k) are those of all levels, column after column, and of `cells`; `trees` none or
    one step.
    """
    k = intercept.shape[1]
    z = [PickColumns(np.arange(k))]
    parts: list[list[Step]] = [list(z)]
    codes = list(level_steps(columns, k)) + ([cell_steps(columns, cells, k)] if len(cells) else [])
    start = 0
    for code, size in zip(codes, [*map(count_levels, columns.values()), len(cells)]):
        own = slice(start, start + size)
        if intercept[own].any() or slope[own].any():
            parts.append([Join((z, code)), Levels(intercept[own], slope[own])])
        start += size
    if trees:
        parts.append(_where_known(columns, k, [question_steps(columns, k), *trees]))
    return [Sum(tuple(parts)), Softmax()]


def question_steps(columns: Columns, k: int) -> Step:
    """What makes the columns that trees ask about, of rows of `k` log-probabilities and the numbers of segments."""
    z = PickColumns(np.arange(k))
    parts: list[list[Step]] = [[z, LogOdds()] if k == 2 else [z] if k <= _MOST_CLASSES else [z, Lead()]]
    for j, levels in enumerate(columns.values()):
        number = PickColumns(np.array([k + j]))
        if is_numeric(levels) or len(levels) in (1, 2) or len(levels) > _MOST_LEVELS:
            parts.append([number])
        else:
            for level in range(len(levels)):
                is_level = StepFunction(np.array([level - 0.5, level + 0.5]), np.array([0.0, 1.0, 0.0]))
                parts.append([number, is_level])
    return Join(tuple(parts))


def _where_known(columns: Columns, k: int, steps: list[Step]) -> list[Step]:
    """`steps`, but zero in a row with a level that was not there in the fit: trees know nothing of it."""
    texts = [k + j for j, levels in enumerate(columns.values()) if not is_numeric(levels)]
    if not texts:
        return steps
    known: list[Step] = [
        Join(tuple([PickColumns(np.array([j])), StepFunction(np.array([-0.5]), np.array([0.0, 1.0]))] for j in texts)),
        Linear(np.ones((len(texts), 1))),
        StepFunction(np.array([len(texts) - 0.5]), np.array([-1.0, 0.0])),
    ]
    return [Join((steps, known)), Levels(np.zeros((1, k)), np.ones((1, k)))]
