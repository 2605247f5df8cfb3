"""The input contract for groups of rows that depend on each other: patients, documents, days."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.inputs.predictions import to_numpy
from calibrant.sample import consecutive_blocks
from calibrant.typing import IntArray


def check_groups(groups: Any, blocks: int | None, n: int) -> IntArray | None:
    """A group number for each of `n` rows; `None` if every row is a group of its own.

    >>> check_groups(["b", "a", "b"], None, 3).tolist()
    [1, 0, 1]
    """
    if groups is None:
        return None if blocks is None or blocks == 1 else consecutive_blocks(n, blocks)
    if blocks is not None:
        raise ValueError("groups and blocks are given; they say the same thing in two ways: give one of them.")
    values = to_numpy(groups, "groups")
    if values.shape != (n,):
        raise ValueError(f"groups has shape {values.shape}, expected ({n},): one group per row.")
    missing = _missing(values)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"groups holds no value at row {row}: every row needs a group, its own if it stands alone.")
    found, numbers = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
    return None if len(found) == n else np.asarray(numbers, dtype=np.int64)


def _missing(values: Any) -> Any:
    """Where there is no value: NaN, NaT, None or pandas' NA are not equal to themselves or not comparable."""
    if values.dtype.kind in "fcmM":
        return values != values
    if values.dtype.kind == "O":
        return np.array([value is None or type(value).__name__ == "NAType" or value != value for value in values])
    return np.zeros(len(values), dtype=bool)
