"""Minimisers of the quadratic model ``u·(x − θ) + (x − θ)ᵀH(x − θ)/2 + penalty(x)`` for proximal Newton.

- `SeparableModel`, for sums over coefficients: compiled coordinate descent.
- `DenseGroupModel`, for a group lasso of few coefficients: a dense Hessian and a few factorisations. Where no group is
  zero the minimiser of ``xᵀHx/2 − bᵀx + Σ s_g ‖x_g‖`` solves ``(H + diag(w)) x = b`` with the pull ``w_g = s_g /
  ‖x_g‖`` in all entries of a group. As in trust-region methods ``1 / ‖x_g(w)‖`` is nearly linear in ``w``: Newton's
  method for ``1 / ‖x_g(w)‖ = w_g / s_g``, as many equations as there are groups, takes two or three factors.
- `GroupModel`, for a group lasso of many: conjugate gradients on the groups that are not zero. There the norm ``ν`` of
  a group is smooth, with gradient ``s x / ν`` and curvature ``s (I − x xᵀ / ν²) / ν``. What is left is to find which
  groups are zero. With the curvature ``s / ν`` alone, which bounds the norm from above, every step decreases the model
  however wrong ``ν`` still is; a group that such steps shrink is tested, and set to zero where the model prefers that.
  Groups whose norm hardly changes any more are settled and get Newton's curvature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotrs

from calibrant.softmax.penalties import GroupLasso, Penalty
from calibrant.softmax.problem import FLATTEST, ClassMoments, Point
from calibrant.softmax.solvers.preconditioners import MANY_FEATURES, ClassBlocks, ClassMeans
from calibrant.softmax.solvers.searches import cholesky
from calibrant.typing import FloatArray, IntArray

#: Coordinate descent ends after this many sweeps, or this many multiplications (a fraction of a second): a step need
#: not be exact.
_MOST_SWEEPS = 10_000
_MOST_MULTIPLICATIONS = 2e8
#: Sweeps before Newton's method is tried on the coefficients that are not zero; then twice as many, and so on.
_SWEEPS = 20
#: Up to this many coefficients, the model has all of them ...
_FEW = 64
#: ... and else those that are not zero, or may leave zero: there the slope of the loss exceeds this share of the
#: penalty's. A model of more coefficients than the second number would take too long.
_NEARLY_FREE = 0.9
_MOST_WORKING = 2000


class SeparableModel:
    """Coordinate descent on the coefficients that may not be zero, for penalties that are a sum over coefficients."""

    def __init__(self, penalty: Penalty) -> None:
        self.penalty = penalty

    def minimise(
        self, point: Point, added: FloatArray | float, theta: FloatArray, u: FloatArray, error: float
    ) -> FloatArray | None:
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs.

        `added` is curvature on top of the loss's own. `None` says that too many coefficients may not be zero.
        """
        from calibrant.softmax.proximal import descend

        working = self._working(theta, u)
        if len(working) > _MOST_WORKING:
            return None
        everyone = len(working) == theta.size
        hessian = point.hessian() if everyone else point.hessian_of(working)
        diagonal = np.einsum("ii->i", hessian)
        diagonal += np.broadcast_to(added, theta.shape).ravel()[working]
        diagonal += 1e-12 * float(diagonal.max(initial=0.0)) + FLATTEST
        x, gradient = theta.ravel()[working], u.ravel()[working]
        parts = [np.ascontiguousarray(part.ravel()[working]) for part in self.penalty.description[:3]]
        sweeps, left = _SWEEPS, int(np.clip(_MOST_MULTIPLICATIONS / max(len(x), 1) ** 2, 10, _MOST_SWEEPS))
        while left > 0 and not descend(x, hessian, gradient, *parts, 1e-3 * min(error, 1e-2), sweeps):
            if not np.all(np.isfinite(x)):  # a model without curvature has no minimiser; the caller adds some
                break
            _smooth_step(x, hessian, gradient, *parts)
            sweeps, left = 2 * sweeps, left - sweeps
        out = theta.copy()
        out.flat[working] = x
        return out

    def _working(self, theta: FloatArray, u: FloatArray) -> IntArray:
        if theta.size <= _FEW:
            return np.arange(theta.size)
        return np.flatnonzero((theta != 0.0) | (np.abs(u) >= _NEARLY_FREE * self.penalty.slope))


def _smooth_step(
    x: FloatArray,
    hessian: FloatArray,
    gradient: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    reach: FloatArray,
) -> None:
    """A Newton step on the coefficients that are not zero, up to where the first becomes zero or leaves its branch.

    Features that are nearly collinear, as intercept and log-probabilities are, make sweeps alone endless.
    """
    free = np.flatnonzero(x)
    at, sign = x[free], np.sign(x[free])
    inside = np.abs(at) < reach[free]
    bent = hessian[np.ix_(free, free)]
    bent[np.diag_indices(len(free))] += np.where(inside, curvature[free], 0.0)
    downhill = -gradient[free] - np.where(inside, slope[free] * sign + curvature[free] * at, 0.0)
    try:
        step = cho_solve(cho_factor(bent), downhill)
    except LinAlgError:  # a concave penalty where the loss is flat
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        to_zero = np.where(sign * step < 0.0, -at / step, np.inf)
        to_reach = np.where(inside == (sign * step > 0.0), (sign * reach[free] - at) / step, np.inf)
    t = min(1.0, float(np.min(np.minimum(to_zero, np.where(to_reach > 0.0, to_reach, np.inf)), initial=1.0)))
    x[free] = np.where(to_zero <= t, 0.0, at + t * step)
    gradient += hessian[:, free] @ (x[free] - at)


#: Most rounds of Newton's method for the pulls, which mostly takes two or three.
_DENSE_MOST_ROUNDS = 25
#: Pulls are computed to this share of the outer error, and at least to this relative accuracy.
_ACCURACY, _LEAST_ACCURACY = 0.03, 0.03
#: In one round a pull grows at most by the first factor, since its group may belong at zero, and shrinks at most by the
#: second.
_MOST_GROWTH, _MOST_SHRINKING = 10.0, 1e6
#: Added to the diagonal, relative to its largest entry, since groups without a penalty may have no curvature.
_JITTER = 1e-13
#: A gradient that exceeds the penalty by less than this does so by rounding.
_ROUNDING = 1e-12
#: Smaller norms are rounding; the cube of this one is still above the smallest number.
_DENSE_LEAST_NORM = 1e-90
#: The pull that keeps a group at zero.
_DENSE_FIXED = 1e15
#: With this many rows per coefficient the first Hessian, far from the optimum, is that of every fourth row.
_EVERY, _ROWS_PER_PARAMETER = 4, 16
#: A Hessian of all rows is used again if its first step halves the error, as long as further steps reduce the error by
#: this factor.
_KEPT = 0.04


class DenseGroupModel:
    """The model at one point after the other, whose Hessian is reused as long as it is good enough."""

    def __init__(self, penalty: GroupLasso, n_rows: int) -> None:
        self.groups, self.strengths = penalty.groups.ravel(), penalty.group_strength
        #: One column for each group, with ones at its members.
        self.members = (self.groups[:, None] == np.arange(len(self.strengths))).astype(np.float64)
        #: How the next Hessians are made: of every n-th row, in which precision.
        self.next = [(_EVERY, np.float32)] if n_rows >= _ROWS_PER_PARAMETER * len(self.groups) else []
        self.next += [(1, np.float32)] * 2
        self.hessian: FloatArray | None = None
        self.before, self.enough = np.inf, 0.0

    def _norms(self, x: FloatArray) -> FloatArray:
        return np.sqrt(np.square(x) @ self.members)

    def _curvature(self, point: Point, error: float) -> FloatArray:
        if self.hessian is None or self.next or error > self.enough * self.before:
            self.hessian = point.rough_hessian(*self.next.pop(0)) if self.next else point.hessian()
            self.enough = 0.5
        else:
            self.enough = _KEPT
        self.before = error
        return self.hessian

    def minimise(
        self, point: Point, added: FloatArray | float, theta: FloatArray, u: FloatArray, error: float
    ) -> FloatArray:
        """See `SeparableModel.minimise`; it always finds one."""
        hessian = self._curvature(point, error).copy()
        diagonal = np.einsum("ii->i", hessian)
        diagonal += np.broadcast_to(added, theta.shape).ravel()
        diagonal += _JITTER * float(diagonal.max()) + FLATTEST
        x = theta.ravel()
        b = hessian @ x - u.ravel()
        norms = self._norms(x)
        alive = (norms > 0.0) | (self.strengths == 0.0)
        pull = np.where(alive, self.strengths / np.where(norms > 0.0, norms, 1.0), _DENSE_FIXED)
        accuracy = min(_LEAST_ACCURACY, _ACCURACY * error) * self.strengths
        for _ in range(_DENSE_MOST_ROUNDS):
            system = hessian.copy()
            system.flat[:: len(system) + 1] += pull[self.groups]
            factor = cholesky(system.T, jitter=100.0 * _JITTER * float(diagonal.max()))
            x = dpotrs(factor, b, lower=True)[0] * alive[self.groups]
            norms = self._norms(x)
            if not (alive & (np.abs(norms * pull - self.strengths) > accuracy)).any():
                if not self._set_free(hessian, b, x, alive, pull):
                    break
            else:
                self._improve(hessian, b, x, alive, pull, norms, factor)
        return x.reshape(theta.shape)

    def _set_free(
        self, hessian: FloatArray, b: FloatArray, x: FloatArray, alive: NDArray[np.bool_], pull: FloatArray
    ) -> bool:
        """Free groups at zero whose gradient exceeds the penalty, with a pull by their curvature; whether any were."""
        if alive.all():
            return False
        downhill = b - hessian @ x
        sizes = self._norms(downhill)
        new = ~alive & (sizes > self.strengths * (1.0 + _ROUNDING))
        for g in np.flatnonzero(new):
            mine = downhill * self.members[:, g] / sizes[g]
            pull[g] = self.strengths[g] * float(mine @ hessian @ mine) / (sizes[g] - self.strengths[g])
        alive |= new
        return bool(new.any())

    def _improve(
        self,
        hessian: FloatArray,
        b: FloatArray,
        x: FloatArray,
        alive: NDArray[np.bool_],
        pull: FloatArray,
        norms: FloatArray,
        factor: FloatArray,
    ) -> None:
        """A Newton step of the pull; groups whose pull grows beyond bounds, if the model prefers it, become zero."""
        at = np.flatnonzero(alive & (self.strengths > 0.0))
        before, strengths, inverse = pull[at], self.strengths[at], 1.0 / np.maximum(norms[at], _DENSE_LEAST_NORM)
        apart = self.members[:, at] * x[:, None]
        slopes = (apart.T @ dpotrs(factor, apart, lower=True)[0]) * (inverse**3)[:, None]
        slopes.flat[:: len(at) + 1] -= 1.0 / strengths
        try:
            better = before - np.linalg.solve(slopes, inverse - before / strengths)
        except np.linalg.LinAlgError:
            better = strengths * inverse
        # Where a group is zero no pull suffices: the equation then has a solution below zero only.
        better[better <= 0.0] = np.inf
        for g in at[better > _MOST_GROWTH * before]:
            without = np.where(self.groups == g, 0.0, x)
            if self._norms(b - hessian @ without)[g] <= self.strengths[g]:
                x, alive[g] = without, False
        pull[at] = np.where(alive[at], np.clip(better, before / _MOST_SHRINKING, before * _MOST_GROWTH), _DENSE_FIXED)


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
        """See `SeparableModel.minimise`; it always finds one."""
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
        smooth = float(np.vdot(gradient, step)) + float(np.vdot(step, product)) / 2.0
        return smooth + self.penalty.value(x + step) - self.penalty.value(x)
