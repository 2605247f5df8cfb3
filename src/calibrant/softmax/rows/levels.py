"""Rows that belong to levels: an intercept and a slope for each level, of which a row uses only its own.

The features are those of vector scaling, a one and the log-probability of the class itself, once for every level and
zero outside it. They are never stored: a sparse matrix says which levels a row belongs to.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.typing import AnyArray, FloatArray, IntArray


class LevelProblem(ArrayProblem):
    """The softmax problem of intercepts and slopes by level, for solvers that ask for gradients (``solver="lbfgs"``).

    The logits of row i and class j are ``z_ij + Σ_l (b_jl + s_jl z_ij)`` over its levels l. `places` (n, c) lists them,
    -1 for none, for log-probabilities `z` (n, k). Coefficients have the shape (k, 2 n_levels), intercepts first.
    """

    def __init__(
        self, y: IntArray, z: FloatArray, places: IntArray, n_levels: int, weight: FloatArray | None = None
    ) -> None:
        super().__init__(y, z.T, weight=weight)
        rows, columns = np.nonzero(places >= 0)
        within = places[rows, columns]
        self.levels = csr_matrix((np.ones(len(rows)), (rows, within)), shape=(len(z), n_levels))
        self._transposed = self.levels.T.tocsr()
        self.shape = (self.n_classes, 2 * n_levels)

    @cached_property
    def second_moments(self) -> FloatArray:
        share = self.row_weight[:, None]
        ones, squares = self._transposed @ share, self._transposed @ (share * np.square(self.offset.T))
        return np.concatenate([np.repeat(ones.T, self.n_classes, axis=0), squares.T], axis=1)

    @cached_property
    def target(self) -> FloatArray:
        target = np.zeros((self.n_classes, self.n_rows))
        target[self.y, np.arange(self.n_rows)] = self.row_weight
        return self.adjoint(target)

    def linear(self, theta: FloatArray, out: AnyArray | None = None, onto: AnyArray | None = None) -> AnyArray:
        intercept, slope = np.split(theta, 2, axis=1)
        change = (self.levels @ intercept.T).T + (self.levels @ slope.T).T * self.offset
        if onto is not None:
            change += onto
        if out is None:
            return np.ascontiguousarray(change)
        out[:] = change
        return out

    def adjoint(self, residual: AnyArray) -> FloatArray:
        sums = self._transposed @ np.concatenate([residual, residual * self.offset]).T
        return np.concatenate([sums[:, : self.n_classes].T, sums[:, self.n_classes :].T], axis=1)
