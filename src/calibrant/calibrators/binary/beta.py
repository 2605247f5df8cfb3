"""Beta calibration: ``σ(a log p - b log(1 - p) + c)`` with ``a, b ≥ 0``.

This is the map between the posterior of two beta distributions and a probability. It contains the identity
(a = b = 1, c = 0) and Platt scaling of log-odds (a = b), and bends differently next to 0 and next to 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators.binary.logistic_fit import Known, LogisticSearch
from calibrant.calibrators.binary.logistic_method import LogisticMethod
from calibrant.calibrators.state import StateCheck
from calibrant.steps import Clip, Linear, Log, Sigmoid, Step
from calibrant.typing import FloatArray

#: Logarithms are clipped where a double next to one has its neighbour: log-odds of ±36 at most.
_LOG_EPSILON = float(np.log(np.finfo(np.float64).eps))

_LOG_2 = float(np.log(2.0))


class BetaCalibrator(LogisticMethod):
    """Beta calibration.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        All three parameters, equal slopes (a = b), or no location (a prediction of 0.5 stays).

    Attributes
    ----------
    a_, b_, c_ : float
        The parameters (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach. Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers. AISTATS 2017.

    Examples
    --------
    >>> from calibrant.calibrators import BetaCalibrator
    >>> calibrator = BetaCalibrator().fit([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> bool(calibrator.a_ >= 0 and calibrator.b_ >= 0)
    True
    """

    parameters: Literal["abm", "am", "ab"] = "abm"

    #: Too small to be seen unless the data are separable.
    _ridge = 1e-11

    def _features(self, x: FloatArray) -> FloatArray:
        log_p, log_rest = np.maximum(x[:, 1], _LOG_EPSILON), np.maximum(x[:, 0], _LOG_EPSILON)
        ones = np.ones(len(x))
        if self.parameters == "am":
            return np.stack([log_p - log_rest, ones])
        if self.parameters == "ab":
            return np.stack([log_p + _LOG_2, -log_rest - _LOG_2])
        return np.stack([log_p, -log_rest, ones])

    def _search(self, known: Known, start: FloatArray | None) -> LogisticSearch:
        """The best coefficients of which the slopes are not negative.

        By convexity a slope that is negative at the free optimum is zero at the constrained one, so dropping the
        negative slopes one at a time finds it.
        """
        n_slopes = 1 if self.parameters == "am" else 2
        columns = list(range(len(known.moments)))
        while columns:
            beta = yield from known.search(start, columns=columns)
            wrong = [c for c in columns if c < n_slopes and beta[c] < 0.0]
            if not wrong:
                return beta
            columns.remove(wrong[0])
        return np.zeros(len(known.moments))

    def _store(self, coefficients: FloatArray) -> None:
        numbers = [float(c) for c in coefficients]
        if self.parameters == "am":
            self.a_, self.c_ = numbers
            self.b_ = self.a_
        elif self.parameters == "ab":
            self.a_, self.b_ = numbers
            self.c_ = (self.a_ - self.b_) * _LOG_2
        else:
            self.a_, self.b_, self.c_ = numbers

    def _stored(self) -> list[float]:
        return {"am": [self.a_, self.c_], "ab": [self.a_, self.b_]}.get(self.parameters, [self.a_, self.b_, self.c_])

    def _check_binary_state(self, state: StateCheck) -> None:
        for name in ("a_", "b_", "c_"):
            state.number(name)

    def _binary_steps(self) -> list[Step]:
        weights = np.array([[-self.b_], [self.a_]])
        return [Log(), Clip(_LOG_EPSILON, 0.0), Linear(weights, np.array([self.c_])), Sigmoid()]
