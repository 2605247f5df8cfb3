"""The map of a fitted calibrator as a table: where it sends probabilities.

Two classes: the calibrated against the predicted probability of the second class on a grid. Three classes: start and
end of arrows on the triangle of all probability vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics._inputs import FloatArray


@dataclass(frozen=True)
class CalibrationMap:
    """Probability vectors `before` calibration and `after`, each of shape (m, k), and the labels of the columns."""

    before: FloatArray
    after: FloatArray
    classes: tuple[Any, ...]


def simplex_grid(n_steps: int) -> FloatArray:
    """Inner points of a triangular grid: all `(a, b, c) / n_steps` shifted to the middle of their cells.

    Examples
    --------
    >>> simplex_grid(2).round(3).tolist()
    [[0.167, 0.167, 0.667], [0.167, 0.667, 0.167], [0.667, 0.167, 0.167]]
    """
    triples = [(a, b, n_steps - 1 - a - b) for a in range(n_steps) for b in range(n_steps - a)]
    return (np.array(triples, dtype=np.float64) + 1 / 3) / n_steps


def calibration_map(calibrator: Any, *, n_points: int | None = None) -> CalibrationMap:
    """Where a fitted calibrator sends probabilities, for two or three classes.

    Parameters
    ----------
    calibrator : fitted calibrator
        Of two or three classes.
    n_points : int, optional
        Points of the curve (two classes, by default 201) or steps along an edge of the triangle (three, by default
        12).

    Returns
    -------
    CalibrationMap

    Examples
    --------
    >>> from calibrant import NoCalibrator
    >>> from calibrant.metrics import calibration_map
    >>> fitted = NoCalibrator().fit([[0.2, 0.8], [0.7, 0.3]], ["no", "yes"])
    >>> calibration_map(fitted, n_points=3).after.round(3).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    classes = tuple(np.asarray(calibrator.classes_).tolist())
    if len(classes) == 2:
        positive = np.linspace(0, 1, 201 if n_points is None else n_points)
        before: FloatArray = np.column_stack([1 - positive, positive])
    elif len(classes) == 3:
        before = simplex_grid(12 if n_points is None else n_points)
    else:
        raise ValueError(f"a calibration map is shown for two or three classes, this calibrator has {len(classes)}")
    after = np.asarray(calibrator.predict_proba(before), dtype=np.float64)
    return CalibrationMap(before, after, classes)
