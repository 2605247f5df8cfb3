"""Logistic regression on a handful of features, by Newton's method.

Minimises ``Σ w (log(1 + e^z) - t z) + ½ Σ ridge β²`` with ``z = F β``, for targets t anywhere in [0, 1]: Platt's
smoothed labels need more than 0 and 1. The targets only make a linear part, ``Σ w t F``, which is summed once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.softmax.solvers.searches import Answer, newton_search, run
from calibrant.typing import FloatArray

#: Squared Newton decrement, as a share of the total weight, below which a step is the last: what remains is of the
#: order of its square.
_TOLERANCE = 1e-10

#: Yields coefficients, is sent the objective with gradient and Hessian, and returns the best coefficients.
LogisticSearch = Generator[FloatArray, Answer, FloatArray]


def sigmoid(z: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def fit_logistic(
    features: FloatArray, target: FloatArray, weight: FloatArray | None = None, *, ridge: float = 0.0
) -> FloatArray:
    """Coefficients of the penalised fit to features (d, n), which include a row of ones for an intercept."""
    features = np.ascontiguousarray(features)
    known = Known(*linear_parts(features, target, weight), ridge)
    return run(known.search(), lambda beta: known.penalised(beta, unlabelled(features, beta, weight)))


def linear_parts(
    features: FloatArray, target: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, float]:
    """What of a problem does not depend on its coefficients: ``Σ w t F``, the second moments ``Σ w F²`` and ``Σ w``."""
    w = np.ones(features.shape[1]) if weight is None else weight
    return features @ (w * target), features**2 @ w, float(w.sum())


def unlabelled(features: FloatArray, beta: FloatArray, weight: FloatArray | None) -> Answer:
    """Loss sum, gradient and Hessian at `beta` as if all labels were zero."""
    from calibrant.softmax.kernels import logistic_derivatives

    n = features.shape[1]
    w = np.ones(n) if weight is None else weight
    return logistic_derivatives(None, features, beta, np.zeros(n, dtype=np.int64), w)


@dataclass
class Known:
    """The constants of a problem: `linear_parts` and the strength of the ridge."""

    pull: FloatArray
    moments: FloatArray
    total: float
    ridge: float = 0.0

    def penalised(self, beta: FloatArray, sums: Answer) -> Answer:
        """Objective, gradient and Hessian: those without labels, the targets' linear part and the ridge."""
        loss, gradient, hessian = sums
        hessian[np.diag_indices(len(beta))] += self.ridge
        objective = loss - float(beta @ self.pull) + 0.5 * self.ridge * float(beta @ beta)
        return float(objective), gradient - self.pull + self.ridge * beta, hessian

    def search(self, start: FloatArray | None = None, *, columns: Sequence[int] | None = None) -> LogisticSearch:
        """The search for the best coefficients; with `columns` all others are zero."""
        some = slice(None) if columns is None else list(columns)
        moments = self.moments[some]
        begin = np.zeros(len(moments)) if start is None else start[some]
        inner = newton_search(begin, enough=lambda at: 2.0 * at.decrement <= _TOLERANCE * self.total, moments=moments)
        beta = np.zeros(len(self.moments))
        beta[some] = next(inner)
        while True:
            value, gradient, hessian = yield beta
            try:
                beta = np.zeros(len(self.moments))
                beta[some] = inner.send((value, gradient[some], hessian[some][:, some]))
            except StopIteration as stop:
                end = stop.value
                beta[some] = end.theta + end.step if end.converged else end.theta
                return beta
