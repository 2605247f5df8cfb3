"""The penalised loss of the logistic calibrators, written down a second time from their formulas.

Everything is computed from what a fitted calibrator shows (`coef_`, `intercept_`, `inverse_temperature_`, ...), in
plain NumPy and SciPy, so that it can be compared with the stored `objective_` and be minimised by another solver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

FLOOR = float(np.log(np.finfo(np.float32).tiny))


def log_rows(p: np.ndarray) -> np.ndarray:
    p = p.astype(float)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p / p.sum(axis=1, keepdims=True)), FLOOR)


def mean_loss(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    return float(-np.average(log_softmax(z, axis=1)[np.arange(len(y)), y], weights=w))


class Objective:
    """The objective of a fitted calibrator as a function of its coefficients."""

    def __init__(self, calibrator: Any, p: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
        w = np.ones(len(y)) if weight is None else weight
        kept = w > 0.0
        self.y, self.w, self.n = y[kept], w[kept], float(w.sum())
        self.calibrator = calibrator
        self.x = self._features(log_rows(p[kept]))

    def _features(self, x: np.ndarray) -> np.ndarray:
        cal, k = self.calibrator, x.shape[1]
        u = getattr(cal, "input_smoothing_", 0.0)
        if u:
            x = np.log((1.0 - u) * np.exp(x) + u / k)
        if getattr(cal, "preprocess", None) == "ts":
            s = 1.0 / (self.n + 1.0)
            q = (1.0 - s) * np.exp(log_softmax(cal.inverse_temperature_ * x, axis=1)) + s / k
            x = np.maximum(np.log(q), FLOOR)
        return x

    @property
    def stored(self) -> np.ndarray:
        """The stored coefficients as one vector."""
        cal = self.calibrator
        if hasattr(cal, "quadratic_"):
            size = {"linear": 1, "affine": 2, "quadratic": 3}[cal.function]
            return np.array([cal.coef_, cal.intercept_, cal.quadratic_][:size])
        if not hasattr(cal, "coef_"):
            return np.array([cal.inverse_temperature_])
        return np.concatenate([np.ravel(cal.coef_), cal.intercept_])

    def _logits(self, theta: np.ndarray) -> np.ndarray:
        cal, x, k = self.calibrator, self.x, self.x.shape[1]
        if hasattr(cal, "quadratic_"):
            t = x[:, 1] - x[:, 0]
            z = sum(c * f for c, f in zip(theta, (t, np.ones_like(t), t * t)))
            return np.column_stack([np.zeros_like(z), z])
        if not hasattr(cal, "coef_"):
            return theta[0] * x
        coef, intercept = theta[:-k], theta[-k:]
        return (x * coef if cal.coef_.ndim == 1 else x @ coef.reshape(k, k).T) + intercept

    def rounding(self, theta: np.ndarray) -> float:
        """What rounding may change in the loss: logits are sums of terms that may be far larger than they are."""
        return float(np.finfo(float).eps * np.abs(theta).max() * max(1.0, np.abs(self.x).sum(axis=1).max()))

    def _groups(self, theta: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """Strength and coefficients of every group that is penalised."""
        cal, k = self.calibrator, self.x.shape[1]
        if hasattr(cal, "quadratic_"):
            strengths = (cal.lambda_linear, cal.lambda_intercept, cal.lambda_quadratic)
            return [(s, theta[i : i + 1]) for i, s in enumerate(strengths[: len(theta)])] if cal.penalty else []
        if not hasattr(cal, "coef_"):
            return []
        coef, intercept = theta[:-k], theta[-k:]
        if hasattr(cal, "regularization"):
            lam = cal.lambda_coef_ if hasattr(cal, "lambda_coef_") else cal.lambda_coef
            if cal.regularization == "l2":
                return [(lam, theta)]
            off = ~np.eye(k, dtype=bool).ravel()
            return [
                (lam, coef[off]),
                (cal.lambda_intercept_ if hasattr(cal, "lambda_intercept_") else cal.lambda_intercept, intercept),
            ]
        if cal.penalty is None:
            return []
        scale = k**cal.rho / self.n**cal.tau
        if cal.coef_.ndim == 1:
            return [(cal.lambda_intercept * scale, intercept), (cal.lambda_diagonal * scale, coef - 1.0)]
        matrix = coef.reshape(k, k)
        off = matrix[~np.eye(k, dtype=bool)]
        wide = cal.lambda_off_diagonal * (k * (k - 1)) ** cal.rho / self.n**cal.tau
        return [
            (cal.lambda_intercept * scale, intercept),
            (cal.lambda_diagonal * scale, np.diag(matrix) - 1.0),
            (wide, off),
        ]

    def _penalty(self, theta: np.ndarray) -> float:
        kind = getattr(self.calibrator, "penalty", "ridge")
        value = 0.0
        for s, t in self._groups(theta):
            size = np.abs(t)
            if kind == "lasso":
                value += s * float(size.sum())
            elif kind == "group_lasso":
                value += s * float(np.linalg.norm(t))
            elif kind == "mcp":
                g = self.calibrator.mcp_gamma
                value += float(np.where(size <= g * s, s * size - size**2 / (2 * g), g * s * s / 2).sum())
            else:
                value += s * float(t @ t)
        return value

    def __call__(self, theta: np.ndarray) -> float:
        return mean_loss(self._logits(theta), self.y, self.w) + self._penalty(theta)

    def lower_value(self, steps: int = 60) -> float:
        """The least objective another solver finds, started at the stored coefficients."""
        function: Callable[[np.ndarray], float] = self
        with np.errstate(all="ignore"):
            found = minimize(function, self.stored, method="Powell" if len(self.stored) <= 3 else "L-BFGS-B",
                             options={"maxiter": steps})  # fmt: skip
        return min(float(found.fun), function(self.stored))
