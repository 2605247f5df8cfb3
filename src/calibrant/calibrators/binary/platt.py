"""Platt scaling ``σ(a s + b)`` of a score s: the probability itself, or its log-odds.

The labels are replaced by Platt's targets ``(N₊ + 1)/(N₊ + 2)`` and ``1/(N₋ + 2)``, which keep the fit finite.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators.binary.logistic_method import LogisticMethod
from calibrant.calibrators.lifting import POSITIVE, positive_probability
from calibrant.calibrators.state import StateCheck
from calibrant.steps import Log, LogOdds, Scale, Sigmoid, Step
from calibrant.typing import FloatArray


class PlattCalibrator(LogisticMethod):
    """Platt scaling.

    Parameters
    ----------
    scale : {"probability", "log-odds"}, default="probability"
        What the sigmoid is applied to. On log-odds the identity is among the maps that can be learned.

    Attributes
    ----------
    slope_, intercept_ : float
        The parameters a and b (two classes).
    estimators_ : list
        The binary calibrators (more than two classes).

    References
    ----------
    J. Platt. Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods.
    Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from calibrant.calibrators import PlattCalibrator
    >>> calibrator = PlattCalibrator().fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    >>> calibrator.predict_proba([0.1, 0.9])[:, 1].round(2)
    array([0.24, 0.82])
    """

    scale: Literal["probability", "log-odds"] = "probability"

    #: Where no score is above 1e-10, a slope is rounding divided by scores, and must not decide what a larger one gets.
    _ridge = 1e-20

    def _features(self, x: FloatArray) -> FloatArray:
        score = positive_probability(x) if self.scale == "probability" else x[:, 1] - x[:, 0]
        return np.stack([score, np.ones(len(score))])

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        return 1.0 / (negative + 2.0), (positive + 1.0) / (positive + 2.0)

    def _store(self, coefficients: FloatArray) -> None:
        self.slope_, self.intercept_ = (float(c) for c in coefficients)

    def _stored(self) -> list[float]:
        return [self.slope_, self.intercept_]

    def _check_binary_state(self, state: StateCheck) -> None:
        state.number("slope_")
        state.number("intercept_")

    def _binary_steps(self) -> list[Step]:
        score: list[Step] = [POSITIVE] if self.scale == "probability" else [Log(), LogOdds()]
        return [*score, Scale(self.slope_, self.intercept_), Sigmoid()]
