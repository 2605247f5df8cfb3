"""Calibrators that need to know the segment of a row: what they have in common is how they are asked."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.base import Calibrator
from calibrant.inputs.predictions import as_matrix, output_dtype
from calibrant.typing import FloatArray


class BySegment(Calibrator):
    """A calibrator whose `predict_proba` takes `segments`, if `segment_columns_` names any.

    A subclass writes `_by_segment`, and `map_content`, which tells one fitted map from another.
    """

    segment_columns_: dict[str, NDArray[Any]]

    @abstractmethod
    def _by_segment(self, X: Any, segments: Any) -> FloatArray:
        """Calibrated probabilities of predictions with the segments of their rows."""

    @abstractmethod
    def map_content(self) -> dict[str, Any]:
        """What predictions depend on, in terms of JSON."""

    def predict_proba(self, X: Any, *, axis: int | None = None, segments: Any = None) -> NDArray[Any]:
        """Calibrated probabilities, float32 for float32 or narrower input, else float64.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predictions with the columns seen in `fit`.
        axis : int, default=None
            The axis of the classes in predictions of any shape; not together with segments.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c)
            The columns seen in `fit`, by name. Levels that `fit` did not see go to the global map.

        Returns
        -------
        p : ndarray of shape (n, k)
            One column per class, in the order of `classes_`.
        """
        if not self.segment_columns_:
            if segments is not None:
                raise ValueError(f"This {type(self).__name__} was fitted without segments: leave segments= out.")
            return super().predict_proba(X, axis=axis)
        if axis is not None:
            raise ValueError("axis= is for predictions without segments: give one row per prediction, and segments=.")
        if segments is None:
            raise without_segments(self)
        return self._by_segment(X, segments).astype(output_dtype(as_matrix(X)[0]), copy=False)

    def _no_steps(self) -> TypeError:
        # A step sees probabilities alone; that this map needs more is its nature, not something left to do.
        return TypeError(
            f"The map of this {type(self).__name__} depends on the segment of a row, which is no list of steps on its "
            "probabilities: it runs in Python with this class only. The global map, calibrator_, can be exported."
        )

    def predict_log_proba(self, X: Any, *, axis: int | None = None, segments: Any = None) -> NDArray[Any]:
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        if not self.segment_columns_:
            return super().predict_log_proba(X, axis=axis)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, axis=axis, segments=segments))

    def predict(self, X: Any, *, axis: int | None = None, segments: Any = None) -> NDArray[Any]:
        """The most probable label of each row after calibration."""
        if not self.segment_columns_:
            return super().predict(X, axis=axis)
        return self.classes_[self.predict_proba(X, axis=axis, segments=segments).argmax(axis=1)]


def without_segments(calibrator: Calibrator) -> ValueError:
    """The error of a call that lacks them."""
    columns = list(getattr(calibrator, "segment_columns_", ()))
    return ValueError(
        f"{type(calibrator).__name__} needs segments=, a frame with the columns that tell the segment of each row"
        + (f" ({', '.join(columns)})." if columns else ", in fit and in predict_proba.")
    )
