"""Calibration by segment: whether each class occurs as often as predicted in every part of the rows.

In segment g with n_g rows, class j is off by ``d_gj``, the mean of ``1[y = j] - p_j``. If labels follow predictions,
``d_gj²`` is still ``v_gj = Σ p_j (1 - p_j) / n_g²`` in the mean. The multicalibration error
``√ Σ_g n_g / n Σ_j (d_gj² - v_gj)`` leaves that noise out: small segments do not look bad because they are small. Where
rows depend on each other inside groups, ``v_gj`` is multiplied by the design effect of its count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix, to_numpy
from calibrant.inputs.samples import check_sample
from calibrant.metrics.counts import design_effects
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.tabular import Tabular
from calibrant.threads import limited
from calibrant.typing import FloatArray


@dataclass(frozen=True)
class SegmentCalibration(Tabular):
    """Calibration in the large of every segment.

    Attributes
    ----------
    segments : tuple
        The segments, largest first.
    classes : tuple
        Labels, in the order of the columns.
    rows : ndarray of shape (m,)
        Observations of each segment.
    predicted, observed : ndarray of shape (m, k)
        Mean probability and frequency of each class in each segment.
    p_value : ndarray of shape (m,)
        Probability of a difference as large as the surest of a segment's classes if the predictions were calibrated
        and rows (or groups, if given) are independent: the exact test of `calibration_in_the_large`, with Bonferroni's
        correction for the classes (not for the segments). Conservative where few cases are expected.
    error : float
        Multicalibration error: root mean square of the differences, less what chance alone makes of it; 0 if that is
        more.

    Examples
    --------
    >>> from calibrant.metrics import segment_calibration
    >>> found = segment_calibration([0, 1, 1, 1], [0.5] * 4, ["north", "north", "south", "south"])
    >>> found.segments, found.to_dict()["observed"]
    (('north', 'south'), array([0.5, 0.5, 0. , 1. ]))
    """

    segments: tuple[Any, ...]
    classes: tuple[Any, ...]
    rows: FloatArray
    predicted: FloatArray
    observed: FloatArray
    p_value: FloatArray
    error: float

    @property
    def worst(self) -> Any:
        """The segment whose differences chance explains least."""
        return self.segments[int(np.argmin(self.p_value))]

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table, one row per segment and class."""
        m, k = self.predicted.shape
        return {
            "segment": np.repeat(np.array(self.segments, dtype=object), k),
            "class": np.tile(np.array(self.classes, dtype=object), m),
            "rows": np.repeat(self.rows, k),
            "predicted": self.predicted.ravel(),
            "observed": self.observed.ravel(),
            "p_value": np.repeat(self.p_value, k),
        }


@limited
@describe_parameters
def segment_calibration(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    segments: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Any] | None = None,
) -> SegmentCalibration:
    """Calibration in the large of every segment, the worst of them, and the multicalibration error.

    P-values hold if rows are independent, or groups if `groups` or `blocks` are given.

    Parameters
    ----------
    segments : array-like of shape (n,)
        The segment of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import segment_calibration
    >>> rng = np.random.default_rng(0)
    >>> p, region = rng.random(6000), rng.choice(["north", "south", "west"], 6000)
    >>> y = rng.random(6000) < np.where(region == "west", 0.8 * p, p)
    >>> found = segment_calibration(y, p, region)
    >>> found.worst, round(found.error, 2)
    ('west', 0.1)
    """
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    values = to_numpy(segments, "segments")
    n = len(as_matrix(y_prob)[0])
    if values.shape != (n,):
        raise ValueError(f"segments has shape {values.shape}, expected ({n},): one segment per row.")
    values = values if data.rows is None else values[data.rows]
    names, place = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
    ends = np.cumsum(np.bincount(place))[:-1]
    parts = [data.take(rows) for rows in np.split(np.argsort(place, kind="stable"), ends)]
    largest_first = np.argsort([-part.total for part in parts], kind="stable")
    parts, names = [parts[place] for place in largest_first], names[largest_first]
    tables = [class_frequencies(part) for part in parts]
    rows, k = np.array([part.total for part in parts]), data.n_classes
    predicted, observed = (
        np.stack([getattr(table, name) for table in tables]) / rows[:, None] for name in ("expected", "observed")
    )
    variance = np.stack([design_effects(part) * (part.each @ (part.proba * (1.0 - part.proba))) for part in parts])
    square = float(rows @ ((observed - predicted) ** 2 - variance / rows[:, None] ** 2).sum(axis=1)) / data.total
    p_value = np.array([table.p_value.min() for table in tables]) * (1 if k == 2 else k)
    error = float(np.sqrt(max(square, 0.0)))
    return SegmentCalibration(
        tuple(names.tolist()), tuple(data.names), rows, predicted, observed, np.minimum(1.0, p_value), error
    )
