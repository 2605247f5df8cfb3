"""Cross-validated recalibration: what a calibrator makes of predictions it was not fitted to.

Each part of the rows is recalibrated by a calibrator fitted to the other parts, so that a comparison with the
predictions as they were is fair. The decomposition of losses and the Lp errors rest on it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.registry import get_calibrator
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray

Split = tuple[AnyIntArray, AnyIntArray]


def default_calibrator() -> Any:
    """The calibrator that measures miscalibration unless told otherwise: the logistic one."""
    return get_calibrator("logistic")


def resolve_calibrator(method: Any) -> Any:
    """A calibrator from an object, a name of the registry or None for the default."""
    if method is None:
        return default_calibrator()
    if isinstance(method, str):
        return get_calibrator(method)
    if not (hasattr(method, "fit") and hasattr(method, "predict_proba")):
        raise TypeError(f"method must be a name or have fit and predict_proba, got {method!r}")
    return method


def splits(data: Sample, cv: Any, random_state: int | None) -> Iterator[Split]:
    """Training and held-out rows from a number of folds, a scikit-learn splitter or an iterable of pairs."""
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if not 2 <= cv <= data.n_rows:
            raise ValueError(f"cv must lie between 2 and the number of rows ({data.n_rows}), got {cv}")
        fold = data.folds(int(cv), generator(random_state))
        for number in range(int(cv)):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    elif hasattr(cv, "split"):
        yield from cv.split(data.proba, data.y, data.groups)
    elif isinstance(cv, Iterable):
        yield from cv
    else:
        raise ValueError(f"cv must be a number of folds, a splitter or an iterable of splits, got {cv!r}")


def recalibrate(data: Sample, method: Any = None, cv: Any = 5, random_state: int | None = 0) -> Sample:
    """The same rows with cross-validated recalibrated probabilities."""
    prototype = resolve_calibrator(method)
    recalibrated = np.full(data.proba.shape, np.nan)
    for train, held_out in splits(data, cv, random_state):
        fitted = fit_clone(prototype, data.take(train))
        recalibrated[held_out] = _aligned(fitted, data.proba[held_out], data.n_classes)
    missed = np.isnan(recalibrated).any(axis=1)
    if missed.any():
        raise ValueError(f"cv never holds out row {int(np.argmax(missed))}: every row must be held out once")
    return data.with_values(recalibrated, logs=False)


def fit_clone(prototype: Any, data: Sample) -> Any:
    """A copy of a calibrator, fitted to all rows."""
    calibrator = clone(prototype)
    # Labels are column numbers here; saying so lets a fold lack a class.
    if hasattr(calibrator, "get_params") and "classes" in calibrator.get_params(deep=False):
        calibrator.set_params(classes=np.arange(data.n_classes))
    given = {"sample_weight": data.counts, "groups": data.groups}
    # A calibrator of someone else's may not know of groups.
    known = inspect.signature(calibrator.fit).parameters
    given = {name: value for name, value in given.items() if value is not None and (name != "groups" or name in known)}
    return calibrator.fit(data.proba, data.y, **given)


def _aligned(calibrator: Any, proba: AnyFloatArray, n_classes: int) -> AnyFloatArray:
    """Predictions with a column for every class, also for those a foreign calibrator never saw."""
    predicted = np.asarray(calibrator.predict_proba(proba), dtype=np.float64)
    if predicted.ndim == 1:
        return np.column_stack([1 - predicted, predicted])
    if predicted.shape[1] == n_classes:
        return predicted
    full = np.zeros((len(proba), n_classes))
    full[:, np.asarray(calibrator.classes_, dtype=np.intp)] = predicted
    return full
