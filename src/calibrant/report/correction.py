"""What calibration changes: the map of two classes, or which classes are confused.

Among the thousands of entries of a large correction matrix the largest are partly chance. The matrix is therefore
fitted to two halves of the rows as well: entries on which the halves disagree in sign show how large chance makes them,
and an entry counts as proven if both halves give it the same sign and more than that (and more than `LEAST`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.registry import get_calibrator
from calibrant.metrics import calibration_map
from calibrant.metrics.recalibration import fit_clone
from calibrant.random_numbers import generator
from calibrant.report.data import BinaryMap, Correction
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray

#: Classes up to which the correction matrix is fitted.
MATRIX_CLASSES = 120
#: Smaller corrections move log-odds by hundredths, which is not worth a line.
LEAST = 0.01
#: Refits for the band of a map, and rows up to which they are made.
REFITS = 40
MOST_REFITTED = 10_000


def corrections(data: Sample, method: str, level: float = 0.95) -> tuple[Correction | None, BinaryMap | None]:
    """The correction matrix of many classes, or the map of two; nothing where it cannot be fitted."""
    try:
        return _corrections(data, method, level)
    except (ValueError, RuntimeError):
        return None, None


def _corrections(data: Sample, method: str, level: float) -> tuple[Correction | None, BinaryMap | None]:
    if data.n_classes == 2:
        fitted = _fitted(method, data)
        curve = calibration_map(fitted, n_points=101)
        return None, _with_band(BinaryMap(curve.before[:, 1], curve.after[:, 1]), fitted, data, level)
    if data.n_classes > MATRIX_CLASSES:
        return None, None
    fitted = _structured(data)
    half = data.folds(2, generator(0))
    first, second = (_matrix(_structured(data.take(half == number))) for number in (0, 1))
    return Correction(1 / float(fitted.inverse_temperature_), _matrix(fitted), agreed(first, second)), None


def _with_band(curve: BinaryMap, fitted: Any, data: Sample, level: float) -> BinaryMap:
    """The map with intervals: by the delta method, or by refits to resamples of not too many rows."""
    for by in ("delta", "bootstrap") if data.n_rows <= MOST_REFITTED else ("delta",):
        try:
            fitted.fit_intervals(data.proba, data.y, data.counts, groups=data.groups, by=by, n_resamples=REFITS)
        except (ValueError, RuntimeError, AttributeError):
            continue
        ends = fitted.predict_interval(np.column_stack([1 - curve.before, curve.before]), level=level)
        return replace(curve, low=ends[:, 1, 0], high=ends[:, 1, 1], by=by)
    return curve


def agreed(first: AnyFloatArray, second: AnyFloatArray) -> NDArray[np.bool_]:
    """Entries off the diagonal that two independent estimates agree on beyond chance.

    Examples
    --------
    >>> first = np.array([[0.0, 0.9, 0.1], [-0.2, 0.0, 0.1], [0.1, 0.1, 0.0]])
    >>> second = np.array([[0.0, 0.8, 0.1], [0.2, 0.0, 0.1], [0.1, -0.1, 0.0]])
    >>> np.argwhere(agreed(first, second)).tolist()
    [[0, 1]]
    """
    off = ~np.eye(len(first), dtype=bool)
    same = first * second > 0
    smaller = np.minimum(np.abs(first), np.abs(second))
    chance = float(smaller[off & ~same].max(initial=LEAST))
    return np.asarray(off & same & (smaller > chance))


def _structured(data: Sample) -> Any:
    return _fitted("sms", data, input_smoothing="auto")


def _matrix(fitted: Any) -> AnyFloatArray:
    coefficients = np.asarray(fitted.coef_)
    return coefficients - np.eye(len(coefficients))


def _fitted(name: str, data: Sample, **parameters: Any) -> Any:
    with warnings.catch_warnings():
        # Labels are column numbers here, which would mean nothing to a reader.
        warnings.simplefilter("ignore")
        return fit_clone(get_calibrator(name, **parameters), data)
