"""Pickled pairs of logits and labels, as published with NN_calibration.

A file holds `((logits_val, labels_val), (logits_test, labels_test))` and is named
`probs_{model}_{dataset}_logits.p`. Unpickling can run any code a file names, so the reader admits what a
NumPy array is made of and nothing else.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.predictions.source import Experiment, PredictionFileError, Predictions

_ADMITTED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a NumPy array")
        # Files of NumPy 1 name numpy.core, which newer versions still find only with a warning.
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_arrays(data: bytes) -> Any:
    """Unpickle tuples, lists and dicts of NumPy arrays and plain numbers; refuse everything else.

    Examples
    --------
    >>> load_arrays(pickle.dumps((np.zeros(2), [1])))
    (array([0., 0.]), [1])
    >>> load_arrays(pickle.dumps(print))
    Traceback (most recent call last):
        ...
    _pickle.UnpicklingError: builtins.print is not part of a NumPy array
    """
    loaded = _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    _refuse_objects(loaded)
    return loaded


class PickleSource:
    """One pickled experiment of logits and labels.

    Parameters
    ----------
    path : str or Path
        The file; its name gives model and dataset.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path | None = Path(path)
        self.name = Path(path).stem
        try:
            (logits_cal, labels_cal), (logits_test, labels_test) = load_arrays(Path(path).read_bytes())
        except (pickle.UnpicklingError, EOFError, ValueError, TypeError) as error:
            raise PredictionFileError(
                f"{path}: expected pickled arrays ((logits, labels), (logits, labels)): {error}"
            ) from error
        self._predictions = Predictions.checked(
            _softmax(logits_cal), labels_cal, _softmax(logits_test), labels_test, where=Path(path).name
        )
        model, _, dataset = self.name.removeprefix("probs_").removesuffix("_logits").rpartition("_")
        self._experiments = [self._predictions.describe(dataset, model or "model")]

    def experiments(self) -> list[Experiment]:
        """List the only experiment."""
        return list(self._experiments)

    def load(self, experiment: Experiment) -> Predictions:
        """Return the arrays."""
        return self._predictions


def _softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    z = np.asarray(logits, dtype=np.float64)
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def _refuse_objects(loaded: Any) -> None:
    """Object arrays could hide anything inside; numbers cannot."""
    if isinstance(loaded, np.ndarray) and loaded.dtype.hasobject:
        raise pickle.UnpicklingError("an array of Python objects")
    if isinstance(loaded, (tuple, list)):
        for item in loaded:
            _refuse_objects(item)
    if isinstance(loaded, dict):
        for item in loaded.values():
            _refuse_objects(item)
