"""No calibration: the baseline every method is compared with."""

from __future__ import annotations

from calibrant.calibrators.base import Calibrator
from calibrant.sample import Sample
from calibrant.steps import Step


class NoCalibrator(Calibrator):
    """Returns the unchanged predictions, after the checks every calibrator makes.

    Examples
    --------
    >>> from calibrant import NoCalibrator
    >>> NoCalibrator().fit([[0.2, 0.8], [0.7, 0.3]], ["no", "yes"]).predict_proba([[0.4, 0.6]])
    array([[0.4, 0.6]])
    """

    def _fit(self, sample: Sample) -> None:
        pass

    def steps(self) -> list[Step]:
        return []
