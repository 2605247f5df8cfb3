"""Logistic regression on a handful of features, by Newton's method.

Minimises ``Σ w (log(1 + e^z) - t z) + ½ Σ ridge β²`` with ``z = F β``, for targets t anywhere in [0, 1]: Platt's
smoothed labels need more than 0 and 1.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.solvers.damped_newton import damped_newton
from calibrant.typing import FloatArray

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
    from calibrant.softmax.kernels import logistic_derivatives

    d, n = features.shape
    features = np.ascontiguousarray(features)
    w = np.ones(n) if weight is None else weight
    total = float(w.sum())
    pull = features @ (w * target)
    offset, no_label = np.zeros((2, n)), np.zeros(n, dtype=np.int64)

    def evaluate(beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Objective, gradient and Hessian: those of labels that are all zero, and the targets' linear part."""
        loss, gradient, hessian = logistic_derivatives(offset, features, beta, no_label, w)
        hessian[np.diag_indices(d)] += ridge
        objective = loss - float(beta @ pull) + 0.5 * ridge * float(beta @ beta)
        return objective, gradient - pull + ridge * beta, hessian

    end = damped_newton(
        evaluate, np.zeros(d), enough=lambda at: 2.0 * at.decrement <= _TOLERANCE * total, moments=features**2 @ w
    )
    return end.theta + end.step if end.converged else end.theta
