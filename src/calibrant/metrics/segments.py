"""Calibration by segment: whether each class occurs as often as predicted in every part of the rows.

In segment g with n_g rows, class j is off by ``d_gj``, the mean of ``1[y = j] - p_j``. If labels follow predictions,
``d_gj²`` is still ``v_gj = Σ p_j (1 - p_j) / n_g²`` in the mean. The multicalibration error
``√ Σ_g n_g / n Σ_j (d_gj² - v_gj)`` leaves that noise out: small segments do not look bad because they are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc

from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix, to_numpy
from calibrant.metrics.inputs import check_predictions
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
        Rows of each segment, counting weights.
    predicted, observed : ndarray of shape (m, k)
        Mean probability and frequency of each class in each segment.
    p_value : ndarray of shape (m,)
        Probability of a difference as large as the largest of a segment's classes if the predictions were calibrated
        (normal approximation, Bonferroni's correction for the classes).
    error : float
        Multicalibration error: root mean square of the differences, less what chance alone makes of it; 0 if that is
        more.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import segment_calibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> found = segment_calibration(y, p, np.where(p > 0.5, "high", "low"))
    >>> found.segments, found.to_dict()["observed"].round(2)
    (('high', 'low'), array([0.4 , 0.6 , 0.89, 0.11]))
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
    classes: Sequence[Any] | None = None,
) -> SegmentCalibration:
    """Calibration in the large of every segment, the worst of them, and the multicalibration error.

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
    data = check_predictions(y_true, y_prob, sample_weight, classes)
    values = to_numpy(segments, "segments")
    n = len(as_matrix(y_prob)[0])
    if values.shape != (n,):
        raise ValueError(f"segments has shape {values.shape}, expected ({n},): one segment per row.")
    values = values if data.rows is None else values[data.rows]
    names, place = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
    p, k, m = np.asarray(data.proba, dtype=np.float64), data.n_classes, len(names)
    counts = np.ones(data.n_rows) if data.weight is None else data.weight

    def sums(columns: FloatArray) -> FloatArray:
        return np.column_stack([np.bincount(place, counts * column, minlength=m) for column in columns.T])

    rows = np.bincount(place, counts, minlength=m).astype(np.float64)
    predicted, observed = sums(p) / rows[:, None], sums(np.eye(k)[data.y]) / rows[:, None]
    variance = sums(p * (1.0 - p)) / rows[:, None] ** 2
    difference = observed - predicted
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.abs(difference) <= 1e-9, 0.0, np.abs(difference) / np.sqrt(variance)).max(axis=1)
    square = float(rows @ (difference**2 - variance).sum(axis=1)) / float(counts.sum())
    order = np.argsort(-rows, kind="stable")
    return SegmentCalibration(
        tuple(names[order].tolist()),
        tuple(data.classes.tolist()),
        rows[order],
        predicted[order],
        observed[order],
        np.minimum(1.0, (1 if k == 2 else k) * erfc(z / np.sqrt(2.0)))[order],
        float(np.sqrt(max(square, 0.0))),
    )
