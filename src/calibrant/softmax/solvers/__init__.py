"""Solvers of the penalised softmax problem, with one signature.

A solver knows a problem and a penalty, never a calibrator, and declares what it needs of them. `solve` picks one by
name, or the fastest suitable one, and raises an error if it cannot handle a penalty.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning

from calibrant.softmax.penalties import Penalty, Ridge
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.gradient_methods import FISTA, LBFGS, SAGA
from calibrant.softmax.solvers.newton import Newton
from calibrant.softmax.solvers.proximal_newton import ProximalNewton
from calibrant.softmax.solvers.solver import Solution, Solver
from calibrant.threads import for_products
from calibrant.typing import FloatArray

SOLVERS: dict[str, Solver] = {solver.name: solver for solver in (Newton(), LBFGS(), SAGA(), ProximalNewton(), FISTA())}
ALIASES = {"bfgs": "lbfgs"}
OPTIONS = {"auto", *SOLVERS, *ALIASES}
#: What "auto" takes: the first that can handle penalty and problem.
_FASTEST_FIRST = ("newton", "proximal-newton")


def choose(solver: str, problem: SoftmaxProblem, penalty: Penalty) -> Solver:
    """The solver that `solver` names for this problem; ValueError if penalty or rows are beyond it."""

    def able(one: Solver) -> bool:
        return (penalty.smooth or not one.needs_smooth) and (problem.in_memory or not one.needs_arrays)

    if solver == "auto":
        fastest = (SOLVERS[name] for name in _FASTEST_FIRST)
        return next(one for one in fastest if able(one))
    chosen = SOLVERS[ALIASES.get(solver, solver)]
    if not able(chosen):
        others = [name for name, other in SOLVERS.items() if able(other)]
        lacking = (
            f"a smooth penalty (ridge or none), not {type(penalty).__name__}"
            if chosen.needs_smooth and not penalty.smooth
            else "all rows in memory"
        )
        raise ValueError(f"solver={solver!r} needs {lacking}; use solver='auto' or one of {others}.")
    return chosen


def _rough_start(sample: SoftmaxProblem, penalty: Penalty, theta: FloatArray | None) -> FloatArray:
    """Coefficients near the optimum, from a sample of the rows.

    A sample may be separable or lack a class where all rows do not: a ridge as of half an observation keeps it finite.
    """
    strength = 0.5 * sample.second_moments / sample.total_weight
    ridge = Ridge(strength + penalty.strength if penalty.smooth else strength)
    return Newton().minimise(sample, ridge, tol=Newton.tol, max_iter=Newton.max_iter, theta=theta).theta


def solve(
    problem: SoftmaxProblem,
    penalty: Penalty,
    *,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: int | RandomState | None = None,
    theta: FloatArray | None = None,
) -> Solution:
    """Minimise the mean log loss plus a penalty, from `theta` (default: zero).

    `tol` bounds the duality gap relative to ``max(1, objective)``, or the residual where there is no gap. `None` takes
    the solver's own: 1e-8, for SAGA 1e-5, for FISTA 1e-6. That is also what it means for Newton's method where matrix
    scaling has 60 or more classes or vector scaling 20 and all coefficients are penalised, and for proximal Newton with
    more than 2000 coefficients. `max_iter` counts passes over the data for SAGA, whose draws have the seed 0 if
    `random_state` is `None`: a calibrator gives the same result twice.
    """
    chosen = choose(solver, problem, penalty)
    tol = chosen.default_tol(problem, penalty) if tol is None else tol
    most = chosen.max_iter if max_iter is None else max_iter
    limits: dict[str, Any] = {"tol": tol, "max_iter": most, "theta": theta}
    if chosen.draws_rows:
        limits["random_state"] = 0 if random_state is None else random_state
    with for_products(problem.n_rows, problem.shape[0], problem.n_shared):
        if problem.rough is not None and penalty.convex:
            limits["theta"] = _rough_start(problem.rough, penalty, theta)
        solution = chosen.minimise(problem, penalty, **limits)
    if not solution.converged:
        reached = f"a residual of {solution.residual:.2g}" if np.isnan(solution.gap) else f"a gap of {solution.gap:.2g}"
        warnings.warn(
            f"{chosen.name} stopped after {solution.n_iter} iterations with {reached}, above tol={tol:g}. "
            "Increase max_iter or tol, or use solver='auto'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solution
