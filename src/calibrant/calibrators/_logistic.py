"""Logistic regression on a handful of features, by Newton's method.

Minimises ``Σ w (log(1 + e^z) - t z) + ½ Σ ridge β²`` with ``z = F β``, for targets t anywhere in [0, 1]: Platt's
smoothed labels need more than 0 and 1.
"""

from __future__ import annotations

import numpy as np

from ..simplex import FloatArray

_MAX_ITERATIONS = 100

#: Squared Newton decrement, as a share of the total weight, below which a step is the last: what remains is of the
#: order of its square.
_TOLERANCE = 1e-10


def sigmoid(z: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def fit_logistic(
    features: FloatArray, target: FloatArray, weight: FloatArray | None = None, *, ridge: float = 0.0
) -> FloatArray:
    """Coefficients of the penalised fit.

    Parameters
    ----------
    features : ndarray of shape (d, n)
        Include a row of ones for an intercept.
    target : ndarray of shape (n,)
        Probabilities of the positive label.
    weight : ndarray of shape (n,), default=None
        Weights of the observations.
    ridge : float, default=0.0
        Penalty of the squared coefficients.

    Examples
    --------
    >>> fit_logistic(np.ones((1, 4)), np.array([0.0, 1.0, 1.0, 1.0])).round(4)  # log(3)
    array([1.0986])
    """
    d, n = features.shape
    total = float(n) if weight is None else float(weight.sum())
    weighted_target = features @ (target if weight is None else weight * target)
    beta = np.zeros(d)

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Objective, probabilities and their variances."""
        z = beta @ features
        e = np.exp(-np.abs(z))
        q = 1.0 / (1.0 + e)
        loss = np.maximum(z, 0.0) - np.log(q)
        value = float(loss.sum() if weight is None else weight @ loss)
        penalty = 0.5 * ridge * float(beta @ beta)
        e *= q
        return value - float(beta @ weighted_target) + penalty, np.where(z >= 0.0, q, e), e * q

    current, p, variance = evaluate(beta)
    for _ in range(_MAX_ITERATIONS):
        if weight is not None:
            p *= weight
            variance *= weight
        gradient = features @ p - weighted_target + ridge * beta
        hessian = (features * variance) @ features.T
        hessian[np.diag_indices(d)] += ridge
        # Collinear features (constant predictions) leave directions without curvature: the step avoids them.
        step = -np.linalg.lstsq(hessian, gradient, rcond=1e-14)[0]
        decrement = -float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            candidate = evaluate(beta + length * step)
            if candidate[0] <= current - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break  # rounding decides: the optimum is reached
        beta += length * step
        if decrement <= _TOLERANCE * total:
            break
        current, p, variance = candidate
    return beta
