"""SAGA: stochastic gradients with a table of past ones, followed by the prox of any penalty.

Each step draws a row, replaces its entry ``p_i − onehot(y_i)`` in the table and moves along an unbiased estimate of
the gradient whose variance vanishes at the optimum. The step is ``1 / 3L`` with ``L`` the largest row's smoothness,
``‖f_i‖² / 2``. Rows are drawn from a seeded generator, so that results repeat bit for bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.compiled_prox import prox_in_place
from calibrant.softmax.solvers.solution import Solution, certify
from calibrant.typing import FloatArray

#: Epochs between two looks at the certificate, which costs about as much as one.
_EPOCHS_PER_CHECK = 5


@njit(cache=True, error_model="numpy", nogil=True)
def _epoch(  # type: ignore[no-untyped-def]
    rows, theta, table, mean, offset, shared, own, y, weight, first, step, code, strength, groups, n_groups, gamma
):
    """One pass of SAGA steps over the drawn `rows`; all matrices row-major, (n, ...)."""
    n, k = offset.shape
    d = shared.shape[1]
    free = theta.shape[0]
    z = np.empty(k)
    for i in rows:
        top = -np.inf
        for j in range(k):
            value = offset[i, j]
            if j >= first:
                for q in range(d):
                    value += theta[j - first, q] * shared[i, q]
                for m in range(own.shape[2]):
                    value += theta[j - first, d + m] * own[i, j, m]
            z[j] = value
            top = max(top, value)
        total = 0.0
        for j in range(k):
            z[j] = math.exp(z[j] - top)
            total += z[j]
        for j in range(free):
            new = z[j + first] / total - (1.0 if y[i] == j + first else 0.0)
            change = new - table[i, j]
            table[i, j] = new
            sampled = step * change * weight[i] * n
            averaged = change * weight[i]
            for q in range(d):
                theta[j, q] -= sampled * shared[i, q] + step * mean[j, q]
                mean[j, q] += averaged * shared[i, q]
            for m in range(own.shape[2]):
                theta[j, d + m] -= sampled * own[i, j + first, m] + step * mean[j, d + m]
                mean[j, d + m] += averaged * own[i, j + first, m]
        prox_in_place(theta, step, code, strength, groups, n_groups, gamma)


def saga(
    problem: SoftmaxProblem,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int,
    theta: FloatArray | None = None,
    random_state: np.random.RandomState | None = None,
) -> Solution:
    """Minimise the loss plus any penalty; `max_iter` counts passes over the data."""
    rng = np.random.RandomState(0) if random_state is None else random_state
    theta = np.zeros(problem.shape) if theta is None else theta.copy()
    offset = np.ascontiguousarray(problem.offset.T)
    shared = np.ascontiguousarray(problem.shared.T)
    own = np.ascontiguousarray(problem.own.transpose(2, 1, 0))
    _, p = problem.evaluate(problem.logits(theta))
    mean = problem.gradient(p)
    table = np.ascontiguousarray(p[problem.first_free :].T)
    rows = np.arange(problem.n_rows)
    free = problem.y >= problem.first_free
    table[rows[free], problem.y[free] - problem.first_free] -= 1.0
    squares = (shared**2).sum(axis=1) + (own**2).sum(axis=2).max(axis=1, initial=0.0)
    smoothness = float(np.max(squares * problem.row_weight)) * problem.n_rows / 2.0
    step = 1.0 / (3.0 * max(smoothness, np.finfo(np.float64).tiny))
    n_groups = int(penalty.groups.max(initial=0)) + 1
    solution = certify(problem, penalty, theta.copy(), 0, tol)
    for epoch in range(1, max_iter + 1):
        drawn = rng.randint(problem.n_rows, size=problem.n_rows)
        _epoch(
            drawn, theta, table, mean, offset, shared, own, problem.y, problem.row_weight, problem.first_free, step,
            penalty.code, penalty.strength, penalty.groups, n_groups, penalty.gamma,
        )  # fmt: skip
        if epoch % _EPOCHS_PER_CHECK == 0 or epoch == max_iter:
            solution = certify(problem, penalty, theta.copy(), epoch, tol)
            if solution.converged:
                break
    return solution
