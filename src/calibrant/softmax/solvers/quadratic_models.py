"""Minimisers of the quadratic model ``u·(x − θ) + (x − θ)ᵀH(x − θ)/2 + penalty(x)`` for proximal Newton.

Separable penalties are minimised by compiled coordinate descent; `group_model` has the group lasso.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from calibrant.compiling import compiled
from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import Point
from calibrant.softmax.proximal import prox_entry
from calibrant.softmax.solvers.cholesky import FLATTEST
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
        while left > 0 and not _descend(x, hessian, gradient, *parts, 1e-3 * min(error, 1e-2), sweeps):
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


@compiled(error_model="numpy", nogil=True, fastmath={"contract", "reassoc"})
def _descend(x, hessian, gradient, slope, curvature, reach, accuracy, most_sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on the quadratic model from `x`, where the model's gradient is `gradient`."""
    n = len(x)
    for _ in range(most_sweeps):
        decrease = 0.0
        largest = 0.0
        for c in range(n):
            h = max(hessian[c, c], FLATTEST)  # rounding may have left it below zero
            new = prox_entry(x[c] - gradient[c] / h, 1.0 / h, slope[c], curvature[c], reach[c])
            change = new - x[c]
            if change != 0.0:
                x[c] = new
                row = hessian[c]
                for i in range(n):
                    gradient[i] += change * row[i]
                decrease += h * change * change
                largest = max(largest, abs(change))
        if decrease <= accuracy * accuracy and largest <= accuracy:
            return True
    return False


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
