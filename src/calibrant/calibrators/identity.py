"""No calibration: the baseline every method is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.typing import FloatArray, IntArray


class NoCalibrator(Calibrator):
    """Returns the predictions as they are, after the checks every calibrator makes.

    Parameters
    ----------
    input : {"probabilities", "logits"}, default="probabilities"
        What the predictions are.
    classes : array-like of shape (k,), default=None
        The label of each column, for labels that do not tell by themselves.
    renormalize : bool, default=False
        Rescale rows that do not sum to one.

    Examples
    --------
    >>> from calibrant import NoCalibrator
    >>> NoCalibrator().fit([[0.2, 0.8], [0.7, 0.3]], ["no", "yes"]).predict_proba([[0.4, 0.6]])
    array([[0.4, 0.6]])
    """

    def __init__(self, *, input: str = "probabilities", classes: Any = None, renormalize: bool = False) -> None:
        self.input = input
        self.classes = classes
        self.renormalize = renormalize

    def _fit(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        pass

    def _map(self, x: FloatArray) -> FloatArray:
        return np.exp(x, out=x)
