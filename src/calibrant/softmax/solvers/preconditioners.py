"""Preconditioners for conjugate gradients on the softmax Hessian.

Un-centred log-probabilities couple intercept and weights strongly; both preconditioners undo that by inverting
an approximation of each class's own diagonal block ``(1/n) Σ_i w_i p_ij (1 − p_ij) f_i f_iᵀ + diag(2s_j)`` and
leaving the coupling between classes to the iteration.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from calibrant.softmax.problem import Point
from calibrant.typing import FloatArray

#: Relative size of what is added to a block's diagonal so that directions without curvature can be inverted.
_FLOOR = 1e-10


class Factored:
    """The exact Hessian, factored: O(n D² + D³) for D parameters, for small problems."""

    #: A few conjugate gradient steps show that the point has moved too far from where this was made.
    patience = 4

    def __init__(self, hessian: FloatArray, curvature: FloatArray) -> None:
        diagonal = np.einsum("ii->i", hessian)
        diagonal += curvature.ravel()
        # Features of very different size (x² beside 1) are brought to one scale, so that one jitter serves all.
        self._scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).tiny))
        hessian *= self._scale
        hessian *= self._scale[:, None]
        jitter = 1e-14
        while True:  # directions without curvature (a constant added to all classes) make the matrix singular
            diagonal += jitter
            self._factor, failed = dpotrf(hessian, lower=True, clean=False)
            if not failed:
                break
            jitter *= 100.0

    def solve(self, residual: FloatArray) -> FloatArray:
        solved, _ = dpotrs(self._factor, self._scale * residual.ravel(), lower=True)
        return (self._scale * solved).reshape(residual.shape)


class ClassBlocks:
    """The exact diagonal block of each class, inverted: O(k n p²) for p features, for few classes."""

    patience = 15

    def __init__(self, point: Point, curvature: FloatArray) -> None:
        blocks = point.class_blocks()
        diagonal = np.einsum("jqq->jq", blocks)
        diagonal += curvature + _FLOOR * diagonal.max(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        self._inverse = np.linalg.inv(blocks)

    def solve(self, residual: FloatArray) -> FloatArray:
        return np.matmul(self._inverse, residual[:, :, None])[:, :, 0]


class SharedGram:
    """One Gram matrix for all classes, scaled by each class's mean curvature: O(n p² + p³), for many classes.

    ``B_j = c_j Ḡ + diag(base) + δ_j e_q e_qᵀ`` where ``base`` holds the strengths common to all classes and the
    rank-one term the one coefficient (the diagonal weight) that class j penalises differently.
    """

    patience = 25

    def __init__(self, point: Point, curvature: FloatArray) -> None:
        gram, scale, own = point.mean_curvature()
        d = len(gram)
        shared = curvature[:, :d]
        base = np.median(shared, axis=0)
        base += _FLOOR * scale.mean() * np.diag(gram) + np.finfo(np.float64).tiny
        root = 1.0 / np.sqrt(base)
        values, vectors = eigh(gram * root * root[:, None])
        self._basis = root[:, None] * vectors
        self._damping = 1.0 / (scale[:, None] * np.maximum(values, 0.0) + 1.0)
        rows = np.arange(len(shared))
        self._odd = np.argmax(np.abs(shared - base), axis=1)
        delta = shared[rows, self._odd] - base[self._odd]
        self._column = (self._basis[self._odd] * self._damping) @ self._basis.T
        self._factor = delta / (1.0 + delta * self._column[rows, self._odd])
        self._own = own + curvature[:, d:] + np.finfo(np.float64).tiny
        self._rows = rows

    def solve(self, residual: FloatArray) -> FloatArray:
        d = self._basis.shape[0]
        out = np.empty_like(residual)
        plain = ((residual[:, :d] @ self._basis) * self._damping) @ self._basis.T
        correction = self._factor * plain[self._rows, self._odd]
        out[:, :d] = plain - correction[:, None] * self._column
        out[:, d:] = residual[:, d:] / self._own
        return out
