"""The quadratic model of the loss plus a group lasso, for few coefficients: a dense Hessian and a few factorisations.

Where no group is zero the minimiser of ``xᵀHx/2 − bᵀx + Σ s_g ‖x_g‖`` solves ``(H + diag(w)) x = b`` with the pull
``w_g = s_g / ‖x_g‖`` in all entries of a group. As in trust-region methods ``1 / ‖x_g(w)‖`` is nearly linear in ``w``:
Newton's method for ``1 / ‖x_g(w)‖ = w_g / s_g``, as many equations as there are groups, takes two or three factors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from calibrant.softmax.penalties import GroupLasso
from calibrant.softmax.problem import Point
from calibrant.softmax.solvers.cholesky import FLATTEST, cholesky
from calibrant.typing import FloatArray

#: Most rounds of Newton's method for the pulls, which mostly takes two or three.
_MOST_ROUNDS = 25
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
_LEAST_NORM = 1e-90
#: The pull that keeps a group at zero.
_FIXED = 1e15
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
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs.

        `added` is curvature on top of the loss's own.
        """
        hessian = self._curvature(point, error).copy()
        diagonal = np.einsum("ii->i", hessian)
        diagonal += np.broadcast_to(added, theta.shape).ravel()
        diagonal += _JITTER * float(diagonal.max()) + FLATTEST
        x = theta.ravel()
        b = hessian @ x - u.ravel()
        norms = self._norms(x)
        alive = (norms > 0.0) | (self.strengths == 0.0)
        pull = np.where(alive, self.strengths / np.where(norms > 0.0, norms, 1.0), _FIXED)
        accuracy = min(_LEAST_ACCURACY, _ACCURACY * error) * self.strengths
        for _ in range(_MOST_ROUNDS):
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
        before, strengths, inverse = pull[at], self.strengths[at], 1.0 / np.maximum(norms[at], _LEAST_NORM)
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
        pull[at] = np.where(alive[at], np.clip(better, before / _MOST_SHRINKING, before * _MOST_GROWTH), _FIXED)
