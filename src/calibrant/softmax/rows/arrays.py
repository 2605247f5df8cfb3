"""Rows in memory: the softmax problem on NumPy arrays, summed by fused kernels.

Matrices are stored class-major, (k, n), as the kernels need them. A point holds the probabilities of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calibrant.softmax.problem import ClassMoments, Point, SoftmaxProblem
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Numbers handled at a time when curvature is accumulated (1 MiB): they stay in the cache.
_AT_ONCE = 1 << 17
#: Row stride of the rough Hessian, and the least number of its rows per parameter.
_ROUGH = 4
_ROWS_PER_PARAMETER = 10
#: The least curvature of a row when rows are drawn: one whose prediction is certain to rounding would else never be
#: drawn, and when it were, have a huge weight.
_LEAST_CURVATURE = 1e-6

#: Coefficients from this on may overflow in single precision when they are multiplied by features.
_OVERFLOWING = 1e30


class ArrayProblem(SoftmaxProblem):
    """Mean log loss of a linear softmax model on arrays, for column numbers `y` of the labels and counts `weight`.

    The features are those of `calibrant.softmax.rows.row_source.Features`. Classes before `first_free` have no
    coefficients: 1 makes the first class the reference of a binary model. `dtype` is the precision of the large
    matrices; sums that make up the loss are float64 always.
    """

    in_memory = True

    def __init__(
        self,
        y: NDArray[np.int64],
        offset: AnyArray,
        *,
        shared: AnyArray | None = None,
        own: AnyArray | None = None,
        weight: FloatArray | None = None,
        first_free: int = 0,
        dtype: DTypeLike = np.float64,
    ) -> None:
        k, n = offset.shape
        self.n_classes, self.n_rows = k, n
        self.dtype = np.dtype(dtype)
        self.precision = float(np.finfo(self.dtype).eps)
        self.y = np.ascontiguousarray(y, dtype=np.int64)
        self.offset = np.ascontiguousarray(offset, dtype=dtype)
        self.shared = np.ascontiguousarray(np.empty((0, n)) if shared is None else shared, dtype=dtype)
        self.own = np.ascontiguousarray(np.empty((0, k, n)) if own is None else own, dtype=dtype)
        self.total_weight = float(n) if weight is None else float(weight.sum())
        share = np.full(n, 1.0 / n) if weight is None else weight / self.total_weight
        self.row_weight = share.astype(dtype)
        #: The weight of every row, if all are equal: sums are multiplied by it instead of every matrix.
        self.equal_weight = 1.0 / n if weight is None else None
        self.first_free = first_free
        self.n_shared, self.n_own = len(self.shared), len(self.own)
        self.shape = (k - first_free, self.n_shared + self.n_own)
        self._share = share

    @cached_property
    def second_moments(self) -> FloatArray:
        out = np.empty(self.shape)
        out[:, : self.n_shared] = np.square(self.shared) @ self.row_weight
        out[:, self.n_shared :] = (np.square(self.own[:, self.first_free :]) @ self.row_weight).T
        return out

    @cached_property
    def target(self) -> FloatArray:
        """The part of the gradient that the labels make, ``Σ_i w_i 1[y_i = j] f_i``: it never changes."""
        # Equal weights come in last, as in the gradient: counts have no rounding, which flat directions would blow up.
        share, factor = (self._share, 1.0) if self.equal_weight is None else (1.0, self.equal_weight)
        k, rows, sums = self.n_classes, np.arange(self.n_rows), np.zeros((self.n_classes, self.shape[1]))
        for d, feature in enumerate(self.shared):
            sums[:, d] = np.bincount(self.y, share * feature, minlength=k)
        for m, feature in enumerate(self.own):
            sums[:, self.n_shared + m] = np.bincount(self.y, share * feature[self.y, rows], minlength=k)
        return factor * sums[self.first_free :]

    @cached_property
    def scratch(self) -> AnyArray:
        """A (k, n) matrix used and overwritten within one call: new memory each time would cost more than the sums."""
        return np.empty((self.n_classes, self.n_rows), dtype=self.dtype)

    @cached_property
    def _ends(self) -> tuple[AnyArray, AnyArray]:
        """The largest offset of each row, and that of its label."""
        return self.offset.max(axis=0), self.offset[self.y, np.arange(self.n_rows)]

    def linear(self, theta: FloatArray, out: AnyArray | None = None, onto: AnyArray | None = None) -> AnyArray:
        """``F Θᵀ + G Θ``, shape (k, n): the change of the logits that coefficients `theta` make, added to `onto`."""
        theta, d = theta.astype(self.dtype, copy=False), self.n_shared
        z = np.empty((self.n_classes, self.n_rows), dtype=self.dtype) if out is None else out
        free = z[self.first_free :]
        if d > 1 or not self.n_own:
            np.matmul(theta[:, :d], self.shared, out=free)
            z[: self.first_free] = 0.0
            if onto is not None:
                z += onto
        else:
            z[:] = 0.0 if onto is None else onto
        if self.n_own:
            from calibrant.softmax.kernels import add_features

            # A single shared feature is added with the own ones; if there is none, any row of this length, times zero.
            line, slope = (self.shared[0], theta[:, 0]) if d == 1 else (self.row_weight, 0.0 * theta[:, 0])
            slope, rest = np.ascontiguousarray(slope), np.ascontiguousarray(theta[:, d:])  # one layout to compile for
            add_features(free, line, slope, self.own[:, self.first_free :], rest)
        return z

    def adjoint(self, residual: AnyArray) -> FloatArray:
        """Sums over rows of residuals (k, n) times features: the transpose of `linear`."""
        residual = residual[self.first_free :]
        out = np.empty(self.shape)
        if self.n_shared:
            out[:, : self.n_shared] = residual @ self.shared.T
        if self.n_own:
            from calibrant.softmax.kernels import own_sums

            own_sums(residual, self.own[:, self.first_free :], out[:, self.n_shared :])
        return out

    def logits(self, theta: FloatArray, out: AnyArray | None = None) -> AnyArray:
        """Logits (k, n) at coefficients `theta`."""
        none = out is None and not theta.any()
        return self.offset.copy() if none else self.linear(theta, out=out, onto=self.offset)

    def largest_change(self, theta: FloatArray) -> float:
        """The largest change of a logit that coefficients `theta` make; infinite where that could overflow."""
        if not np.max(np.abs(theta), initial=0.0) < _OVERFLOWING:
            return np.inf
        change = self.linear(theta, out=self.scratch)
        return max(float(change.max()), -float(change.min()))

    def at(self, theta: FloatArray, *, reuse: Point | None = None) -> ArrayPoint:
        from calibrant.softmax.kernels import softmax_loss

        z = self.logits(theta, out=reuse.p if isinstance(reuse, ArrayPoint) else None)
        loss = softmax_loss(z, self.y, self.row_weight)
        return ArrayPoint(self, z, float(loss))

    def scaled(self, alpha: float) -> tuple[float, float, float]:
        """Mean log loss at `alpha` > 0 times the offset, and its first two derivatives in `alpha`."""
        from calibrant.softmax.kernels import logistic_derivatives, scaled_derivatives

        if self.n_classes == 2:  # by the kernel that binary methods need anyway: one less to compile
            odds, scale = (self.offset[1] - self.offset[0])[None], np.array([float(alpha)])
            loss, slope, bend = logistic_derivatives(None, odds, scale, self.y, self.row_weight)
            return loss, float(slope[0]), float(bend[0, 0])
        return scaled_derivatives(self.offset, *self._ends, float(alpha), self.row_weight)

    def always_right(self) -> bool:
        """Whether the label of every row has the largest offset."""
        largest, of_label = self._ends
        return bool(np.all(of_label >= largest))

    def class_features(self, j: int) -> AnyArray:
        """All features that class `j` sees, (n_shared + n_own, rows)."""
        return np.concatenate([self.shared, self.own[:, j]]) if self.n_own else self.shared

    def derivatives(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        if self.n_classes == 2 and self.first_free == 1 and not self.n_own:
            from calibrant.softmax.kernels import logistic_derivatives

            odds = self.offset[1] - self.offset[0]
            loss, gradient, hessian = logistic_derivatives(odds, self.shared, theta[0], self.y, self.row_weight)
            return float(loss), gradient[None], hessian
        return super().derivatives(theta)

    def single_precision(self) -> ArrayProblem | None:
        return self.astype(np.float32) if self.dtype == np.float64 else None

    def some(self, rows: IntArray, factor: FloatArray) -> ArrayProblem:
        """The problem of some of the rows, whose weights times `factor` stand for those of all."""
        other = self._without("target", "second_moments", "scratch", "_ends")
        other.n_rows = len(rows)
        other._share = self._share[rows] * factor
        other.row_weight = other._share.astype(self.dtype)
        other.equal_weight = None
        other.y = self.y[rows]
        other.own = self.own.take(rows, axis=2)
        other._place(self.shared.take(rows, axis=1), lambda: self.offset.take(rows, axis=1))
        return other

    def _without(self, *cached: str) -> ArrayProblem:
        """A copy that computes these again."""
        other = object.__new__(ArrayProblem)
        other.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in cached)
        return other

    def _place(self, shared: AnyArray, offset: Callable[[], AnyArray]) -> None:
        """Set changed features; in matrix scaling their first rows are the offset: keep one copy."""
        inside = np.shares_memory(self.offset, self.shared) and self.n_classes <= self.n_shared
        self.offset = shared[: self.n_classes] if inside else offset()
        self.shared = shared

    def astype(self, dtype: DTypeLike) -> ArrayProblem:
        """The same problem with its matrices in another precision."""
        other = self._without("scratch", "_ends")
        other.target = self.target  # sums of the exact features
        other.dtype = np.dtype(dtype)
        other.precision = float(np.finfo(other.dtype).eps)
        other.own = self.own.astype(dtype)
        other.row_weight = self.row_weight.astype(dtype)
        other._place(self.shared.astype(dtype), lambda: self.offset.astype(dtype))
        return other


class ArrayPoint(Point):
    """Mean log loss at certain coefficients, with the probabilities `p` (k, n) of all rows."""

    def __init__(self, problem: ArrayProblem, p: AnyArray, loss: float) -> None:
        self.problem = problem
        self.p = p
        self.loss = loss

    def gradient(self) -> FloatArray:
        problem = self.problem
        if problem.equal_weight is not None:
            return problem.equal_weight * problem.adjoint(self.p) - problem.target
        return problem.adjoint(np.multiply(self.p, problem.row_weight, out=problem.scratch)) - problem.target

    def hessian_vector_product(self, direction: FloatArray) -> FloatArray:
        from calibrant.softmax.kernels import apply_curvature, own_curvature

        problem, p = self.problem, self.p
        if problem.n_own and problem.n_shared <= 1 and not problem.first_free:  # no product that BLAS could do better
            narrow = direction.astype(problem.dtype, copy=False)
            return own_curvature(p, problem.shared, problem.own, narrow, problem.row_weight)
        d = problem.linear(direction, out=problem.scratch)
        apply_curvature(p, d, problem.row_weight)
        return problem.adjoint(d)

    def hessian(self) -> FloatArray:
        return self._hessian_of_rows(1)

    def rough_hessian(self, every: int | None = None, dtype: DTypeLike | None = None) -> FloatArray:
        enough = self.problem.n_rows >= _ROUGH * _ROWS_PER_PARAMETER * self.problem.n_parameters
        return self._hessian_of_rows(every or (_ROUGH if enough else 1), dtype)

    def _hessian_of_rows(self, every: int, dtype: DTypeLike | None = None) -> FloatArray:
        """The dense Hessian, estimated from every n-th row.

        With ``a_i = p_i ⊗ f_i`` it is ``blockdiag(Σ_i w_i p_ij f_i f_iᵀ) − Σ_i w_i a_i a_iᵀ``: one symmetric
        product of the size of the problem, instead of one for each pair of classes.
        """
        problem, first = self.problem, self.problem.first_free
        r, q = problem.shape
        d = problem.n_shared
        # Feature-major: products of whole (classes, rows) matrices.
        out, blocks = np.zeros((q * r, q * r)), np.zeros((q, r, q))
        n = -(-problem.n_rows // every)
        at_once = min(max(_AT_ONCE // (r * q), 256), n)
        buffer = np.empty((q, r, at_once), dtype=problem.dtype if dtype is None else dtype)
        layout: Literal["C", "K"] = "C" if every > 1 else "K"  # rows far apart are brought together
        for start in range(0, n, at_once):
            rows = slice(start * every, (start + at_once) * every, every)
            parts = self.p[first:, rows], problem.shared[:, rows], problem.own[:, first:, rows]
            p, shared, own = (part.astype(buffer.dtype, layout, copy=every > 1) for part in parts)
            a = buffer[:, :, : p.shape[1]]
            for feature, product in zip((*shared, *own), a, strict=True):
                np.multiply(p, feature, out=product)
            if problem.equal_weight is None:
                root = np.sqrt(problem.row_weight[rows]).astype(buffer.dtype, copy=False)
                a *= root
                shared, own = shared * root, own * root
            flat = a.reshape(q * r, -1)
            if d:
                blocks[:, :, :d] += (flat @ shared.T).reshape(q, r, d)
            for m in range(q - d):
                blocks[:, :, d + m] += np.einsum("qjn,jn->qj", a, own[m])
            out -= flat @ flat.T
        factor = (problem.n_rows / n) * (1.0 if problem.equal_weight is None else problem.equal_weight)
        out *= factor
        blocks *= factor
        hessian = np.ascontiguousarray(out.reshape(q, r, q, r).transpose(1, 0, 3, 2))
        np.einsum("jajb->jab", hessian)[:] += blocks.transpose(1, 0, 2)
        return hessian.reshape(r * q, r * q)

    def hessian_of(self, coefficients: IntArray) -> FloatArray:
        problem, m = self.problem, len(coefficients)
        of_class, feature = np.divmod(coefficients, problem.shape[1])
        column, own = of_class + problem.first_free, feature >= problem.n_shared
        out, blocks = np.zeros((m, m)), np.zeros((m, m))
        features = np.empty((m, min(max(_AT_ONCE // m, 256), problem.n_rows)), dtype=problem.dtype)
        for start in range(0, problem.n_rows, features.shape[1]):
            rows = slice(start, min(start + features.shape[1], problem.n_rows))
            f = features[:, : rows.stop - start]
            f[~own] = problem.shared[feature[~own], rows]
            f[own] = problem.own[feature[own] - problem.n_shared, column[own], rows]
            f *= np.sqrt(problem.row_weight[rows])
            a = self.p[column, rows] * f
            blocks += a @ f.T
            out -= a @ a.T
        out += np.where(of_class[:, None] == of_class, blocks, 0.0)
        return out

    def class_blocks(self) -> FloatArray:
        problem = self.problem
        r, q = problem.shape
        blocks = np.empty((r, q, q))
        for j in range(r):
            row = self.p[problem.first_free + j]
            features = problem.class_features(problem.first_free + j)
            blocks[j] = (features * (problem.row_weight * row * (1.0 - row))) @ features.T
        return blocks

    def class_moments(self) -> ClassMoments:
        problem, first = self.problem, self.problem.first_free
        r, q = problem.shape
        d = problem.n_shared
        scale, sums, squares = np.zeros(r), np.zeros((r, q)), np.zeros((r, q))
        at_once = max(2 * _AT_ONCE // problem.n_classes, 256)
        for start in range(0, problem.n_rows, at_once):
            rows = slice(start, start + at_once)
            p, shared = self.p[first:, rows], problem.shared[:, rows]
            spread = p * (1.0 - p)
            spread *= problem.row_weight[rows]
            scale += spread.sum(axis=1)
            if d:
                sums[:, :d] += spread @ shared.T
                squares[:, :d] += spread @ np.square(shared).T
            for m in range(q - d):
                own = problem.own[m, first:, rows]
                spread_own = spread * own
                sums[:, d + m] += spread_own.sum(axis=1)
                squares[:, d + m] += np.einsum("kn,kn->k", spread_own, own)
        return ClassMoments(scale, sums, squares)

    def dual_value(self, scale: float) -> float:
        from calibrant.softmax.kernels import scaled_dual_value

        problem = self.problem
        return float(scaled_dual_value(self.p, problem.offset, problem.y, problem.row_weight, scale))

    def thinned(self, share: float, rng: np.random.Generator) -> ArrayPoint:
        """Rows are drawn with probabilities proportional to the square root of their curvature ``1 − Σ_j p_ij²``.

        With the curvature itself a few uncertain rows would stand for all rows as long as the model is far off. The
        probabilities are accumulated and cut at equal distances (systematic sampling), so that the number of rows is
        the expected one and equal rows are drawn equally often.
        """
        problem = self.problem
        if share >= 1.0:
            return self
        spread = 1.0 - np.einsum("kn,kn->n", self.p, self.p)
        chance = problem.row_weight * np.sqrt(np.maximum(spread, _LEAST_CURVATURE))
        chance = _at_most_one(chance.astype(np.float64), share * problem.n_rows)
        rows = np.flatnonzero(np.diff(np.floor(np.cumsum(chance) + rng.random()), prepend=0.0))
        return ArrayPoint(problem.some(rows, 1.0 / chance[rows]), self.p.take(rows, axis=1), np.nan)


def _at_most_one(chance: FloatArray, total: float) -> FloatArray:
    """Probabilities proportional to `chance` with sum `total`, but for those that would exceed one."""
    certain = np.zeros(len(chance), dtype=bool)
    while not certain.all():
        scaled = chance * (max(total - certain.sum(), 0.0) / max(chance[~certain].sum(), np.finfo(np.float64).tiny))
        above = (scaled >= 1.0) & ~certain
        if not above.any():
            return np.where(certain, 1.0, scaled)
        certain |= above
    return np.ones(len(chance))
