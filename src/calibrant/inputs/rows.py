"""What a row of predictions must be: the one set of rules and tolerances, for arrays and for files.

Probabilities are finite, lie in [0, 1] and sum to one, up to rounding; a single column is the probability of the second
of two classes. With `renormalize`, any non-negative numbers that are not all zero are accepted. Logits are finite, or
-inf for an impossible class.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.rowwise import ordered_row_sums
from calibrant.simplex import LOG_FLOOR, softmax
from calibrant.typing import AnyArray, AnyFloatArray

#: Rows whose sum is this close to one are renormalised silently: three decimals of ten classes may miss it by so much.
ROUNDING = 5e-3
#: Up to so many columns, the only row of a call is examined number by number, several times faster than by NumPy.
SHORT = 32
#: Rows from which a property that all of them share is no accident.
LEAST_ROWS = 20
#: The share of rows beyond the smallest log-probability from which logits tell nothing apart.
_NEARLY_ALL = 0.9


class Fault(NamedTuple):
    """What is wrong with a row: the kind, the column (None: the row as a whole) and the number found."""

    kind: Literal["missing", "infinite", "range", "sum", "impossible"]
    column: int | None
    value: float


def examine(
    values: AnyFloatArray, *, logits: bool = False, renormalize: bool = False, rounding: float = ROUNDING
) -> tuple[NDArray[np.bool_], AnyFloatArray | None]:
    """Which rows of `values` (n, columns) cannot be used, and the sums of the rows if they had to be computed."""
    single = values.shape[1] == 1
    if logits:
        # One maximum finds NaN, +inf and a row of nothing but -inf.
        return ~np.isfinite(np.maximum(values[:, 0], 0.0) if single else values.max(axis=1)), None
    ceiling = largest_allowed(single, renormalize, rounding)
    # False for NaN, too. The ufuncs themselves: for one row, methods of arrays take longer to call than to run.
    inside = np.minimum.reduce(values, axis=None) >= 0.0 and np.maximum.reduce(values, axis=None) <= ceiling
    if inside and not (single or renormalize):
        sums = ordered_row_sums(values)
        return ~(np.abs(sums - 1.0) <= rounding), sums
    if inside:
        wrong = np.zeros(len(values), dtype=bool)
    else:
        wrong = ~((values.min(axis=1) >= 0.0) & (values.max(axis=1) <= ceiling))
    if not single:
        with np.errstate(invalid="ignore", over="ignore"):
            usable = values.max(axis=1) > 0.0 if renormalize else np.abs(ordered_row_sums(values) - 1.0) <= rounding
        wrong |= ~usable
    return wrong, None


def total_of_one(values: AnyFloatArray, rounding: float) -> float | None:
    """The sum of the only row if it can be used, without a call of NumPy for each question; None: ask `examine`."""
    numbers = values[0].tolist()
    # NaN and infinity end up in the sum. The built-in sum rounds differently from one version of Python to the next.
    total = float(reduce(add, numbers))
    return total if abs(total - 1.0) <= rounding and min(numbers) >= 0.0 else None


def find_fault(
    row: AnyFloatArray, *, logits: bool = False, renormalize: bool = False, rounding: float = ROUNDING
) -> Fault:
    """What is wrong with one row that `examine` found."""
    numbers = [float(value) for value in row]
    single = len(numbers) == 1
    for column, value in enumerate(numbers):
        if math.isnan(value):
            return Fault("missing", column, value)
        if math.isinf(value) and (value > 0 or not logits):
            return Fault("infinite", column, value)
    if logits:
        return Fault("impossible", None, -math.inf)
    ceiling = largest_allowed(single, renormalize, rounding)
    for column, value in enumerate(numbers):
        if not 0.0 <= value <= ceiling:
            return Fault("range", column, value)
    return Fault("sum", None, math.fsum(numbers))


def first_true(wrong: NDArray[np.bool_]) -> int | None:
    """The first place where something is wrong, if there is one."""
    return int(np.argmax(wrong)) if wrong.any() else None


def largest_allowed(single: bool, renormalize: bool, rounding: float) -> float:
    """The largest number that a row may hold."""
    return float(np.finfo(np.float64).max) if renormalize and not single else 1.0 + rounding


def complete(
    values: AnyArray,
    *,
    logits: bool = False,
    sums: AnyFloatArray | None = None,
    tolerance: float = 0.0,
    out: AnyArray | None = None,
) -> AnyArray:
    """Probabilities of all classes from rows that can be used; a new array, or `values` if nothing has to be done.

    `sums` are those of the rows, if known. If no row misses one by more than `tolerance`, all stay as they are. Where
    only a division is needed, its result goes to `out`, which may be `values`.
    """
    if values.shape[1] == 1 and not logits:
        second = np.minimum(values, 1.0)
        return np.hstack([1.0 - second, second])
    if logits:
        return softmax(np.hstack([np.zeros_like(values), values]) if values.shape[1] == 1 else values)
    if sums is None:
        # Numbers as large as floats can be have no finite sum; a row is scaled by nothing but its own numbers.
        top = values.max(axis=1)
        values = values / np.where(top > 2.0, top, 1.0)[:, None]
        sums = ordered_row_sums(values)
    off = np.maximum.reduce(np.abs(sums - 1.0), initial=0.0)
    return np.divide(values, sums[:, None], out=out) if off > tolerance else values


def are_percentages(values: AnyFloatArray) -> bool:
    """Whether most rows sum to about 100; a single column must lie between 0 and 100 and reach beyond 10."""
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values) or values.min() < 0 or values.max() > 105:
        return False
    if values.shape[1] == 1:
        return bool(10 < values.max() <= 100)
    return float((np.abs(values.sum(axis=1) - 100) <= 5).mean()) >= 0.5


def whole_of_probabilities(values: AnyFloatArray) -> float:
    """What the rows of several columns sum to if they are probabilities, 1, or percentages, 100; else 0."""
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values) or values.shape[1] == 1 or values.min() < 0:
        return 0.0
    sums = values.sum(axis=1)
    return next((whole for whole in (1.0, 100.0) if (np.abs(sums / whole - 1) <= ROUNDING).mean() >= 0.99), 0.0)


def saturate(values: AnyFloatArray) -> bool:
    """Whether nearly all rows, taken as logits, would be beyond the smallest log-probability that is used."""
    values = values[np.isfinite(values).all(axis=1)].astype(np.float64)
    # Log-probabilities that were cut off there are no scores, however they were rounded.
    if values.shape[1] == 1:
        lead = np.abs(values[:, 0])
    else:
        with np.errstate(over="ignore"):  # a difference beyond all numbers is large enough
            lead = np.diff(np.partition(values, -2, axis=1)[:, -2:], axis=1)[:, 0]
    return bool(len(values)) and float((lead > 1.0 - LOG_FLOOR).mean()) >= _NEARLY_ALL


def may_be_probabilities(values: AnyFloatArray) -> bool:
    """Whether a single column of supposed logits may well hold probabilities or percentages."""
    values = values[~np.isnan(values).any(axis=1)]
    enough = len(values) >= LEAST_ROWS and values.shape[1] == 1 and values.min() >= 0
    return bool(enough and (values.max() <= 1 or are_percentages(values)))
