"""Solvers that need no curvature: L-BFGS, FISTA and SAGA.

- L-BFGS is scipy's, for smooth penalties.
- FISTA takes accelerated proximal gradient steps with backtracking and restarts, for any penalty, also on problems too
  large for a dense Hessian.
- SAGA steps along stochastic gradients with a table of past ones: each step draws a row, replaces its entry
  ``p_i − onehot(y_i)`` in the table and moves along an unbiased estimate of the gradient whose variance vanishes at the
  optimum. The step is ``1 / 3L`` with ``L`` the largest row's smoothness, ``‖f_i‖² / 2``. Rows are drawn from a seeded
  generator, so that results repeat bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from calibrant.softmax.penalties import Penalty, Ridge
from calibrant.softmax.problem import Point, SoftmaxProblem
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.solver import Solution, Solver, certify, evaluate, judge
from calibrant.typing import FloatArray


class LBFGS(Solver):
    """L-BFGS for a ridge penalty or none, stopped by the duality gap where there is one."""

    name = "lbfgs"
    max_iter = 5000
    needs_smooth = True

    def minimise(
        self, problem: SoftmaxProblem, penalty: Ridge, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        start = np.zeros(problem.shape) if theta is None else theta
        latest = {"gap": np.inf, "objective": np.inf}
        spare: Point | None = None

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            nonlocal spare
            coefficients = flat.reshape(problem.shape)
            spare = point = problem.at(coefficients, reuse=spare)
            gradient = point.gradient() + penalty.gradient(coefficients)
            value = point.loss + penalty.value(coefficients)
            latest["gap"] = penalty.conjugate(gradient) if penalty.certifies else np.nan
            latest["objective"] = value
            return value, gradient.ravel()

        def stop(xk: FloatArray) -> None:
            if latest["gap"] <= tol * max(1.0, latest["objective"]):
                raise StopIteration

        # Without a gap the gradient decides: its norm must shrink like the square root of the decrement.
        gradient_tolerance = 0.0 if penalty.certifies else min(np.sqrt(tol) * 1e-3, 1e-5)
        result = minimize(
            objective,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=stop,
            options={
                "maxiter": max_iter,
                "maxfun": 4 * max_iter,
                "ftol": 0.0,
                "gtol": gradient_tolerance,
                "maxcor": 20,
            },
        )
        theta = np.asarray(result.x).reshape(problem.shape)
        solution = certify(problem, penalty, theta, int(result.nit), tol)
        if not penalty.certifies:
            solution.converged |= solution.residual <= 10.0 * gradient_tolerance
        return solution


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
        from calibrant.softmax.proximal import epoch as walk

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
