"""What comes after a calibrator in use: its map, and further steps on the probabilities that it predicts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.deployment.inputs import calibrated, identity
from calibrant.deployment.segments.by_segment import BySegment
from calibrant.steps import Step, encode, run
from calibrant.typing import FloatArray


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

    def _runs_by_steps(self) -> bool:
        return not self.segment_columns_

    def steps(self) -> list[Step]:
        if self.segment_columns_:
            raise self._no_steps()
        return [*steps_of(self._first), *self._after()]

    def _by_segment(self, X: Any, segments: Any) -> FloatArray:
        return run(self._after(), np.array(calibrated(self._first, X, segments)))

    def map_content(self) -> dict[str, Any]:
        return {"first": identity(self._first), "after": encode(self._after())}
