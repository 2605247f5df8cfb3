"""Beta calibration: ``σ(a log p - b log(1 - p) + c)`` with ``a, b ≥ 0``.

This is the map between the posterior of two beta distributions and a probability. It contains the identity
(a = b = 1, c = 0) and Platt scaling of log-odds (a = b), and bends differently next to 0 and next to 1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from calibrant.calibrators.binary.logistic_fit import fit_logistic
from calibrant.calibrators.lifting import BinaryMethod
from calibrant.calibrators.state import StateCheck
from calibrant.steps import Clip, Linear, Log, Sigmoid, Step
from calibrant.typing import FloatArray, IntArray

#: Logarithms are clipped where a double next to one has its neighbour: log-odds of ±36 at most.
_LOG_EPSILON = float(np.log(np.finfo(np.float64).eps))

#: Ridge that keeps separable data finite; too small to be seen otherwise.
_RIDGE = 1e-11


class BetaCalibrator(BinaryMethod):
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
    >>> from calibrant.calibrators.binary.beta import BetaCalibrator
    >>> calibrator = BetaCalibrator().fit([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> bool(calibrator.a_ >= 0 and calibrator.b_ >= 0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BinaryMethod._parameter_constraints,
        "parameters": [StrOptions({"abm", "am", "ab"})],
    }

    def __init__(
        self,
        *,
        parameters: str = "abm",
        multiclass: str = "ovr",
        input: str = "probabilities",
        classes: Any = None,
        renormalize: bool = False,
    ) -> None:
        self.parameters = parameters
        super().__init__(multiclass=multiclass, input=input, classes=classes, renormalize=renormalize)

    def _fit_binary(self, x: FloatArray, y: IntArray, weight: FloatArray | None) -> None:
        log_p, log_rest = np.maximum(x[:, 1], _LOG_EPSILON), np.maximum(x[:, 0], _LOG_EPSILON)
        target = y.astype(np.float64)
        ones = np.ones(len(y))
        if self.parameters == "am":
            slope, self.c_ = _fit(np.stack([log_p - log_rest, ones]), target, weight)
            self.a_ = self.b_ = slope
        elif self.parameters == "ab":
            log_2 = np.log(2.0)
            self.a_, self.b_ = _fit(np.stack([log_p + log_2, -log_rest - log_2]), target, weight, n_slopes=2)
            self.c_ = (self.a_ - self.b_) * float(log_2)
        else:
            self.a_, self.b_, self.c_ = _fit(np.stack([log_p, -log_rest, ones]), target, weight, n_slopes=2)

    def _check_binary_state(self, state: StateCheck) -> None:
        for name in ("a_", "b_", "c_"):
            state.number(name)

    def _binary_steps(self) -> list[Step]:
        weights = np.array([[-self.b_], [self.a_]])
        return [Log(), Clip(_LOG_EPSILON, 0.0), Linear(weights, np.array([self.c_])), Sigmoid()]


def _fit(features: FloatArray, target: FloatArray, weight: FloatArray | None, *, n_slopes: int = 1) -> list[float]:
    """The best coefficients of which the first `n_slopes` are not negative.

    By convexity a slope that is negative at the free optimum is zero at the constrained one, so dropping the
    negative slopes one at a time finds it.
    """
    columns = list(range(len(features)))
    while True:
        beta = fit_logistic(features[columns], target, weight, ridge=_RIDGE)
        wrong = [c for c, b in zip(columns, beta) if c < n_slopes and b < 0.0]
        if not wrong:
            break
        columns.remove(wrong[0])
        if not columns:
            break
    coefficients = dict(zip(columns, beta)) if columns else {}
    return [float(coefficients.get(c, 0.0)) for c in range(len(features))]
