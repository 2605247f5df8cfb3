"""Proximal Newton: non-smooth penalties on the dense quadratic model of the loss.

Each step minimises the model plus the penalty and searches along the way there for a decrease of the true objective;
a handful of steps reaches any accuracy.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.base import Solver
from calibrant.softmax.solvers.damped_newton import ARMIJO, LARGEST_DAMPING, SHORTEST, less_damping, more_damping
from calibrant.softmax.solvers.fista import FISTA
from calibrant.softmax.solvers.solution import Solution, State, evaluate, judge
from calibrant.typing import FloatArray

_FISTA_STEPS = 2_000

#: Coefficients beyond this are no minimiser of a model but an overflow on its way.
_LARGEST = 1e30


class ProximalNewton(Solver):
    """Proximal Newton for any penalty; the dense Hessian bounds it to a few thousand parameters."""

    name = "proximal-newton"
    most_parameters = 2000

    def minimise(
        self, problem: SoftmaxProblem, penalty: Penalty, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        from calibrant.softmax.solvers.quadratic_models import GroupModel, SeparableModel, quadratic_model

        theta = np.zeros(problem.shape) if theta is None else theta
        state = evaluate(problem, penalty, theta, dense=True)
        # The curvature changes little near the optimum: a model serves as long as it brings the error down fast.
        model: SeparableModel | GroupModel | None = None
        before, damping, gained = np.inf, 0.0, np.inf
        solution = judge(penalty, theta, state, 0, tol)
        while not solution.converged and solution.n_iter < max_iter:
            error = solution.error
            if model is None or error > model.keep * before:
                hessian = state.point.hessian()
                if damping:
                    hessian[np.diag_indices(problem.n_parameters)] += damping * problem.second_moments.ravel()
                model = quadratic_model(hessian, penalty)
            before = error
            # A gap may stay wide while hardly anything is gained any more: then the model must be minimised better.
            target = model.minimise(theta, state.u, min(error, max(gained, 1e-3 * tol)))
            t, moved = 0.0, None
            if np.all(np.abs(target) < _LARGEST):  # a model without curvature may have no minimiser
                t, moved = _line_search(problem, penalty, theta, target, state)
            if t <= SHORTEST and damping <= LARGEST_DAMPING and penalty.convex:  # saturated: hardly any curvature
                damping, model, solution.n_iter = more_damping(damping), None, solution.n_iter + 1
                continue
            if moved is None:  # a concave penalty where the loss is flat: the model says nothing, gradients still do
                rest = FISTA().minimise(problem, penalty, tol=tol, max_iter=_FISTA_STEPS, theta=theta)
                rest.n_iter += solution.n_iter
                return rest
            damping, gained = less_damping(damping), state.objective - moved[1].objective
            theta, state = moved
            solution = judge(penalty, theta, state, solution.n_iter + 1, tol)
        return solution


def _line_search(
    problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, target: FloatArray, state: State
) -> tuple[float, tuple[FloatArray, State] | None]:
    """The longest part of the way to `target` that decreases the objective, and its end; `None` if none does."""
    step = target - theta
    predicted = float(np.sum(state.u * step)) + penalty.value(target) - penalty.value(theta)
    t = 1.0
    while t > 1e-8:
        moved = target if t == 1.0 else theta + t * step
        there = evaluate(problem, penalty, moved, dense=True)
        if there.objective <= state.objective + ARMIJO * t * min(predicted, 0.0) + 1e-14 * abs(state.objective):
            return t, (moved, there)
        t /= 2.0
    return 0.0, None
