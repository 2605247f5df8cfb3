"""Predictions that are not arrays in memory, or too large to copy: which function fits and calibrates them.

The functions for tensors and Dask collections are imported when one is given, so that neither has to be installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.inputs.predictions import is_dask, is_tensor, to_numpy
from calibrant.inputs.top_k import TopK
from calibrant.inputs.words import CalibrationWarning
from calibrant.steps import Steps
from calibrant.typing import AnyArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: Arrays of more numbers (1 GiB) are read block by block by methods that need only sums, or only some of the rows,
#: since a fit holds several copies. Memory in MiB: the default of `fit_batches`, and more for methods that draw rows
#: from what is in memory, so that they see as many rows as they would of an array.
LARGE = 1 << 27
_MEMORY_MB, _MEMORY_TO_DRAW_FROM = 512.0, 4096.0


def needs_dispatch(X: object) -> bool:
    """Whether predictions are not an array in memory."""
    return type(X) is not np.ndarray and (isinstance(X, TopK) or is_tensor(X) or is_dask(X))


def dispatch_fit(
    calibrator: Calibrator,
    X: object,
    y: object,
    sample_weight: object,
    groups: object = None,
    blocks: int | None = None,
) -> bool:
    """Fit to predictions that are large or not an array; false, and no fit, if they are an array of moderate size."""
    sums, grouped = hasattr(calibrator, "_fit_rows"), groups is not None or blocks is not None
    if grouped and not sums and (isinstance(X, TopK) or is_dask(X)):
        raise ValueError(
            f"{type(calibrator).__name__} needs its rows in memory to use groups or blocks, but X is of "
            f"type {type(X).__name__}: pass an array, or leave groups and blocks out."
        )
    if calibrator.takes_scores:
        if isinstance(X, TopK) or is_dask(X):
            raise ValueError(f"Scores have to be in memory, but X is of type {type(X).__name__}: pass an array.")
        return False
    if isinstance(X, TopK):
        with warnings.catch_warnings():  # class numbers count from 0 here, also where no row is of class 0
            warnings.filterwarnings("ignore", message=".* lacks the label 0", category=CalibrationWarning)
            calibrator.fit_batches(partial(X.batches, y, sample_weight, logits=calibrator.input == "logits"))
    elif is_tensor(X) and sums:
        from calibrant.calibrators.tensor_fitting import fit_tensor

        fit_tensor(calibrator, X, y, sample_weight)
    elif is_dask(X):
        from calibrant.calibrators.partitions import fit_partitions

        fit_partitions(calibrator, X, y, sample_weight)
    elif isinstance(X, np.ndarray) and X.size > LARGE and (sums or (calibrator._draws_rows and not grouped)):
        weights = [] if sample_weight is None else [to_numpy(sample_weight, "sample_weight")]
        memory_mb = _MEMORY_MB if sums else _MEMORY_TO_DRAW_FROM
        calibrator.fit_batches((X, to_numpy(y, "y"), *weights), memory_mb=memory_mb)
    else:
        return False
    return True


def dispatch_predict(calibrator: Calibrator, X: object, steps_of: Callable[[Calibrator], Steps]) -> Any:
    """Calibrated probabilities in the form of the predictions: a tensor, a lazy Dask array, the listed classes."""
    if isinstance(X, TopK):
        out = np.empty(X.columns.shape)
        for rows in X.blocks():
            full = X.full(rows, logits=calibrator.input == "logits")
            out[rows] = X.of_full(calibrator.predict_proba(full), rows)
        return X.with_probabilities(out)
    if is_tensor(X):
        from calibrant.calibrators.tensor_fitting import predict_tensor

        return predict_tensor(calibrator, steps_of(calibrator), X)
    from calibrant.calibrators.partitions import lazily

    return lazily(calibrator.predict_proba, X, len(calibrator.classes_))


def top_labels(classes: AnyArray, top: Any) -> Any:
    """Labels of column numbers in an array, a tensor or a Dask array."""
    if is_dask(top):
        return top.map_blocks(classes.__getitem__, dtype=classes.dtype)
    return classes[top.cpu().numpy() if is_tensor(top) else top]
