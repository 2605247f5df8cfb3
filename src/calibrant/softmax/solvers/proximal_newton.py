"""Proximal Newton: non-smooth penalties on the dense quadratic model of the loss.

Each step minimises the model plus the penalty and searches along the way there for a decrease of the true objective;
a handful of steps reaches any accuracy.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.fista import fista
from calibrant.softmax.solvers.quadratic_models import GroupModel, SeparableModel, quadratic_model
from calibrant.softmax.solvers.solution import Solution, State, evaluate, judge
from calibrant.typing import FloatArray

_ARMIJO = 1e-4
_FISTA_STEPS = 2_000


def proximal_newton(
    problem: SoftmaxProblem, penalty: Penalty, *, tol: float, max_iter: int, theta: FloatArray | None = None
) -> Solution:
    """Minimise the loss plus a non-smooth penalty; the dense Hessian bounds it to a few thousand parameters."""
    theta = np.zeros(problem.shape) if theta is None else theta
    state = evaluate(problem, penalty, theta)
    # The curvature changes little near the optimum: a model serves as long as it brings the error down fast.
    model: SeparableModel | GroupModel | None = None
    before = np.inf
    solution = judge(problem, penalty, theta, state, 0, tol)
    while not solution.converged and solution.n_iter < max_iter:
        error = solution.error
        if model is None or error > model.keep * before:
            model = quadratic_model(problem.hessian(state.p), penalty)
        before = error
        target = model.minimise(theta, state.u, error)
        moved = _line_search(problem, penalty, theta, target, state)
        if moved is None:  # a concave penalty where the loss is flat: the model says nothing, gradients still do
            rest = fista(problem, penalty, tol=tol, max_iter=_FISTA_STEPS, theta=theta)
            rest.n_iter += solution.n_iter
            return rest
        theta, state = moved
        solution = judge(problem, penalty, theta, state, solution.n_iter + 1, tol)
    return solution


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
