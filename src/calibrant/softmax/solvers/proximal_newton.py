"""Proximal Newton: non-smooth penalties on the quadratic model of the loss.

Each step minimises the model plus the penalty and searches along the way there for a decrease of the true objective;
a handful of steps reaches any accuracy. The models ask only for the curvature of coefficients that are not zero, or may
not stay so: there are few of them, however many classes there are.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import GroupLasso, Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.gradient_methods import FISTA
from calibrant.softmax.solvers.quadratic_models import DenseGroupModel, GroupModel, SeparableModel
from calibrant.softmax.solvers.searches import (
    ARMIJO,
    LARGEST_DAMPING,
    SHORTEST,
    STALLED,
    less_damping,
    more_damping,
)
from calibrant.softmax.solvers.solver import Solution, Solver, State, evaluate, judge
from calibrant.typing import FloatArray

#: Most steps of FISTA where a concave penalty and a flat loss leave the model without a minimiser.
_FISTA_STEPS = 2_000
#: With more parameters FISTA may have to finish, so `tol=None` then means FISTA's tolerance.
_MANY_PARAMETERS = 2000
#: Up to this many parameters a dense Hessian is cheaper for the group lasso than products for conjugate gradients.
_DENSE_GROUPS = 128
#: Larger coefficients minimise no model: they are about to overflow.
_LARGEST = 1e30


class ProximalNewton(Solver):
    """Proximal Newton for any penalty."""

    name = "proximal-newton"

    def default_tol(self, problem: SoftmaxProblem, penalty: Penalty) -> float:
        return self.tol if problem.n_parameters <= _MANY_PARAMETERS else FISTA.tol

    def minimise(
        self, problem: SoftmaxProblem, penalty: Penalty, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        model = _model(penalty, problem)
        theta = np.zeros(problem.shape) if theta is None else theta
        state = evaluate(problem, penalty, theta)
        before, damping, gained, longest = np.inf, 0.0, np.inf, 1.0
        share, rng = problem.curvature_share, np.random.default_rng(0)
        solution = judge(penalty, theta, state, 0, tol)
        while not solution.converged and solution.n_iter < max_iter:
            error = solution.error
            added = damping * problem.second_moments if damping else 0.0
            if error > STALLED * before:  # a model of some of the rows, for speed, is no longer good enough
                share = 1.0
            before = error
            curved = state.point if share == 1.0 else state.point.thinned(share, rng)
            # A gap may stay wide while hardly anything is gained any more: then the model must be minimised better.
            target = model.minimise(curved, added, theta, state.u, min(error, max(gained, 1e-3 * tol)))
            t, moved = 0.0, None
            if target is None:  # with so many coefficients that are not zero gradients alone are faster
                return _continue(problem, penalty, theta, solution.n_iter, tol, FISTA.max_iter)
            if np.all(np.abs(target) < _LARGEST):  # a model without curvature may have no minimiser
                t, moved = _line_search(problem, penalty, theta, target, state, longest)
            if t <= SHORTEST and damping <= LARGEST_DAMPING and penalty.convex:  # saturated: hardly any curvature
                damping, solution.n_iter = more_damping(damping), solution.n_iter + 1
                continue
            if moved is None:  # a concave penalty where the loss is flat: the model has no minimiser
                return _continue(problem, penalty, theta, solution.n_iter, tol, _FISTA_STEPS)
            damping, gain = less_damping(damping), state.objective - moved[1].objective
            # On the slope towards an optimum far away whole steps gain equally little: they may become longer.
            longest = 4.0 * longest if t >= longest and gain >= STALLED * gained else 1.0
            gained = gain
            theta, state = moved
            solution = judge(penalty, theta, state, solution.n_iter + 1, tol)
        return solution


def _continue(
    problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, n_iter: int, tol: float, max_iter: int
) -> Solution:
    """Finish with FISTA, from `theta`."""
    rest = FISTA().minimise(problem, penalty, tol=tol, max_iter=max_iter, theta=theta)
    rest.n_iter += n_iter
    return rest


def _model(penalty: Penalty, problem: SoftmaxProblem) -> DenseGroupModel | GroupModel | SeparableModel:
    if isinstance(penalty, GroupLasso):
        dense = problem.in_memory and problem.n_parameters <= _DENSE_GROUPS
        return DenseGroupModel(penalty, problem.n_rows) if dense else GroupModel(penalty)
    return SeparableModel(penalty)


def _line_search(
    problem: SoftmaxProblem, penalty: Penalty, theta: FloatArray, target: FloatArray, state: State, longest: float
) -> tuple[float, tuple[FloatArray, State] | None]:
    """The longest part of the way to `target` that decreases the objective, and its end; `None` if none does.

    Beyond one, `longest` is how many times the way is tried first; coefficients that end at zero stay there.
    """
    step = target - theta
    predicted = float(np.sum(state.u * step)) + penalty.value(target) - penalty.value(theta)
    if longest > 1.0:
        moved = np.where(target == 0.0, 0.0, theta + longest * step)
        there = evaluate(problem, penalty, moved)
        if there.objective <= state.objective + ARMIJO * longest * min(predicted, 0.0):
            return longest, (moved, there)
    t = 1.0
    while t > 1e-8:
        moved = target if t == 1.0 else theta + t * step
        there = evaluate(problem, penalty, moved)
        if there.objective <= state.objective + ARMIJO * t * min(predicted, 0.0) + 1e-14 * abs(state.objective):
            return t, (moved, there)
        # Coefficients that belong at zero would only come near it by parts of the way: perhaps they alone may go there.
        if t == 1.0 and np.any(dropped := (target == 0.0) & (theta != 0.0)):
            moved = np.where(dropped, 0.0, theta)
            there = evaluate(problem, penalty, moved)
            if there.objective < state.objective:
                return t, (moved, there)
        t /= 2.0
    return 0.0, None
