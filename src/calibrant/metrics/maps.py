"""The map of a fitted calibrator as a table: where it sends probabilities, and what its matrix corrects.

Two classes: the calibrated against the predicted probability of the second class on a grid. Three classes: start and
end of arrows on the triangle of all probability vectors. Matrix scaling: its matrix minus the identity, which is zero
where temperature scaling would have done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, Label

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True)
class CalibrationMap:
    """Probability vectors `before` calibration and `after`, each of shape (m, k), and the labels of the columns.

    Examples
    --------
    >>> import calibrant
    >>> from calibrant.metrics import calibration_map
    >>> ts = calibrant.get_calibrator("ts").fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    >>> calibration_map(ts).after.shape
    (201, 2)
    """

    before: AnyFloatArray
    after: AnyFloatArray
    classes: tuple[Label, ...]


def simplex_grid(n_steps: int) -> AnyFloatArray:
    """Inner points of a triangular grid: all `(a, b, c) / n_steps` shifted to the middle of their cells."""
    triples = [(a, b, n_steps - 1 - a - b) for a in range(n_steps) for b in range(n_steps - a)]
    return (np.array(triples, dtype=np.float64) + 1 / 3) / n_steps


@limited
def calibration_map(calibrator: BaseEstimator, *, n_points: int | None = None) -> CalibrationMap:
    """Where a fitted calibrator sends probabilities, for two or three classes.

    Parameters
    ----------
    calibrator : fitted calibrator
        Of two or three classes.
    n_points : int, optional
        Points of the curve (two classes, by default 201) or steps along an edge of the triangle (three, by default
        10).

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
        before: AnyFloatArray = np.column_stack([1 - positive, positive])
    elif len(classes) == 3:
        before = simplex_grid(10 if n_points is None else n_points)
    else:
        raise ValueError(f"a calibration map is shown for two or three classes, this calibrator has {len(classes)}")
    after = np.asarray(calibrator.predict_proba(before), dtype=np.float64)
    return CalibrationMap(before, after, classes)


@dataclass(frozen=True)
class CorrectionMatrix:
    """What a matrix-scaling calibrator adds to temperature scaling.

    `matrix[i, j]` is how much the score of class `i` gains for each unit of the log-probability of class `j`; `classes`
    are the labels of rows and columns, and `n_left_out` says how many classes were left out as the least affected.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import CorrectionMatrix
    >>> found = CorrectionMatrix(np.array([[0.0, 0.3], [0.0, 0.0]]), ("cat", "dog"))
    >>> float(found.matrix[0, 1])  # what the score of a cat gains for each unit of the log-probability of a dog
    0.3
    """

    matrix: AnyFloatArray
    classes: tuple[Label, ...]
    n_left_out: int = 0


@limited
def correction_matrix(calibrator: BaseEstimator, *, max_classes: int | None = None) -> CorrectionMatrix:
    """Matrix of a fitted matrix-scaling calibrator minus the identity.

    Parameters
    ----------
    calibrator : fitted calibrator
        With `coef_` of shape (k, k), such as `SMSCalibrator`, or a `LogisticCalibrator` that holds one.
    max_classes : int, optional
        Keep only so many classes, those with the largest entries off the diagonal, in row or column.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import SMSCalibrator
    >>> from calibrant.metrics import correction_matrix
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> correction_matrix(SMSCalibrator().fit(p, rng.integers(0, 3, 300))).matrix.shape
    (3, 3)
    """
    fitted = getattr(calibrator, "calibrator_", calibrator)
    weights = np.asarray(getattr(fitted, "coef_", np.nan), dtype=np.float64)
    classes = tuple(np.asarray(calibrator.classes_).tolist())
    if weights.shape != (len(classes), len(classes)):
        raise ValueError(f"{type(fitted).__name__} has no matrix of shape (k, k) in coef_; SMSCalibrator has")
    matrix = weights - np.eye(len(classes))
    if max_classes is None or max_classes >= len(classes):
        return CorrectionMatrix(matrix, classes)
    if max_classes < 1:
        raise ValueError(f"max_classes must be positive, got {max_classes}")
    off = np.abs(matrix - np.diag(np.diag(matrix)))
    largest = np.maximum(off.max(axis=0), off.max(axis=1))
    kept = np.sort(np.argsort(-largest, kind="stable")[:max_classes])
    return CorrectionMatrix(
        matrix[np.ix_(kept, kept)], tuple(classes[i] for i in kept), n_left_out=len(classes) - len(kept)
    )
