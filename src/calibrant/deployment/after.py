"""What comes after a calibrator in use: its map, and further steps on the probabilities that it predicts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from numpy.typing import NDArray

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.deployment.segments.by_segment import BySegment
from calibrant.steps import Step


class AfterCalibrator(BySegment):
    """A fitted calibrator and steps after it; if that one takes segments, so does this one.

    A subclass writes `_first`, the calibrator, and `_after`, the steps.
    """

    @property
    @abstractmethod
    def _first(self) -> Calibrator:
        """The fitted calibrator."""

    @abstractmethod
    def _after(self) -> list[Step]:
        """The steps that take its probabilities."""

    @property
    def segment_columns_(self) -> dict[str, NDArray[Any]]:  # type: ignore[override]
        """The columns of segments that the calibrator needs, mostly none."""
        return getattr(self._first, "segment_columns_", {})

    def steps(self) -> list[Step]:
        return [*steps_of(self._first), *self._after()]
