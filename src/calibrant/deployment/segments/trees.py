"""Trees on the columns of segments beside the log-odds: for numbers, and for columns that act together.

They are the flagship's boosted trees: one run for each fold, started from the logits that corrections by level make
without that fold, followed on it, and averaged. Questions are about log-odds of the global map, numbers, and levels.
"""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.auto.trees.ensemble import BoostingOptions
from calibrant.deployment.segments.columns import Columns, is_numeric
from calibrant.steps import Columns as PickColumns
from calibrant.steps import Join, Lead, LogOdds, Step, StepFunction

#: Small trees whose leaves move little: a leaf of forty rows at even odds goes half of its way.
OPTIONS = BoostingOptions(rounds=150, depth=3, rate=0.1, l2=10.0, columns=8, pairs=0, patience=15)
#: Columns with more levels are asked about by the number of a level, others level by level.
_MOST_LEVELS = 12
#: Of more classes the largest log-probability stands for all, and by how much it leads.
_MOST_CLASSES = 10


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
