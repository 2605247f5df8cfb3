"""Migration: how the grades of the same obligors differ between two periods.

With `n_ij` observations that went from grade `i` to grade `j` of `m`, the upper bandwidth of the European Central Bank
is `Σ_{i<j} (j - i) n_ij / Σ_{i<j} max(m - i, i - 1) n_ij`, the share of the possible distance that those who got worse
moved; the lower one is the same for those who got better. The population stability index is
`Σ (a_j - b_j) log(a_j / b_j)` over the shares of the grades after and before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.tabular import Tabular
from calibrant.numerals import count, p_text, percent
from calibrant.sample import Sample
from calibrant.typing import FloatArray


@dataclass(frozen=True, repr=False)
class Migration(Tabular):
    """Grades before and after.

    Attributes
    ----------
    grades : tuple of str
    counts : ndarray of shape (m, m)
        Observations by grade before (rows) and after (columns).
    stayed, better, worse : float
        Shares that stayed, and that moved to a better or to a worse grade.
    p_value : float
        Of the hypothesis that moves to better and to worse grades are equally likely, exact.
    upper_bandwidth, lower_bandwidth : float
        How far those who got worse, and better, moved, as a share of what was possible; NaN if none did.
    stability_index : float
        Population stability index; an empty grade counts as half an observation. Without any change it is about
        `(m - 1) (1 / n_before + 1 / n_after)`.
    """

    grades: tuple[str, ...]
    counts: FloatArray
    stayed: float
    better: float
    worse: float
    p_value: float
    upper_bandwidth: float
    lower_bandwidth: float
    stability_index: float

    def __repr__(self) -> str:
        total = count(float(self.counts.sum()))
        said = f"{total} observations in two periods: {percent(self.stayed)} stayed in their grade"
        if self.stayed >= 1.0:
            return f"{said}; nobody moved."
        direction = "no evidence of a direction" if self.p_value > 0.05 else "more than chance makes of it"
        return (
            f"{said}; {percent(self.better)} moved to a better grade and {percent(self.worse)} to a worse one "
            f"({p_text(self.p_value)}: {direction})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table: the grade before, and one column per grade after."""
        return {"before": np.array(self.grades), **dict(zip(self.grades, self.counts.T))}


def measure_migration(grades: tuple[str, ...], before: Any, after: Any, data: Sample) -> Migration:
    """Migration between grades given by number; `data` says what the rows count for and which belong together."""
    m = len(grades)
    counts = np.bincount(before * m + after, data.each, minlength=m * m).reshape(m, m).astype(np.float64)
    total, place = counts.sum(), np.arange(m)
    distance = place[None, :] - place[:, None]
    possible = np.maximum(m - 1 - place, place)[:, None] * np.ones(m)

    def bandwidth(chosen: Any) -> float:
        farthest = float((possible * counts)[chosen].sum())
        return float((np.abs(distance) * counts)[chosen].sum()) / farthest if farthest else float("nan")

    moved, p_value = np.flatnonzero(before != after), 1.0
    if len(moved):
        up = (after > before)[moved].astype(np.intp)
        coins = data.take(moved).with_values(np.full((len(moved), 2), 0.5), logs=False, y=up)
        p_value = float(class_frequencies(coins).p_value[1])
    now, then = (np.maximum(counts.sum(axis=axis), 0.5) for axis in (0, 1))
    now, then = now / now.sum(), then / then.sum()
    stayed, better, worse = (float(counts[at].sum() / total) for at in (distance == 0, distance < 0, distance > 0))
    widths = bandwidth(distance > 0), bandwidth(distance < 0)
    index = float(np.sum((now - then) * np.log(now / then)))
    return Migration(grades, counts, stayed, better, worse, p_value, widths[0], widths[1], index)
