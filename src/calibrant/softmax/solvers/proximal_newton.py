"""Proximal Newton: non-smooth penalties on the dense quadratic model of the loss.

Each outer step minimises ``u·(x − θ) + (x − θ)ᵀH(x − θ)/2 + penalty(x)``: by compiled coordinate descent for separable
penalties, by block coordinate descent for the group lasso, where the minimiser over one group is exact by an
eigendecomposition of its block and a scalar equation for its norm. A handful of outer steps reaches any accuracy.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import eigh

from ...simplex import FloatArray
from ..penalties import GroupLasso, Penalty
from ..problem import SoftmaxProblem
from .compiled_prox import prox_entry
from .fista import fista
from .solution import Solution, State, certify, error_and_goal, evaluate

_ARMIJO = 1e-4
_MOST_SWEEPS = 10_000
_FISTA_STEPS = 2_000


def proximal_newton(
    problem: SoftmaxProblem, penalty: Penalty, *, tol: float, max_iter: int, theta: FloatArray | None = None
) -> Solution:
    """Minimise the loss plus a non-smooth penalty; the dense Hessian bounds it to a few thousand parameters."""
    theta = np.zeros(problem.shape) if theta is None else theta
    state = evaluate(problem, penalty, theta)
    n_iter = 0
    while n_iter < max_iter:
        error, goal = error_and_goal(problem, penalty, theta, state, tol)
        if error <= goal:
            break
        n_iter += 1
        target = _minimise_model(problem, penalty, theta, state, error)
        moved = _line_search(problem, penalty, theta, target, state)
        if moved is None:  # a concave penalty where the loss is flat: the model says nothing, gradients still do
            rest = fista(problem, penalty, tol=tol, max_iter=_FISTA_STEPS, theta=theta)
            rest.n_iter += n_iter
            return rest
        theta, state = moved
    return certify(problem, penalty, theta, n_iter, tol)


def _line_search(
    problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, target: FloatArray, state: State
) -> tuple[FloatArray, State] | None:
    """The longest step towards `target` that decreases the objective, or `None` if none does."""
    step = target - theta
    predicted = float(np.sum(state.u * step)) + penalty.value(target) - penalty.value(theta)
    t = 1.0
    while t > 1e-8:
        moved = target if t == 1.0 else theta + t * step
        there = evaluate(problem, penalty, moved)
        if there.objective <= state.objective + _ARMIJO * t * min(predicted, 0.0) + 1e-14 * abs(state.objective):
            return moved, there
        t /= 2.0
    return None


def _minimise_model(
    problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, state: State, error: float
) -> FloatArray:
    hessian = problem.hessian(state.p)
    diagonal = np.einsum("ii->i", hessian)
    diagonal += 1e-12 * float(diagonal.max()) + np.finfo(np.float64).tiny
    # The inner problem needs no more accuracy than a fraction of what the outer one still lacks.
    accuracy = 1e-3 * min(error, 1e-2)
    x = theta.ravel().copy()
    if isinstance(penalty, GroupLasso):
        _descend_groups(x, hessian, state.u.ravel().copy(), penalty, accuracy)
    else:
        strength = penalty.strength.ravel()
        gradient = state.u.ravel().copy()
        _descend(x, hessian, gradient, penalty.code, strength, penalty.gamma, accuracy, _MOST_SWEEPS)
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


def _descend_groups(
    x: FloatArray, hessian: FloatArray, gradient: FloatArray, penalty: GroupLasso, accuracy: float
) -> None:
    """Block coordinate descent on the quadratic model, each group minimised exactly.

    The groups are strongly coupled, which makes sweeps alone slow; where no group is zero the model is smooth, so
    each sweep, which finds the groups that are, is followed by a Newton step on the others.
    """
    blocks = [np.flatnonzero(mask.ravel()) for mask in penalty.masks]
    spectra = [eigh(hessian[np.ix_(block, block)]) for block in blocks]
    for _ in range(_MOST_SWEEPS):
        decrease = 0.0
        for block, (values, vectors), strength in zip(blocks, spectra, penalty.group_strength):
            old = x[block]
            rotated = values * (vectors.T @ old) - vectors.T @ gradient[block]
            new = vectors @ _shrink(rotated, values, strength)
            change = new - old
            x[block] = new
            product = hessian[:, block] @ change
            gradient += product
            decrease += float(change @ product[block])
        if decrease <= accuracy * accuracy:
            break
        _smooth_step(x, hessian, gradient, [(b, s) for b, s in zip(blocks, penalty.group_strength) if x[b].any()])


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
        norm = float(np.linalg.norm(x[block]))
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
    while t > 1e-3:
        norms = sum(s * float(np.linalg.norm(x[b] + t * step[b]) - np.linalg.norm(x[b])) for b, s in active)
        if t * linear + t * t * quadratic + norms < 0.0:
            x += t * step
            gradient += t * product
            return
        t /= 2.0


def _shrink(b: FloatArray, values: FloatArray, strength: float) -> FloatArray:
    """The minimiser of ``Σ values x² / 2 − b·x + strength ‖x‖``.

    Its norm ν solves ``Σ (b / (values ν + strength))² = 1``, whose left side falls from ``(‖b‖ / strength)²`` to 0.
    """
    if strength == 0.0:
        return b / values
    if float(b @ b) <= strength * strength:
        return np.zeros_like(b)
    low, high = 0.0, float(np.linalg.norm(b)) / float(values.min())
    nu = min(high, float(np.linalg.norm(b)) / float(values.max()))
    for _ in range(100):
        ratio = b / (values * nu + strength)
        excess = float(ratio @ ratio) - 1.0
        low, high = (nu, high) if excess > 0.0 else (low, nu)
        slope = -2.0 * float(np.sum(ratio * ratio * values / (values * nu + strength)))
        proposal = nu - excess / slope
        proposal = proposal if low < proposal < high else (low + high) / 2.0
        if abs(proposal - nu) <= 1e-15 * nu:
            break
        nu = proposal
    return b * nu / (values * nu + strength)
