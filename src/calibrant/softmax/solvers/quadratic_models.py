"""Minimisers of the quadratic model ``u·(x − θ) + (x − θ)ᵀH(x − θ)/2 + penalty(x)`` for proximal Newton.

Separable penalties are minimised by compiled coordinate descent; the group lasso by block coordinate descent, where the
minimiser over one group is exact by an eigendecomposition of its block and a scalar equation for its norm.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh

from calibrant.compiling import compiled
from calibrant.softmax.penalties import GroupLasso, Penalty
from calibrant.softmax.proximal import prox_entry
from calibrant.typing import FloatArray

_MOST_SWEEPS = 10_000


def quadratic_model(hessian: FloatArray, penalty: Penalty) -> SeparableModel | GroupModel:
    """The model with this Hessian, made ready for repeated minimisation."""
    diagonal = np.einsum("ii->i", hessian)
    diagonal += 1e-12 * float(diagonal.max()) + np.finfo(np.float64).tiny
    return GroupModel(hessian, penalty) if isinstance(penalty, GroupLasso) else SeparableModel(hessian, penalty)


class SeparableModel:
    """Coordinate descent, for penalties that are a sum over coefficients."""

    #: By what factor a step must bring the error down for the model to be kept: here a new one costs little.
    keep = 0.0

    def __init__(self, hessian: FloatArray, penalty: Penalty) -> None:
        self.hessian = hessian
        self.penalty = penalty

    def minimise(self, theta: FloatArray, u: FloatArray, error: float) -> FloatArray:
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs."""
        x = theta.ravel().copy()
        slope, curvature, reach = (part.ravel() for part in self.penalty.description[:3])
        accuracy = 1e-3 * min(error, 1e-2)
        _descend(x, self.hessian, u.ravel().copy(), slope, curvature, reach, accuracy, _MOST_SWEEPS)
        return x.reshape(theta.shape)


@compiled(error_model="numpy", nogil=True, fastmath={"contract", "reassoc"})
def _descend(x, hessian, gradient, slope, curvature, reach, accuracy, most_sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on the quadratic model from `x`, where the model's gradient is `gradient`."""
    n = len(x)
    for _ in range(most_sweeps):
        decrease = 0.0
        largest = 0.0
        for c in range(n):
            h = hessian[c, c]
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
            break


class GroupModel:
    """Block coordinate descent for the group lasso, on coefficients ordered by group.

    The groups are strongly coupled, which makes sweeps alone slow; where no group is zero the model is smooth, so
    each sweep, which finds the groups that are, is followed by a Newton step on the others.
    """

    #: By what factor a step must bring the error down for the model to be kept: a new one has to be decomposed.
    keep = 0.3

    def __init__(self, hessian: FloatArray, penalty: GroupLasso) -> None:
        groups = penalty.groups.ravel()
        self.order = np.argsort(groups, kind="stable")
        self.bounds = np.searchsorted(groups[self.order], np.arange(len(penalty.masks) + 1))
        self.strengths = penalty.group_strength
        self.hessian = np.ascontiguousarray(hessian[np.ix_(self.order, self.order)])
        self.values = np.empty(len(groups))
        self.vectors = np.zeros_like(self.hessian)  # block diagonal
        for start, stop in zip(self.bounds[:-1], self.bounds[1:]):
            block = slice(start, stop)
            self.values[block], self.vectors[block, block] = eigh(self.hessian[block, block], driver="evd")

    def minimise(self, theta: FloatArray, u: FloatArray, error: float) -> FloatArray:
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs."""
        ordered, gradient = theta.ravel()[self.order], u.ravel()[self.order]
        enough = 1e-4 * error * min(error, 1.0)
        _descend_groups(
            ordered,
            gradient,
            self.hessian,
            self.values,
            self.vectors,
            self.bounds,
            self.strengths,
            enough,
            _MOST_SWEEPS,
        )
        x = np.empty_like(ordered)
        x[self.order] = ordered
        return x.reshape(theta.shape)


@compiled(error_model="numpy", nogil=True)
def _descend_groups(  # type: ignore[no-untyped-def]
    x, gradient, hessian, values, vectors, bounds, strengths, enough, most_sweeps
):
    """Sweeps over the groups, each minimised exactly, and Newton steps between them."""
    for _ in range(most_sweeps):
        decrease = 0.0
        for g in range(len(strengths)):
            a, b = bounds[g], bounds[g + 1]
            old = x[a:b].copy()
            basis = np.ascontiguousarray(vectors[a:b, a:b])
            rotated = values[a:b] * (old @ basis) - gradient[a:b].copy() @ basis
            new = basis @ _shrink(rotated, values[a:b], strengths[g])
            change = new - old
            x[a:b] = new
            product = change @ hessian[a:b]
            gradient += product
            decrease += np.dot(change, product[a:b].copy())
        if decrease <= enough or not decrease < 1e60:  # or the model has no minimiser, which the caller notices
            break
        _smooth_step(x, gradient, hessian, bounds, strengths)


@compiled(error_model="numpy", nogil=True)
def _smooth_step(x, gradient, hessian, bounds, strengths):  # type: ignore[no-untyped-def]
    """A Newton step on the groups that are not zero, where the group norm is smooth; kept if the model decreases."""
    n = len(x)
    curved = hessian.copy()
    slope = gradient.copy()
    for g in range(len(strengths)):
        a, b = bounds[g], bounds[g + 1]
        norm = math.sqrt(np.sum(x[a:b] ** 2))
        for i in range(a, b):
            if norm == 0.0:  # fixed at zero: an equation of its own
                curved[i, :] = 0.0
                curved[:, i] = 0.0
                curved[i, i] = 1.0
                slope[i] = 0.0
                continue
            slope[i] += strengths[g] * x[i] / norm
            curved[i, i] += strengths[g] / norm
            for j in range(a, b):
                curved[i, j] -= strengths[g] / norm * (x[i] / norm) * (x[j] / norm)
    # The norm of a group is flat along the group, and so may be the loss: without a hair more there is no solution.
    largest = 0.0
    for i in range(n):
        largest = max(largest, curved[i, i])
    for i in range(n):
        curved[i, i] += 1e-12 * largest
    step = -np.linalg.solve(curved, slope)
    product = hessian @ step
    linear, quadratic = np.dot(gradient, step), np.dot(step, product) / 2.0
    t = 1.0
    while t > 0.1:
        change = t * linear + t * t * quadratic
        for g in range(len(strengths)):
            old = new = 0.0
            for i in range(bounds[g], bounds[g + 1]):
                old += x[i] ** 2
                new += (x[i] + t * step[i]) ** 2
            change += strengths[g] * (math.sqrt(new) - math.sqrt(old))
        if change < 0.0:
            for i in range(n):
                x[i] += t * step[i]
                gradient[i] += t * product[i]
            return
        t /= 2.0


@compiled(error_model="numpy", nogil=True)
def _shrink(b, values, strength):  # type: ignore[no-untyped-def]
    """The minimiser of ``Σ values x² / 2 − b·x + strength ‖x‖``.

    Its norm ν solves ``Σ (b / (values ν + strength))² = 1``, whose left side falls from ``(‖b‖ / strength)²`` to 0.
    """
    size = math.sqrt(np.dot(b, b))
    if size <= strength:
        return np.zeros_like(b)
    if strength == 0.0:
        return b / values
    low, high = 0.0, size / values.min()
    nu = size / values.max()
    for _ in range(100):
        excess = -1.0
        slope = 0.0
        for i in range(len(b)):
            below = values[i] * nu + strength
            ratio = b[i] / below
            excess += ratio * ratio
            slope -= 2.0 * ratio * ratio * values[i] / below
        if excess > 0.0:
            low = nu
        else:
            high = nu
        proposal = nu - excess / slope
        if not low < proposal < high:
            proposal = (low + high) / 2.0
        if abs(proposal - nu) <= 1e-15 * nu:
            break
        nu = proposal
    return b * (nu / (values * nu + strength))
