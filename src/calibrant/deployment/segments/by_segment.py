"""Calibrators that need to know the segment of a row: what they have in common is how they are asked.

One that comes after another, with further steps on what that one predicts, needs the segments that the other needs.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.deployment.inputs import take_columns
from calibrant.deployment.segments.columns import inputs_of
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.segments import SeenLevels, read_segments, segment_numbers
from calibrant.inputs.words import CalibrationWarning
from calibrant.runtime import Map
from calibrant.steps import Step
from calibrant.typing import AnyArray, TableLike


class _Segmented:
    segment_columns_: dict[str, AnyArray]


class BySegment(_Segmented, Calibrator):
    """A calibrator whose `predict_proba` takes `segments`, if `segment_columns_` names any.

    The first of its steps gets the numbers of `segments` behind the probabilities.
    """

    def predict_proba(self, X: ArrayLike, *, axis: int | None = None, segments: TableLike | None = None) -> AnyArray:
        """Calibrated probabilities, float32 for float32 or narrower input, else float64.

        Parameters
        ----------
        X : array-like or data frame of shape (n, k), (n,) or (n, 1)
            Predictions with the columns seen in `fit`.
        axis : int, default=None
            The axis of the classes in predictions of any shape; not together with segments.
        segments : data frame, mapping of columns, or array-like of shape (n,) or (n, c)
            The columns seen in `fit`, by name. Levels that `fit` did not see go to the global map, with a warning if
            hardly a row has another one.

        Returns
        -------
        p : ndarray of shape (n, k)
            One column per class, in the order of `classes_`.
        """
        check_is_fitted(self, "classes_")
        if not self.segment_columns_:
            if segments is not None:
                raise ValueError(f"This {type(self).__name__} was fitted without segments: leave segments= out.")
            return super().predict_proba(X, axis=axis)
        if axis is not None:
            raise ValueError("axis= is for predictions without segments: give one row per prediction, and segments=.")
        if segments is None:
            raise without_segments(self)
        frame, seen = read_segments(segments, len(as_matrix(X)[0])), SeenLevels(inputs_of(self.segment_columns_))
        numbers = segment_numbers(frame, seen.inputs)
        seen.add(frame, numbers)
        for note in seen.notes():
            warnings.warn(note, CalibrationWarning, stacklevel=2)
        return self._run(X, beside=numbers)

    def to_map(self) -> Map:
        """The fitted map by itself, which needs NumPy alone: see `calibrant.runtime`."""
        return replace(super().to_map(), segments=inputs_of(self.segment_columns_))

    def _check_refits(self) -> None:
        raise ValueError(
            f"{type(self).__name__} has no intervals: it corrects another calibrator, and fits to resamples would not "
            "find the same correction. Call fit_intervals and predict_interval of a calibrator without corrections."
        )

    def predict_log_proba(self, X: Any, *, axis: int | None = None, segments: TableLike | None = None) -> AnyArray:
        """Logarithms of the calibrated probabilities, ``-inf`` for an impossible class."""
        if segments is None:
            return super().predict_log_proba(X, axis=axis)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, axis=axis, segments=segments))

    def predict(self, X: Any, *, axis: int | None = None, segments: TableLike | None = None) -> AnyArray:
        """The most probable label of each row after calibration."""
        if segments is None:
            return super().predict(X, axis=axis)
        return self.classes_[self.predict_proba(X, axis=axis, segments=segments).argmax(axis=1)]


class AfterCalibrator(BySegment):
    """A fitted calibrator, `_first`, and steps after it, `_after`; it takes segments if that calibrator does."""

    @classmethod
    def around(cls, fitted: Calibrator, *parts: Calibrator) -> Self:
        """An unfitted one of these parts that takes the predictions that `fitted` takes, with its classes and rule."""
        given: dict[str, Any] = {"input": fitted.input, "classes": fitted.classes, "renormalize": fitted.renormalize}
        made = cls(*map(clone, parts), **given)
        take_columns(made, fitted)
        return made

    @property
    @abstractmethod
    def _first(self) -> Calibrator:
        """The fitted calibrator."""

    @abstractmethod
    def _after(self) -> list[Step]:
        """The steps that take its probabilities."""

    @property
    def segment_columns_(self) -> dict[str, AnyArray]:  # type: ignore[override]
        """The columns of segments that the calibrator needs, mostly none."""
        return getattr(self._first, "segment_columns_", {})

    def steps(self) -> list[Step]:
        return [*steps_of(self._first), *self._after()]


def without_segments(calibrator: Calibrator) -> ValueError:
    """The error of a call that lacks them."""
    columns = list(getattr(calibrator, "segment_columns_", ()))
    return ValueError(
        f"{type(calibrator).__name__} needs segments=, a data frame with the segment of each row"
        + (f" ({', '.join(columns)})." if columns else ", in fit and in predict_proba.")
    )
