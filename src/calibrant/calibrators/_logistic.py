"""Logistic regression on a handful of features, by Newton's method.

Minimises ``Σ w (log(1 + e^z) - t z) + ½ Σ ridge β²`` with ``z = F β``, for targets t anywhere in [0, 1]: Platt's
smoothed labels need more than 0 and 1.
"""

from __future__ import annotations

import numpy as np

from ..simplex import FloatArray

_MAX_ITERATIONS = 100

#: Squared Newton decrement, as a share of the total weight, below which the optimum is reached.
_TOLERANCE = 1e-20


def sigmoid(z: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def logistic_loss(z: FloatArray, target: FloatArray, weight: FloatArray | None) -> float:
    """Sum of the log losses of log-odds `z`."""
    loss = np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))) - target * z
    return float(loss.sum() if weight is None else weight @ loss)


def fit_logistic(
    features: FloatArray,
    target: FloatArray,
    weight: FloatArray | None = None,
    *,
    ridge: float | FloatArray = 0.0,
    start: FloatArray | None = None,
) -> FloatArray:
    """Coefficients of the penalised fit.

    Parameters
    ----------
    features : ndarray of shape (n, d)
        Include a column of ones for an intercept.
    target : ndarray of shape (n,)
        Probabilities of the positive label.
    weight : ndarray of shape (n,), default=None
        Row weights.
    ridge : float or ndarray of shape (d,), default=0.0
        Penalty of the squared coefficients.
    start : ndarray of shape (d,), default=None
        Where to begin; zero by default.

    Examples
    --------
    >>> fit_logistic(np.ones((4, 1)), np.array([0.0, 1.0, 1.0, 1.0])).round(4)  # log(3)
    array([1.0986])
    """
    n, d = features.shape
    ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (d,))
    beta = np.zeros(d) if start is None else start.copy()
    total = float(n) if weight is None else float(weight.sum())

    def value(z: FloatArray, beta: FloatArray) -> float:
        return logistic_loss(z, target, weight) + 0.5 * float(ridge @ beta**2)

    z = features @ beta
    current = value(z, beta)
    for _ in range(_MAX_ITERATIONS):
        p = sigmoid(z)
        residual, curvature = p - target, p * (1.0 - p)
        if weight is not None:
            residual *= weight
            curvature *= weight
        gradient = residual @ features + ridge * beta
        hessian = (features * curvature[:, None]).T @ features
        hessian[np.diag_indices(d)] += ridge
        # Collinear features (constant predictions) leave directions without curvature: the step avoids them.
        step = -np.linalg.lstsq(hessian, gradient, rcond=1e-14)[0]
        decrement = -float(gradient @ step)
        if decrement <= _TOLERANCE * total:
            break
        move = features @ step
        length = 1.0
        while length > 1e-10:
            candidate = value(z + length * move, beta + length * step)
            if candidate <= current - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break  # rounding decides: the optimum is reached
        z += length * move
        beta += length * step
        current = candidate
    return beta
