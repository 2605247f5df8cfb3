"""Solvers of the penalised softmax problem: one algorithm a file, one signature.

A solver knows a problem and a penalty, never a calibrator. `solve` picks one by name, or the fastest suitable one,
and says so when a penalty is beyond it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from calibrant.softmax.penalties import Penalty
from calibrant.softmax.problem import SoftmaxProblem
from calibrant.softmax.solvers.solution import Solution
from calibrant.threads import for_products
from calibrant.typing import FloatArray

#: Up to this many parameters proximal Newton's dense Hessian pays.
_DENSE_LIMIT = 2000

#: What `opt` may be, the default tolerance and number of iterations of each, and whether it needs a smooth penalty.
SOLVERS: dict[str, tuple[float, int, bool]] = {
    "newton": (1e-8, 100, True),
    "lbfgs": (1e-8, 5000, True),
    "saga": (1e-5, 2000, False),
    "proximal-newton": (1e-8, 100, False),
    "fista": (1e-6, 10000, False),
}
ALIASES = {"bfgs": "lbfgs"}
OPTIONS = {"auto", *SOLVERS, *ALIASES}


def choose(opt: str, problem: SoftmaxProblem, penalty: Penalty) -> str:
    """The solver that `opt` names for this problem; ValueError if it cannot handle the penalty."""
    if opt == "auto":
        if penalty.smooth:
            return "newton"
        return "proximal-newton" if problem.n_parameters <= _DENSE_LIMIT else "fista"
    name = ALIASES.get(opt, opt)
    if SOLVERS[name][2] and not penalty.smooth:
        able = [other for other, (_, _, smooth) in SOLVERS.items() if not smooth]
        raise ValueError(
            f"opt={opt!r} needs a smooth penalty (ridge or none), not {type(penalty).__name__}; "
            f"use opt='auto' or one of {able}."
        )
    return name


def solve(
    problem: SoftmaxProblem,
    penalty: Penalty,
    *,
    opt: str = "auto",
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: Any = None,
    theta: FloatArray | None = None,
) -> Solution:
    """Minimise the mean log loss plus a penalty.

    Parameters
    ----------
    opt : {"auto", "newton", "lbfgs", "bfgs", "saga", "proximal-newton", "fista"}
        The algorithm.
    tol : float, default=None
        Bound of the duality gap relative to ``max(1, objective)``, of the residual where there is no gap. `None`
        takes the solver's own: 1e-8, for SAGA 1e-5.
    max_iter : int, default=None
        Most iterations (passes over the data for SAGA); `None` takes the solver's own.
    random_state : int, RandomState instance or None
        Seed of SAGA's draws. `None` means 0: a calibrator gives the same result twice.
    theta : ndarray, default=None
        Where to start; zero by default.
    """
    name = choose(opt, problem, penalty)
    default_tol, default_iterations, _ = SOLVERS[name]
    tol = default_tol if tol is None else tol
    most = default_iterations if max_iter is None else max_iter
    limits: dict[str, Any] = {"tol": tol, "max_iter": most, "theta": theta}
    if name == "saga":
        from sklearn.utils import check_random_state

        limits["random_state"] = check_random_state(0 if random_state is None else random_state)
    with for_products(problem.n_rows, problem.shape[0], problem.n_shared):
        solution = _algorithm(name)(problem, penalty, **limits)
    if not solution.converged:
        reached = f"a residual of {solution.residual:.2g}" if np.isnan(solution.gap) else f"a gap of {solution.gap:.2g}"
        warnings.warn(
            f"{name} stopped after {solution.n_iter} iterations with {reached}, above tol={tol:g}. "
            "Increase max_iter or tol, or use opt='auto'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solution


def _algorithm(name: str) -> Callable[..., Solution]:
    """The function behind a name, imported on first use: compiled solvers load numba."""
    if name == "newton":
        from calibrant.softmax.solvers.newton import newton as algorithm
    elif name == "lbfgs":
        from calibrant.softmax.solvers.lbfgs import lbfgs as algorithm
    elif name == "saga":
        from calibrant.softmax.solvers.saga import saga as algorithm
    elif name == "proximal-newton":
        from calibrant.softmax.solvers.proximal_newton import proximal_newton as algorithm
    else:
        from calibrant.softmax.solvers.fista import fista as algorithm
    return algorithm
