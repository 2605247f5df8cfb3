"""Accelerated proximal gradients (FISTA) with backtracking and restarts: any penalty, memory linear in the problem.

For non-smooth penalties on problems too large for a dense Hessian.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.solution import Solution, evaluate, judge
from calibrant.softmax.solvers.solver import Solver
from calibrant.typing import FloatArray

#: Iterations between two computations of the duality gap, each of which costs about as much as one of them.
_ITERATIONS_PER_CHECK = 10


class FISTA(Solver):
    """Accelerated proximal gradient steps for any penalty; the objective never increases."""

    name = "fista"
    tol = 1e-6
    max_iter = 10_000

    def minimise(
        self, problem: SoftmaxProblem, penalty: Penalty, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        theta = np.zeros(problem.shape) if theta is None else theta
        best = evaluate(problem, penalty, theta)
        ahead, at_ahead, momentum = theta, best, 1.0
        lipschitz = 1.0
        n_iter = 0
        for n_iter in range(1, max_iter + 1):
            while True:
                moved = penalty.prox(ahead - at_ahead.u / lipschitz, 1.0 / lipschitz)
                step = moved - ahead
                there = evaluate(problem, penalty, moved)
                smooth_ahead = at_ahead.objective - penalty.value(ahead)
                smooth_there = there.objective - penalty.value(moved)
                model = smooth_ahead + float(np.sum(at_ahead.u * step)) + lipschitz / 2.0 * float(np.sum(step * step))
                if smooth_there <= model + 1e-15 * abs(smooth_ahead) or lipschitz > 1e15:
                    break
                lipschitz *= 2.0
            if there.objective > best.objective:  # overshot: drop the momentum and step again from the best point
                if ahead is theta:
                    break
                ahead, at_ahead, momentum = theta, best, 1.0
                continue
            following = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
            ahead = moved + (momentum - 1.0) / following * (moved - theta)
            theta, best, momentum = moved, there, following
            at_ahead = evaluate(problem, penalty, ahead)
            lipschitz *= 0.95
            if n_iter % _ITERATIONS_PER_CHECK == 0:
                solution = judge(penalty, theta, best, n_iter, tol)
                if solution.converged:
                    return solution
        return judge(penalty, theta, best, n_iter, tol)
