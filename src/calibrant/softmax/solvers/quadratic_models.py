"""Minimisers of the quadratic model ``u·(x − θ) + (x − θ)ᵀH(x − θ)/2 + penalty(x)`` for proximal Newton.

Separable penalties are minimised by compiled coordinate descent; the group lasso by block coordinate descent, where the
minimiser over one group is exact by an eigendecomposition of its block and a scalar equation for its norm.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import eigh

from ...simplex import FloatArray
from ..penalties import GroupLasso, Penalty
from .compiled_prox import prox_entry

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
        penalty = self.penalty
        strength = penalty.strength.ravel()
        accuracy = 1e-3 * min(error, 1e-2)
        _descend(x, self.hessian, u.ravel().copy(), penalty.code, strength, penalty.gamma, accuracy, _MOST_SWEEPS)
        return x.reshape(theta.shape)


@njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract", "reassoc"})
def _descend(x, hessian, gradient, code, strength, gamma, accuracy, most_sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on the quadratic model from `x`, where the model's gradient is `gradient`."""
    n = len(x)
    for _ in range(most_sweeps):
        decrease = 0.0
        largest = 0.0
        for c in range(n):
            h = hessian[c, c]
            new = prox_entry(x[c] - gradient[c] / h, 1.0 / h, code, strength[c], gamma)
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
    """Block coordinate descent for the group lasso.

    The groups are strongly coupled, which makes sweeps alone slow; where no group is zero the model is smooth, so
    each sweep, which finds the groups that are, is followed by a Newton step on the others.
    """

    #: By what factor a step must bring the error down for the model to be kept: a new one has to be decomposed.
    keep = 0.3

    def __init__(self, hessian: FloatArray, penalty: GroupLasso) -> None:
        self.hessian = hessian
        self.strengths = penalty.group_strength
        self.blocks = [np.flatnonzero(mask.ravel()) for mask in penalty.masks]
        self.columns = [np.ascontiguousarray(hessian[block]) for block in self.blocks]
        self.spectra = [eigh(rows[:, block], driver="evd") for rows, block in zip(self.columns, self.blocks)]

    def minimise(self, theta: FloatArray, u: FloatArray, error: float) -> FloatArray:
        """The minimiser near `theta`, where the loss has gradient `u`, as exact as an outer error of `error` needs."""
        x, gradient = theta.ravel().copy(), u.ravel().copy()
        enough = 1e-4 * error * min(error, 1.0)
        for _ in range(_MOST_SWEEPS):
            decrease = 0.0
            for block, rows, spectrum, strength in zip(self.blocks, self.columns, self.spectra, self.strengths):
                values, vectors = spectrum
                old = x[block]
                new = vectors @ _shrink(values * (old @ vectors) - gradient[block] @ vectors, values, strength)
                change = new - old
                x[block] = new
                product = change @ rows
                gradient += product
                decrease += float(change @ product[block])
            if decrease <= enough:
                break
            active = [(b, s) for b, s in zip(self.blocks, self.strengths) if x[b].any()]
            _smooth_step(x, self.hessian, gradient, active)
        return x.reshape(theta.shape)


def _smooth_step(
    x: FloatArray, hessian: FloatArray, gradient: FloatArray, active: list[tuple[NDArray[np.intp], float]]
) -> None:
    """A Newton step on the groups that are not zero, where the group norm is smooth; kept if the model decreases."""
    if len(active) < 2:  # one group alone is at its minimum already
        return
    rows = np.concatenate([block for block, _ in active])
    curved = hessian[np.ix_(rows, rows)]
    slope = gradient[rows]
    start = 0
    for block, strength in active:
        norm = math.sqrt(x[block] @ x[block])
        unit = x[block] / norm
        here = slice(start, start + len(block))
        slope[here] += strength * unit
        curved[here, here] += strength / norm * (np.eye(len(block)) - np.outer(unit, unit))
        start += len(block)
    step = np.zeros_like(x)
    step[rows] = -np.linalg.solve(curved, slope)
    product = hessian @ step
    linear, quadratic = float(gradient @ step), float(step @ product) / 2.0
    t = 1.0
    while t > 0.1:
        change = t * linear + t * t * quadratic
        for block, strength in active:
            old, new = x[block], x[block] + t * step[block]
            change += strength * (math.sqrt(new @ new) - math.sqrt(old @ old))
        if change < 0.0:
            x += t * step
            gradient += t * product
            return
        t /= 2.0


@njit(cache=True, error_model="numpy", nogil=True)
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
