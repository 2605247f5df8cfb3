"""Every solver × penalty × kind of problem against an independent referee."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers import SOLVERS, choose, solve
from calibrant.softmax.solvers.solver import duality_gap, evaluate

from .conftest import KINDS, make_problem
from .test_problem import plain_loss


def groups_of(problem: ArrayProblem) -> np.ndarray:
    r, q = problem.shape
    groups = np.tile(np.arange(q) % 2, (r, 1))
    if r > 1 and q > r:
        groups[np.arange(r), np.arange(r)] = 2
    return groups


def make_penalty(name: str, problem: ArrayProblem) -> Penalty:
    groups = groups_of(problem)
    strength = np.array([0.004, 0.01, 0.02])[groups]
    return {
        "none": lambda: NoPenalty(problem.shape),
        "ridge": lambda: Ridge(strength),
        "lasso": lambda: Lasso(strength),
        "group_lasso": lambda: GroupLasso(strength, groups),
        "mcp": lambda: MCP(strength, 3.0),
    }[name]()


def referee_smooth(problem: ArrayProblem, penalty: Penalty) -> float:
    """scipy's BFGS on the formula, polished by its trust-region method with an independent gradient."""

    def value(t: np.ndarray) -> float:
        return plain_loss(problem, t.reshape(problem.shape)) + penalty.value(t.reshape(problem.shape))

    def gradient(t: np.ndarray) -> np.ndarray:
        theta = t.reshape(problem.shape)
        z = problem.offset + problem.linear(theta)
        p = np.exp(z - z.max(axis=0))
        p /= p.sum(axis=0)
        p[problem.y, np.arange(problem.n_rows)] -= 1.0
        return (problem.adjoint(p * problem.row_weight) + 2 * penalty.strength * theta).ravel()

    start = np.zeros(problem.n_parameters)
    result = minimize(value, start, jac=gradient, method="BFGS", options={"gtol": 1e-12, "maxiter": 5000})
    return float(result.fun)


def referee_convex(problem: ArrayProblem, penalty: Penalty) -> float:
    import cvxpy as cp

    theta = cp.Variable(problem.shape)
    rows = []
    for j in range(problem.n_classes):
        i = j - problem.first_free
        row = problem.offset[j]
        if i >= 0:
            features = np.vstack([problem.shared, problem.own[:, j]])
            row = row + theta[i] @ features
        rows.append(cp.reshape(row, (1, problem.n_rows), order="C") if i >= 0 else row[None])
    z = cp.vstack(rows)
    at_label = cp.sum(cp.multiply(z, np.eye(problem.n_classes)[problem.y].T), axis=0)
    loss = problem.row_weight @ (cp.log_sum_exp(z, axis=0) - at_label)
    if isinstance(penalty, Lasso):
        size = cp.sum(cp.multiply(penalty.strength, cp.abs(theta)))
    else:
        assert isinstance(penalty, GroupLasso)
        size = sum(s * cp.norm(theta[penalty.groups == g], 2) for g, s in enumerate(penalty.group_strength))
    program = cp.Problem(cp.Minimize(loss + size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return plain_loss(problem, theta.value) + penalty.value(theta.value)


SMOOTH = ("none", "ridge")
CONVEX = ("lasso", "group_lasso")
PAIRS = [
    (solver, name)
    for solver, one in SOLVERS.items()
    for name in (*SMOOTH, *CONVEX, "mcp")
    if name in SMOOTH or not one.needs_smooth
]
_OPTIMA: dict[tuple[str, str], float] = {}


def optimum(kind: str, name: str) -> float:
    if (kind, name) not in _OPTIMA:
        problem = make_problem(kind, n=150, weighted=True)
        penalty = make_penalty(name, problem)
        _OPTIMA[kind, name] = (referee_smooth if name in SMOOTH else referee_convex)(problem, penalty)
    return _OPTIMA[kind, name]


FIRST_ORDER = ("saga", "fista", "lbfgs")
# The features of "mixed" are nearly collinear: that is for second-order methods, no calibrator gives it to others.
CASES = [
    (solver, name, kind) for solver, name in PAIRS for kind in KINDS if kind != "mixed" or solver not in FIRST_ORDER
]


@pytest.mark.parametrize(("solver", "name", "kind"), CASES)
def test_solution_is_the_optimum(solver: str, name: str, kind: str) -> None:
    problem = make_problem(kind, n=150, weighted=True)
    penalty = make_penalty(name, problem)
    tol = {"saga": 1e-4, "fista": 1e-5}.get(solver, 1e-10)
    solution = solve(problem, penalty, solver=solver, tol=tol, max_iter=20000)
    assert solution.converged
    value = plain_loss(problem, solution.theta) + penalty.value(solution.theta)
    assert solution.objective == pytest.approx(value, rel=1e-12)
    if name == "mcp":  # not convex: stationary, and no worse than the start
        state = evaluate(problem, penalty, solution.theta)
        moved = penalty.prox(solution.theta - state.u, 1.0)
        assert np.max(np.abs(moved - solution.theta)) == pytest.approx(solution.residual, abs=1e-12)
        assert solution.residual <= tol
        assert solution.objective <= plain_loss(problem, np.zeros(problem.shape)) + 1e-12
        return
    best = optimum(kind, name)
    excess = solution.objective - best
    assert excess >= -1e-8
    if name == "none":
        assert np.isnan(solution.gap)
        assert excess <= 1e-4 if solver in ("saga", "fista") else excess <= 1e-9
    else:
        assert excess <= solution.gap + 1e-8
        assert 0.0 <= solution.gap <= tol * max(1.0, solution.objective)


@pytest.mark.parametrize("name", ["ridge", "lasso", "group_lasso"])
def test_gap_bounds_suboptimality_everywhere(name: str, kind: str) -> None:
    problem = make_problem(kind)
    penalty = make_penalty(name, problem)
    best = solve(problem, penalty, tol=1e-11).objective
    rng = np.random.default_rng(0)
    for scale in (0.0, 1e-3, 0.1, 1.0, 5.0):
        theta = scale * rng.normal(size=problem.shape)
        state = evaluate(problem, penalty, theta)
        gap = duality_gap(state.point, penalty, theta, state.u, state.objective)
        assert gap >= 0.0
        assert gap >= state.objective - best - 1e-12


def test_two_parameters_against_brute_force() -> None:
    """One intercept and one slope on a grid: what no solver can get wrong unnoticed, MCP included."""
    full = make_problem("binary")
    problem = ArrayProblem(full.y, full.offset, shared=full.shared[:2], first_free=1)
    strength = np.array([[0.05, 0.02]])
    for penalty in (Ridge(strength), Lasso(strength), MCP(strength, 3.0), GroupLasso(strength, np.array([[0, 1]]))):
        solution = solve(problem, penalty)
        for line, centre in ((np.linspace(-0.05, 0.05, 21), solution.theta), (np.linspace(-3, 3, 31), 0.0)):
            points = np.array(list(product(line, line))) + centre
            z = points @ problem.shared
            losses = (np.logaddexp(0.0, z) - problem.y * z).mean(axis=1)
            assert losses[0] == pytest.approx(plain_loss(problem, points[:1]))
            assert solution.objective <= min(losses + [penalty.value(t[None]) for t in points]) + 1e-9


def test_auto_reads_what_solvers_declare() -> None:
    problem = make_problem("vector")
    assert choose("auto", problem, make_penalty("ridge", problem)).name == "newton"
    assert choose("auto", problem, make_penalty("lasso", problem)).name == "proximal-newton"
    assert choose("bfgs", problem, make_penalty("none", problem)).name == "lbfgs"


def by_part(problem: ArrayProblem, strengths: tuple[float, float, float], group_lasso: bool) -> Penalty:
    """Strengths of off-diagonal weights, diagonal and intercepts of a matrix problem, as SMS penalises them."""
    parts = np.zeros(problem.shape, dtype=int)
    np.fill_diagonal(parts, 1)
    parts[:, -1] = 2
    strength = np.array(strengths)[parts]
    return GroupLasso(strength, parts) if group_lasso else Lasso(strength)


@pytest.mark.parametrize(
    ("group_lasso", "strengths"),
    [
        (False, (0.05, 0.005, 0.002)),
        (True, (0.02, 0.003, 0.001)),
        pytest.param(False, (0.02, 0.003, 0.001), marks=pytest.mark.slow),
        pytest.param(False, (0.3, 0.01, 0.0005), marks=pytest.mark.slow),
        pytest.param(True, (0.3, 0.01, 0.0005), marks=pytest.mark.slow),
        pytest.param(False, (0.02, 0.1, 0.1), marks=pytest.mark.slow),
        pytest.param(True, (0.02, 0.1, 0.1), marks=pytest.mark.slow),
    ],
)
def test_sparse_penalties_of_many_classes(group_lasso: bool, strengths: tuple[float, float, float]) -> None:
    """More than 2000 coefficients, few of them not zero; the gap proves the optimum, gradients do not get below."""
    problem = make_problem("matrix", n=150, k=45)
    penalty = by_part(problem, strengths, group_lasso)
    solution = solve(problem, penalty, tol=2e-9)  # of max(1, objective); the objective is 0.25 at least
    state = evaluate(problem, penalty, solution.theta)
    assert duality_gap(state.point, penalty, solution.theta, state.u, state.objective) <= 1e-8 * state.objective
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gradients = solve(problem, penalty, solver="fista", max_iter=20)
    assert solution.objective <= gradients.objective + 1e-12


def test_gradients_finish_where_too_many_coefficients_may_leave_zero() -> None:
    problem = make_problem("matrix", n=100, k=45)
    penalty = by_part(problem, (1e-4, 1e-4, 1e-4), False)
    assert np.sum(np.abs(problem.at(np.zeros(problem.shape)).gradient()) > penalty.strength) > 2000
    solution = solve(problem, penalty, tol=1e-2)
    assert solution.gap <= 1e-2


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_a_solver_that_needs_a_smooth_penalty_names_those_that_do_not(solver: str) -> None:
    problem = make_problem("vector")
    with pytest.raises(ValueError, match=r"saga.*proximal-newton.*fista"):
        solve(problem, make_penalty("lasso", problem), solver=solver)


@pytest.mark.parametrize(
    ("solver", "name", "reached"),
    [("newton", "ridge", "gap"), ("lbfgs", "ridge", "gap"), ("saga", "lasso", "gap"), ("fista", "mcp", "residual")],
)
def test_too_few_iterations_warn_with_what_was_reached(solver: str, name: str, reached: str) -> None:
    problem = make_problem("matrix")
    with pytest.warns(ConvergenceWarning, match=rf"{solver} stopped after 1 iterations with a {reached} of \d"):
        solution = solve(problem, make_penalty(name, problem), solver=solver, tol=1e-12, max_iter=1)
    assert np.isfinite(solution.theta).all()


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_results_repeat_bit_for_bit(solver: str) -> None:
    problem = make_problem("matrix")
    penalty = make_penalty("ridge", problem)
    one, two = (solve(problem, penalty, solver=solver, tol=1e-3, random_state=3).theta for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("weighted", [False, True])
def test_large_problems_in_single_precision_on_some_rows_are_certified_in_double(weighted: bool) -> None:
    problem = make_problem("matrix", n=200, k=60, weighted=weighted)
    penalty = Ridge(np.full(problem.shape, 0.05))
    exact = solve(problem, penalty, solver="lbfgs", tol=1e-12)
    for tol, bound in ((None, 1e-6), (1e-8, 1e-8), (1e-12, 1e-12)):  # an explicit tolerance is kept
        solution = solve(problem, penalty, tol=tol)
        assert solution.converged
        assert solution.gap <= bound * solution.objective
        assert -1e-12 <= solution.objective - exact.objective <= solution.gap
    np.testing.assert_array_equal(solve(problem, penalty).theta, solve(problem, penalty).theta)


@pytest.mark.parametrize("k", [6, 25])
def test_preconditioned_newton_on_either_side_of_its_switches(k: int) -> None:
    problem = make_problem("matrix", n=500, k=k)
    groups = np.zeros(problem.shape, dtype=int)
    groups[:, -1] = 1
    groups[np.arange(k), np.arange(k)] = 2
    penalty = Ridge(np.array([0.1, 0.01, 0.004])[groups])
    solution = solve(problem, penalty, tol=1e-12)
    reference = solve(problem, penalty, solver="lbfgs", tol=1e-10)
    assert solution.objective == pytest.approx(reference.objective, abs=1e-9)
    np.testing.assert_allclose(solution.theta, reference.theta, atol=1e-4)
