"""The binary logistic family: ``σ(γ x² + α x + β)`` of the log-odds ``x``.

Linear scaling has only the slope ``α``, affine scaling also the intercept ``β``, quadratic scaling also the curvature
``γ``, which is exact when the log-odds of both classes are Gaussian with different variances.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import NotNegative
from calibrant.calibrators.probability_intervals import LogitModel
from calibrant.calibrators.scaling.structured import McpGamma, PenalisedCalibrator, delta_covariance, make_penalty
from calibrant.calibrators.scaling.temperature import learn_input_weight, mixed_logs
from calibrant.calibrators.state import StateCheck
from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR
from calibrant.softmax.penalties import Penalty
from calibrant.softmax.rows.row_source import ArrayRows, Features, Rows, namespace
from calibrant.steps import Clip, LogOdds, Polynomial, Sigmoid, Step
from calibrant.typing import FloatArray

_FEATURES = {"linear": 1, "affine": 2, "quadratic": 3}


def two_class_log_odds(x: FloatArray) -> FloatArray:
    """Log-odds of the second class from log-probabilities (n, 2), clipped to ``±|LOG_FLOOR|``."""
    return (x[:, 1] - x[:, 0]).clip(LOG_FLOOR, -LOG_FLOOR)


def require_two_classes(calibrator: Calibrator, n_classes: int) -> None:
    """Raise an error that says that a method is for two classes only."""
    if n_classes != 2:
        raise ValueError(
            f"{type(calibrator).__name__} is for two classes, X has {n_classes} columns. For more classes use "
            "SMSCalibrator or LogisticCalibrator, or put it into a OneVsRestCalibrator."
        )


class BinaryLogisticCalibrator(PenalisedCalibrator, kw_only=False):
    """Linear, affine or quadratic function of the log-odds, for two classes.

    Parameters
    ----------
    function : {"quadratic", "affine", "linear"}, default="quadratic"
        Which function of the log-odds.
    penalty : {"ridge", "lasso", "mcp"} or None, default=None
        Penalty on the parameters, each with its own strength.
    lambda_intercept, lambda_linear, lambda_quadratic : float, default=0.0
        Strengths, applied to the mean loss as they are.

    Attributes
    ----------
    coef_, intercept_, quadratic_ : float
        ``α``, ``β`` and ``γ``.

    Examples
    --------
    >>> from calibrant import BinaryLogisticCalibrator
    >>> affine = BinaryLogisticCalibrator("affine").fit([0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [1, 1, 0, 0, 0, 1])
    >>> affine.predict_proba([0.9]).round(3)
    array([[0.333, 0.667]])
    """

    function: Literal["quadratic", "affine", "linear"] = "quadratic"
    penalty: Literal["ridge", "lasso", "mcp"] | None = None
    lambda_intercept: NotNegative = 0.0
    lambda_linear: NotNegative = 0.0
    lambda_quadratic: NotNegative = 0.0
    mcp_gamma: McpGamma = 3.0

    def _fit_rows(self, rows: Rows) -> None:
        require_two_classes(self, rows.n_classes)
        self.input_smoothing_ = learn_input_weight(rows, self.input_smoothing)
        rows = rows.mapped(mixed_logs(self.input_smoothing_)) if self.input_smoothing_ else rows
        theta = np.zeros(3)
        found = self._solve(rows.problem(self._features, first_free=1), self._make_penalty())
        theta[: _FEATURES[self.function]] = found[0]
        self.coef_, self.intercept_, self.quadratic_ = (float(value) for value in theta)

    def _features(self, x: FloatArray) -> Features:
        t, xp = two_class_log_odds(x), namespace(x)
        return Features(xp.zeros_like(x.T), xp.stack([t, xp.ones_like(t), t * t])[: _FEATURES[self.function]])

    def _make_penalty(self) -> Penalty:
        lambdas = (self.lambda_linear, self.lambda_intercept, self.lambda_quadratic)[: _FEATURES[self.function]]
        return make_penalty(self.penalty, np.array([lambdas]), mcp_gamma=self.mcp_gamma)

    def _coefficient_covariance(self, sample: Sample) -> FloatArray | None:
        rows = ArrayRows(sample).mapped(mixed_logs(self.input_smoothing_))
        theta = np.array([[self.coef_, self.intercept_, self.quadratic_][: _FEATURES[self.function]]])
        return delta_covariance(rows.problem(self._features, first_free=1), theta, self._make_penalty(), sample)

    def _logit_model(self) -> LogitModel:
        return LogitModel(len(mixed_logs(self.input_smoothing_)), 0, self._features)

    def _check_state(self, state: StateCheck) -> None:
        super()._check_state(state)
        state.require(state.k == 2, "two classes are expected")
        state.number("input_smoothing_", 0.0, 1.0)
        for name in ("coef_", "intercept_", "quadratic_"):
            state.number(name)

    def steps(self) -> list[Step]:
        polynomial = Polynomial(np.array([self.intercept_, self.coef_, self.quadratic_]))
        clip = Clip(LOG_FLOOR, -LOG_FLOOR)
        return [*mixed_logs(self.input_smoothing_), LogOdds(), clip, polynomial, Sigmoid()]
