"""The quadratic model of the loss plus a group lasso, minimised by conjugate gradients on the groups that are not zero.

Where a group is not zero its norm ``ν`` is smooth, with gradient ``s x / ν`` and curvature ``s (I − x xᵀ / ν²) / ν``.
What is left is to find which groups are zero. With the curvature ``s / ν`` alone, which bounds the norm from above,
every step decreases the model however wrong ``ν`` still is; a group that such steps shrink is tested, and set to zero
where the model prefers that. Groups whose norm hardly changes any more are settled and get Newton's curvature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.softmax.penalties import GroupLasso
from calibrant.softmax.problem import ClassMoments, Point
from calibrant.softmax.solvers.preconditioners import MANY_FEATURES, ClassBlocks, ClassMeans
from calibrant.typing import FloatArray

#: A group is settled when a step changes its norm along itself by no more than these factors.
_LEAST_CHANGE, _MOST_CHANGE = 0.8, 1.25
#: Most rounds of finding out which groups are zero, and most conjugate gradient steps in each: the outer iteration
#: corrects what an inexact model leaves.
_MOST_ROUNDS = 8
_MOST_PRODUCTS = 200
#: A preconditioner is reused until conjugate gradients need more steps than this.
_PATIENCE = 15
#: Curvature that makes the preconditioner leave coefficients at zero.
_FIXED = 1e12
#: With less curvature the length of a step is not determined.
_FLAT = 1e-12
#: Smaller norms are rounding.
_LEAST_NORM = 1e-100
_TINY = float(np.finfo(np.float64).tiny)


class GroupModel:
    """The model at one point after the other; which groups are settled is remembered."""

    def __init__(self, penalty: GroupLasso) -> None:
        self.penalty, self.groups = penalty, penalty.groups
        self.strengths = penalty.group_strength
        self.settled = np.zeros(len(self.strengths), dtype=bool)
        self.doubtful = np.zeros(len(self.strengths), dtype=bool)
        #: What the preconditioner was made from, and how many products it took last time (see `_PATIENCE`).
        self.parts: FloatArray | ClassMoments | None = None
        self.products = 0

    def _preconditioner(self, curvature: FloatArray) -> ClassBlocks | ClassMeans:
        if isinstance(self.parts, ClassMoments):
            return ClassMeans(self.parts, curvature)
        assert self.parts is not None
        return ClassBlocks(self.parts, curvature)

    def _product(self, direction: FloatArray) -> FloatArray:
        return self.point.hessian_vector_product(direction) + self.added * direction

    def minimise(
        self, point: Point, added: FloatArray | float, theta: FloatArray, u: FloatArray, error: float
    ) -> FloatArray:
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs.

        `added` is curvature on top of the loss's own.
        """
        self.point, self.added = point, added
        if self.parts is None or self.products > _PATIENCE:
            self.parts = point.class_moments() if theta.shape[1] > MANY_FEATURES else point.class_blocks()
        x, gradient = theta, u
        for _ in range(_MOST_ROUNDS):
            x, gradient = self._set_to_zero(x, gradient)
            x, gradient, new = self._set_free(x, gradient)
            norms = self.penalty.norms(x)
            self.settled &= (norms > 0.0) & ~new
            x, gradient = self._step(x, gradient, norms, 1e-4 * error * min(error, 1.0))
            if np.all(self.settled | (norms == 0.0)):
                break
        return x

    def _set_to_zero(self, x: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Set doubtful groups to zero where the model prefers that, given the others."""
        for g in np.flatnonzero(self.doubtful & (self.penalty.norms(x) > 0.0)):
            mine = np.where(self.groups == g, x, 0.0)
            product = self._product(mine)
            without = gradient - product
            if self.penalty.norms(without)[g] <= self.strengths[g]:
                x, gradient = x - mine, without
        return x, gradient

    def _set_free(self, x: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Move groups at zero whose gradient exceeds the penalty, each as far as its own curvature suggests."""
        sizes = self.penalty.norms(gradient)
        new = (self.penalty.norms(x) == 0.0) & (sizes > self.strengths)
        if not new.any():
            return x, gradient, new
        downhill = np.where(new[self.groups], -gradient, 0.0)
        bend = self.penalty.sums(downhill * self._product(downhill)) / np.maximum(sizes, _TINY)
        far = new.astype(np.float64)
        np.divide(sizes - self.strengths, bend, out=far, where=new & (bend > _FLAT * sizes))
        step = far[self.groups] * downhill
        product = self._product(step)
        slope = float(np.vdot(gradient, step)) + float(self.strengths @ self.penalty.norms(step))
        t = min(1.0, -slope / max(float(np.vdot(step, product)), _TINY))  # and all together as far as the model falls
        return x + t * step, gradient + t * product, new

    def _step(
        self, x: FloatArray, gradient: FloatArray, norms: FloatArray, enough: float
    ) -> tuple[FloatArray, FloatArray]:
        """Conjugate gradients on the groups that are not zero, then a check of how their norms changed."""
        alive = norms > 0.0
        free, size_of_own = alive[self.groups], np.where(alive, np.maximum(norms, _LEAST_NORM), 1.0)
        weight = np.where(free, (self.strengths / size_of_own)[self.groups], 0.0)
        unit = np.where(free, x / size_of_own[self.groups], 0.0)
        flat = weight * unit * self.settled[self.groups]
        preconditioner = self._preconditioner(np.where(free, weight + self.added, _FIXED))
        residual = np.where(free, -gradient - weight * x, 0.0)
        step, moved = np.zeros_like(x), np.zeros_like(x)
        direction = solved = np.where(free, preconditioner.solve(residual), 0.0)
        size = first = float(np.vdot(residual, solved))
        # As long as norms change, so does the system: solving it exactly would be a waste.
        rest = min(0.1, np.sqrt(first)) if self.settled.any() else 0.3
        target = max(first * rest**2, enough)
        for self.products in range(1, _MOST_PRODUCTS + 1):
            product = self._product(direction)
            bent = product + weight * direction - flat * self.penalty.sums(unit * direction)[self.groups]
            bend = float(np.vdot(direction, bent))
            if size <= enough or bend <= 0.0:
                break
            t = size / bend
            step += t * direction
            moved += t * product
            residual = residual - t * np.where(free, bent, 0.0)
            solved = np.where(free, preconditioner.solve(residual), 0.0)
            smaller = float(np.vdot(residual, solved))
            if smaller <= target:
                break
            direction = solved + (smaller / size) * direction
            size = smaller
        t = 1.0
        while t > 1e-3 and self._change(x, gradient, t * step, t * moved) > 0.0:
            t /= 2.0
        x, before = x + t * step, x
        along = self.penalty.sums(before * x) / size_of_own**2
        self.doubtful = alive & (along < _LEAST_CHANGE)
        self.settled = alive & (t == 1.0) & (along >= _LEAST_CHANGE) & (along <= _MOST_CHANGE)
        return x, gradient + t * moved

    def _change(self, x: FloatArray, gradient: FloatArray, step: FloatArray, product: FloatArray) -> float:
        """How a step changes the model."""
        smooth = float(np.vdot(gradient, step)) + float(np.vdot(step, product)) / 2.0
        return smooth + self.penalty.value(x + step) - self.penalty.value(x)
