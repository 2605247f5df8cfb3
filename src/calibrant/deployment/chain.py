"""One calibrator after another: a repair of a map that is in use, without the data it was fitted to."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import Calibrator, steps_of
from calibrant.calibrators.lifting import fit_columns
from calibrant.calibrators.parameters import Estimator
from calibrant.calibrators.state import StateCheck
from calibrant.deployment.segments.by_segment import AfterCalibrator
from calibrant.sample import Sample
from calibrant.simplex import log_probabilities
from calibrant.steps import Step, run_from_logs


class ChainedCalibrator(AfterCalibrator, kw_only=False):
    """Two calibrators in a row: the second takes the predictions of the first.

    Parameters
    ----------
    first, second : estimator
        The calibrators.

    Attributes
    ----------
    first_, second_ : calibrator
        The fitted ones.

    Examples
    --------
    >>> from calibrant import NoCalibrator, TemperatureScalingCalibrator
    >>> from calibrant.deployment import ChainedCalibrator
    >>> chain = ChainedCalibrator(NoCalibrator(), TemperatureScalingCalibrator(smoothing=False))
    >>> chain.fit([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1]).second_.inverse_temperature_ < 1
    True
    """

    first: Estimator
    second: Estimator

    @classmethod
    def of_fitted(cls, first: Calibrator, second: Calibrator) -> ChainedCalibrator:
        """The chain of calibrators that are fitted already, `second` to the classes of `first`, in their order."""
        chain = cls.around(first, first, second)
        chain.first_, chain.second_ = first, second
        return chain

    def _fit(self, sample: Sample) -> None:
        self.first_ = fit_columns(self.first, sample)
        between = log_probabilities(run_from_logs(steps_of(self.first_), np.array(sample.x)))
        self.second_ = fit_columns(self.second, sample.with_values(between, logs=True))

    @property
    def _first(self) -> Calibrator:
        return self.first_

    def _after(self) -> list[Step]:
        return steps_of(self.second_)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.calibrator("first_", state.k, segments=True)
        state.calibrator("second_", state.k)
