"""How much solvers ask for: passes over the rows and products with the Hessian, counted, for problems of every size.

A solver that takes a wrong turn still finds the optimum, later. Newton's method doubles the correct digits from step to
step once it is near, so that ten digits take a handful of steps; what is computed beside the steps is bounded, too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from calibrant.softmax.inverse_temperature import fit_inverse_temperature
from calibrant.softmax.penalties import Lasso, NoPenalty, Ridge
from calibrant.softmax.rows.arrays import ArrayPoint, ArrayProblem
from calibrant.softmax.solvers import solve

from .conftest import make_problem
from .test_solvers import by_part, make_penalty

COUNTED = {
    ArrayProblem: ("at", "derivatives"),
    ArrayPoint: (
        "hessian",
        "rough_hessian",
        "hessian_vector_product",
        "class_blocks",
        "class_moments",
        "hessian_of",
        "thinned",
    ),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each sum over rows was asked for."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*args, **options)

        return call

    for cls, names in COUNTED.items():
        for name in names:
            monkeypatch.setattr(cls, name, counted(name, getattr(cls, name)))
    return counts


def check(asked: Counter[str], **most: int) -> None:
    """Nothing is asked for more often than this, and nothing else is asked for."""
    assert {name: count for name, count in asked.items() if count > most.get(name, 0)} == {}


@pytest.mark.parametrize("kind", ["matrix", "vector", "mixed"])
def test_few_coefficients_take_a_handful_of_dense_steps(kind: str, asked: Counter[str]) -> None:
    problem = make_problem(kind)
    solve(problem, make_penalty("ridge", problem), tol=1e-10)
    check(asked, at=7 if kind == "mixed" else 6, rough_hessian=2, hessian=2)
    assert asked["rough_hessian"] + asked["hessian"] <= 3
    asked.clear()
    solve(problem, make_penalty("none", problem), tol=1e-10)
    check(asked, **({"at": 9, "hessian": 7} if kind == "mixed" else {"at": 5, "hessian": 5}))
    asked.clear()
    solve(problem, make_penalty("lasso", problem), tol=1e-10)
    check(asked, at=7 if kind == "mixed" else 6, hessian=5)
    asked.clear()
    solve(problem, make_penalty("group_lasso", problem), tol=1e-10)
    check(asked, at=11 if kind == "mixed" else 9, rough_hessian=3, hessian=1)


def test_three_coefficients_keep_nothing_between_steps(asked: Counter[str]) -> None:
    problem = make_problem("binary")
    for name in ("none", "ridge"):
        asked.clear()
        solve(problem, make_penalty(name, problem), tol=1e-10)
        check(asked, derivatives=5)


@pytest.mark.parametrize(
    ("n", "k", "kind", "most"),
    [
        (2000, 6, "matrix", {"at": 5, "rough_hessian": 2, "hessian": 1}),  # up to 48 coefficients: dense
        (2000, 12, "matrix", {"at": 7, "class_blocks": 1, "hessian_vector_product": 37}),
        (500, 25, "matrix", {"at": 8, "class_moments": 2, "hessian_vector_product": 79}),
        (1500, 60, "matrix", {"at": 11, "class_moments": 3, "hessian_vector_product": 130, "thinned": 1}),
        (2000, 30, "vector", {"at": 6, "rough_hessian": 2, "hessian": 2}),
    ],
)
def test_curvature_is_reused_as_long_as_it_is_good(n: int, k: int, kind: str, most: Any, asked: Counter[str]) -> None:
    problem = make_problem(kind, n=n, k=k)
    assert solve(problem, Ridge(np.full(problem.shape, 0.01))).converged
    check(asked, **most)


def test_directions_without_a_penalty_need_fresh_curvature(asked: Counter[str]) -> None:
    problem = make_problem("matrix", n=2000, k=12)
    assert solve(problem, NoPenalty(problem.shape)).converged
    check(asked, at=6, class_blocks=2, hessian_vector_product=18)


def test_sparse_models_look_at_coefficients_that_may_not_be_zero(asked: Counter[str]) -> None:
    problem = make_problem("matrix", n=800, k=12)
    solve(problem, by_part(problem, (0.02, 0.003, 0.001), False), tol=1e-8)
    check(asked, at=8, hessian_of=6)
    asked.clear()
    solve(problem, by_part(problem, (0.02, 0.003, 0.001), True), tol=1e-8)
    check(asked, at=8, class_blocks=3, hessian_vector_product=119)


@pytest.mark.parametrize("scale", [0.2, 0.7, 1.0, 1.6, 5.0])
def test_a_look_at_some_rows_leaves_two_or_three_passes_over_all(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = log_softmax(2.0 * rng.normal(size=(4, 20_000)), axis=0)
    y = (scale * x + rng.gumbel(size=x.shape)).argmax(axis=0)
    rows: list[int] = []
    scaled = ArrayProblem.scaled

    def noted(problem: ArrayProblem, alpha: float) -> tuple[float, float, float]:
        rows.append(problem.n_rows)
        return scaled(problem, alpha)

    monkeypatch.setattr(ArrayProblem, "scaled", noted)
    fit_inverse_temperature(x, y)
    assert rows.count(20_000) <= (3 if scale in (0.2, 5.0) else 2)  # beyond a factor of two it starts farther away
    assert sum(n < 20_000 for n in rows) <= 6
    assert all(500 < n < 600 for n in rows if n < 20_000)
    rows.clear()
    fit_inverse_temperature(x, y, prior=5.0)
    assert rows.count(20_000) <= 7


@pytest.mark.parametrize(("solver", "tol", "most"), [("fista", 1e-6, 90), ("lbfgs", 1e-8, 37), ("saga", 1e-4, 75)])
def test_gradients_alone_take_more_steps_but_not_many_more(solver: str, tol: float, most: int) -> None:
    problem = make_problem("matrix")
    found = solve(problem, make_penalty("ridge", problem), solver=solver, tol=tol)
    assert found.converged
    assert found.n_iter <= most


def test_the_slope_to_certainty_is_walked_in_few_steps(asked: Counter[str]) -> None:
    """Where the predictions are always right, penalties alone keep coefficients finite, far from zero."""
    mixed = make_problem("matrix", n=60, k=3)
    problem = ArrayProblem(mixed.offset.argmax(axis=0), mixed.offset, shared=mixed.shared)
    strength = np.full(problem.shape, 1e-5)
    for penalty, most in (
        (NoPenalty(problem.shape), {"at": 11, "hessian": 11}),
        (Ridge(0.1 * strength), {"at": 10, "rough_hessian": 5, "hessian": 2}),
        (Lasso(strength), {"at": 22, "hessian": 16}),
    ):
        asked.clear()
        found = solve(problem, penalty)
        assert found.converged
        assert found.objective < 0.02
        check(asked, **most)
