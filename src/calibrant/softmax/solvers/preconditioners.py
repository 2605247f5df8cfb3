"""Preconditioners for conjugate gradients on the softmax Hessian.

Un-centred log-probabilities couple intercept and weights strongly; the preconditioners undo that by inverting
an approximation of each class's own diagonal block ``(1/n) Σ_i w_i p_ij (1 − p_ij) f_i f_iᵀ + diag(2s_j)`` and
leaving the coupling between classes to the iteration.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.problem import ClassMoments
from calibrant.typing import FloatArray

#: From this many shared features on, a diagonal and a mean replace the block of each class: factoring the blocks would
#: cost more than the iterations they save.
MANY_FEATURES = 20
#: Added to a block's diagonal, relative to its size, so that it can be inverted where it has no curvature.
_FLOOR = 1e-10
_TINY = float(np.finfo(np.float64).tiny)


class ClassBlocks:
    """The exact diagonal block of each class, inverted: O(k n p²) for p features, for few classes."""

    patience = 15

    def __init__(self, blocks: FloatArray, curvature: FloatArray) -> None:
        blocks = blocks.copy()
        diagonal = np.einsum("jqq->jq", blocks)
        diagonal += curvature + _FLOOR * diagonal.max(axis=1, keepdims=True) + _TINY
        self._inverse = np.linalg.inv(blocks)

    def solve(self, residual: FloatArray) -> FloatArray:
        return np.matmul(self._inverse, residual[:, :, None])[:, :, 0]


class ClassMeans:
    """The diagonal and the mean of each class's block, inverted: O(n k p) for p features, for many classes.

    A class's block is ``c_j (cov_j + μ_j μ_jᵀ) + diag(2s_j)``, with moments under the weights ``p_ij (1 − p_ij)``. Its
    one large eigenvalue belongs to the mean ``μ_j`` of log-probabilities that are all far from zero; of the covariance,
    small beside the penalty where there are many classes, the diagonal suffices. A diagonal plus a matrix of rank one
    is inverted by the formula of Sherman and Morrison. Means and variances are those of the class itself, since its own
    log-probability is near zero where it is likely at all: a Gram matrix that all classes share takes twice as many
    products.
    """

    patience = 25

    def __init__(self, moments: ClassMoments, curvature: FloatArray) -> None:
        scale, first, square = moments
        mean = first / np.maximum(scale, _TINY)[:, None]
        variance = np.maximum(square - first * mean, _FLOOR * square)
        self._inverse = 1.0 / (curvature + variance + _TINY)
        self._solved = mean * self._inverse
        self._factor = scale / (1.0 + scale * np.einsum("jq,jq->j", mean, self._solved))

    def solve(self, residual: FloatArray) -> FloatArray:
        along = self._factor * np.einsum("jq,jq->j", self._solved, residual)
        out = residual * self._inverse
        out -= along[:, None] * self._solved
        return out
