"""SAGA: stochastic gradients with a table of past ones, followed by the prox of any penalty.

Each step draws a row, replaces its entry ``p_i − onehot(y_i)`` in the table and moves along an unbiased estimate of
the gradient whose variance vanishes at the optimum. The step is ``1 / 3L`` with ``L`` the largest row's smoothness,
``‖f_i‖² / 2``. Rows are drawn from a seeded generator, so that results repeat bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.solution import Solution, certify
from calibrant.softmax.solvers.solver import Solver
from calibrant.typing import FloatArray

#: Epochs between two looks at the certificate, which costs about as much as one.
_EPOCHS_PER_CHECK = 5


class SAGA(Solver):
    """SAGA for any penalty; `max_iter` counts passes over the data."""

    name = "saga"
    tol = 1e-5
    max_iter = 2000
    draws_rows = True
    needs_arrays = True

    def minimise(
        self,
        problem: ArrayProblem,
        penalty: Penalty,
        *,
        tol: float,
        max_iter: int,
        theta: FloatArray | None = None,
        random_state: int | RandomState | None = 0,
    ) -> Solution:
        from calibrant.softmax.solvers.saga_kernel import epoch as walk

        rng = check_random_state(random_state)
        theta = np.zeros(problem.shape) if theta is None else theta.copy()
        offset = np.ascontiguousarray(problem.offset.T)
        shared = np.ascontiguousarray(problem.shared.T)
        own = np.ascontiguousarray(problem.own.transpose(2, 1, 0))
        point = problem.at(theta)
        mean = point.gradient()
        table = np.ascontiguousarray(point.p[problem.first_free :].T)
        rows = np.arange(problem.n_rows)
        free = problem.y >= problem.first_free
        table[rows[free], problem.y[free] - problem.first_free] -= 1.0
        squares = (shared**2).sum(axis=1) + (own**2).sum(axis=2).max(axis=1, initial=0.0)
        smoothness = float(np.max(squares * problem.row_weight)) * problem.n_rows / 2.0
        step = 1.0 / (3.0 * max(smoothness, np.finfo(np.float64).tiny))
        rows_of_problem = (offset, shared, own, problem.y, problem.row_weight)
        solution = certify(problem, penalty, theta.copy(), 0, tol)
        for epoch in range(1, max_iter + 1):
            drawn = rng.randint(problem.n_rows, size=problem.n_rows)
            walk(drawn, theta, table, mean, *rows_of_problem, problem.first_free, step, penalty.description)
            if epoch % _EPOCHS_PER_CHECK == 0 or epoch == max_iter:
                solution = certify(problem, penalty, theta.copy(), epoch, tol)
                if solution.converged:
                    break
        return solution
