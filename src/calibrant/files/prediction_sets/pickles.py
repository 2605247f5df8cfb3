"""Pickled pairs of logits and labels, as published with NN_calibration.

A file holds `((logits_val, labels_val), (logits_test, labels_test))` and is named
`probs_{model}_{dataset}_logits.p`. Unpickling can run any code that a file names, so the file is not unpickled:
`calibrant.files.prediction_sets.pickled_arrays` reads the arrays in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.prediction_sets.experiments import MemorySource, PredictionFileError, SplitPredictions
from calibrant.files.prediction_sets.pickled_arrays import read_pickled_arrays
from calibrant.simplex import softmax


def open_pickle(path: Path) -> MemorySource:
    """One pickled experiment of logits and labels; the name of the file gives model and dataset."""
    try:
        cal, test = map(_pair, _pair(read_pickled_arrays(path.read_bytes())))
        with np.errstate(invalid="ignore"):  # logits that are not finite are named below
            arrays = [a for part in (cal, test) for a in (softmax(_numbers(part[0], 2)), _numbers(part[1], 1))]
    except ValueError as error:
        raise PredictionFileError(
            f"{path}: expected pickled arrays ((logits, labels), (logits, labels)): {error}"
        ) from error
    model, _, dataset = path.stem.removeprefix("probs_").removesuffix("_logits").rpartition("_")
    predictions = SplitPredictions.checked(*arrays, where=path.name)
    return MemorySource({(dataset, model or "model", 0): predictions}, path.stem, path)


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise PredictionFileError("found something other than a pair")
    return value[0], value[1]


def _numbers(value: Any, n_dimensions: int) -> NDArray[Any]:
    """An array, or a plain list of numbers: nested lists could refer to each other and fill the memory."""
    if isinstance(value, list) and all(isinstance(item, (bool, int, float, np.generic)) for item in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or not n_dimensions <= value.ndim <= 2 or not value.size:
        raise PredictionFileError("expected an array of logits and an array of labels in each pair")
    return value
