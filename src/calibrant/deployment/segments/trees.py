"""Trees on the columns of segments beside the log-odds: for numbers, and for columns that act together.

They are the flagship's boosted trees: one run for each fold, started from the logits that corrections by level make
without that fold, followed on it, and averaged. Questions are about log-odds of the global map, numbers, and levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.auto.trees.ensemble import BoostingOptions
from calibrant.calibrators.state import LARGE
from calibrant.deployment.segments.columns import Columns, as_numbers, is_numeric
from calibrant.typing import FloatArray, IntArray

#: Small trees whose leaves move little: a leaf of forty rows at even odds goes half of its way.
OPTIONS = BoostingOptions(rounds=150, depth=3, rate=0.1, l2=10.0, columns=8, pairs=0, patience=15)
#: Columns with more levels are asked about by the number of a level, others level by level.
_MOST_LEVELS = 12
#: Of more classes the largest log-probability stands for all, and by how much it leads.
_MOST_CLASSES = 10


def n_tree_columns(columns: Columns, k: int) -> int:
    """How many columns the questions of trees can be about."""
    return len(tree_columns(np.zeros((0, k)), {name: np.empty(0) for name in columns}, _no_codes(columns), columns))


def tree_columns(z: FloatArray, frame: Mapping[str, NDArray[Any]], codes: IntArray, columns: Columns) -> FloatArray:
    """What trees ask about, (columns, n), for log-probabilities `z` (n, k) and the level `codes` (n, c) of each row."""
    k = z.shape[1]
    if k == 2:
        found = [z[:, 1] - z[:, 0]]
    elif k <= _MOST_CLASSES:
        found = list(z.T)
    else:
        largest = np.partition(z, k - 2, axis=1)
        found = [largest[:, -1], largest[:, -1] - largest[:, -2]]
    for code, (name, levels) in zip(codes.T, columns.items()):
        if is_numeric(levels):
            values = as_numbers(frame[name], name)
            found.append(np.clip(np.where(np.isnan(values), -LARGE, values), -LARGE, LARGE))
        elif len(levels) in (1, 2) or len(levels) > _MOST_LEVELS:
            found.append(code.astype(np.float64))
        else:
            found += [(code == level).astype(np.float64) for level in range(len(levels))]
    return np.ascontiguousarray(found)


def _no_codes(columns: Columns) -> IntArray:
    return np.empty((0, len(columns)), dtype=np.int64)
