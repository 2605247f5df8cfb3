"""Newton's method for smooth penalties: a dense factorisation for few parameters, preconditioned conjugate
gradients on Hessian-vector products for many.

Large problems run in float32, which halves the time of the matrix products that dominate there; the loss is summed
and the result certified in float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...simplex import FloatArray
from ..penalties import Ridge
from ..problem import SoftmaxProblem
from .preconditioners import ClassBlocks, SharedGram
from .solution import Solution, certify

#: Up to this many parameters the dense Hessian is cheaper than conjugate gradients, whatever the number of rows ...
_DENSE = 48
#: ... and up to this many if the features are own-class ones, whose products BLAS cannot speed up.
_DENSE_OWN = 256
#: From this many shared features on, one Gram matrix replaces a block for each class, and float32 is used.
_MANY_FEATURES = 20
_FLOAT32_FEATURES = 60
#: Logits move by no more than this in one step: beyond it the exponentials carry no information.
_LARGEST_MOVE = 100.0
_ARMIJO = 1e-4


def newton(
    problem: SoftmaxProblem, penalty: Ridge, *, tol: float, max_iter: int, theta: FloatArray | None = None
) -> Solution:
    """Minimise the loss plus a ridge penalty (or none), starting at `theta` (default: zero)."""
    start = np.zeros(problem.shape) if theta is None else theta
    n_iter = 0
    decrement = np.nan
    if problem.n_shared >= _FLOAT32_FEATURES and problem.dtype == np.float64:
        start, n_iter, _ = _iterate(problem.astype(np.float32), penalty, start, tol, max_iter)
        solution = certify(problem, penalty, start, n_iter, tol)
        if solution.converged or n_iter >= max_iter:
            return solution
    found, more, decrement = _iterate(problem, penalty, start, tol, max_iter - n_iter)
    return certify(problem, penalty, found, n_iter + more, tol, decrement=decrement)


def _iterate(
    problem: SoftmaxProblem, penalty: Ridge, theta: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, int, float]:
    """Newton steps until the gap (the decrement, if a direction is not penalised) is below `tol`."""
    z = problem.logits(theta)
    loss, p = problem.evaluate(z.copy())
    objective = loss + penalty.value(theta)
    decrement = np.inf
    for n_iter in range(max_iter + 1):
        gradient = problem.gradient(p) + penalty.gradient(theta)
        goal = tol * max(1.0, objective)
        if penalty.certifies and penalty.conjugate(gradient) <= goal:
            return theta, n_iter, np.nan
        if n_iter == max_iter:
            break
        step = _direction(problem, penalty, p, gradient, goal)
        slope = float(np.sum(gradient * step))
        decrement = -slope / 2.0
        if not penalty.certifies and decrement <= goal:
            return theta, n_iter, decrement
        d = problem.linear(step)
        t = min(1.0, _LARGEST_MOVE / max(float(np.abs(d).max()), 1e-300))
        while True:
            trial = z + problem.scalar(t) * d
            loss, p_trial = problem.evaluate(trial.copy())
            moved = theta + t * step
            value = loss + penalty.value(moved)
            # Rounding of the loss is forgiven: at the optimum no step decreases it measurably.
            if value <= objective + _ARMIJO * t * slope + np.finfo(problem.dtype).eps * abs(objective):
                break
            t /= 2.0
            if t < 1e-8:
                return theta, n_iter, decrement
        theta, z, p, objective = moved, trial, p_trial, value
    return theta, max_iter, decrement


def _direction(
    problem: SoftmaxProblem, penalty: Ridge, p: NDArray[np.floating], gradient: FloatArray, goal: float
) -> FloatArray:
    limit = _DENSE if problem.n_shared > 1 else _DENSE_OWN
    if problem.n_parameters <= limit:
        return _dense_direction(problem, penalty, p, gradient)
    many = problem.n_shared >= _MANY_FEATURES
    preconditioner = (SharedGram if many else ClassBlocks)(problem, p, penalty.curvature)
    return _conjugate_gradients(problem, penalty, p, gradient, preconditioner, goal)


def _dense_direction(
    problem: SoftmaxProblem, penalty: Ridge, p: NDArray[np.floating], gradient: FloatArray
) -> FloatArray:
    hessian = problem.hessian(p)
    diagonal = np.einsum("ii->i", hessian)
    diagonal += penalty.curvature.ravel()
    # Features of very different size (x² beside 1) are brought to one scale, so that one jitter serves all.
    scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).tiny))
    hessian *= scale
    hessian *= scale[:, None]
    jitter = 1e-14
    while True:  # directions without curvature (a constant added to all classes) make the matrix singular
        diagonal += jitter
        try:
            factor = cho_factor(hessian, lower=True, check_finite=False)
        except LinAlgError:
            jitter *= 100.0
        else:
            solved = np.asarray(cho_solve(factor, scale * gradient.ravel(), check_finite=False))
            return -(scale * solved).reshape(gradient.shape)


def _conjugate_gradients(
    problem: SoftmaxProblem,
    penalty: Ridge,
    p: NDArray[np.floating],
    gradient: FloatArray,
    preconditioner: ClassBlocks | SharedGram,
    goal: float,
) -> FloatArray:
    """Solve the Newton system until the residual is small beside the gradient, or below what the goal needs."""
    step = np.zeros_like(gradient)
    residual = -gradient
    solved = preconditioner.solve(residual)
    direction = solved
    size = first = float(np.sum(residual * solved))
    enough = first * min(0.2, np.sqrt(first)) ** 2
    for _ in range(20 + 2 * problem.n_parameters):
        product = problem.hessian_vector_product(p, direction) + penalty.curvature * direction
        curvature = float(np.sum(direction * product))
        if curvature <= 0.0:  # rounding, at a residual that is rounding too
            break
        alpha = size / curvature
        step += alpha * direction
        residual -= alpha * product
        solved = preconditioner.solve(residual)
        smaller = float(np.sum(residual * solved))
        if smaller <= enough or _below_goal(penalty, residual, smaller, goal):
            break
        direction = solved + (smaller / size) * direction
        size = smaller
    return step


def _below_goal(penalty: Ridge, residual: FloatArray, size: float, goal: float) -> bool:
    """Whether the gap (the decrement) that this residual would leave is already below a tenth of the goal."""
    return (penalty.conjugate(residual) if penalty.certifies else size / 2.0) <= 0.1 * goal
