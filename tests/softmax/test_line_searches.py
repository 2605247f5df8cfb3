"""How far proximal Newton goes along a step, on losses that are known along it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibrant.softmax.penalties import MCP, Lasso, NoPenalty, Penalty
from calibrant.softmax.solvers import proximal_newton as proximal_newton_module
from calibrant.softmax.solvers.gradient_methods import FISTA
from calibrant.softmax.solvers.proximal_newton import ProximalNewton, _line_search
from calibrant.softmax.solvers.solver import Solution, evaluate

from .bowl import Bowl


def search(bend: Any, penalty: Penalty, theta: Any, target: Any, longest: float = 1.0, slope: Any = -1.0) -> Any:
    """How far, and where to, for the loss ``Σ bend t² / 2 + slope t``."""

    def at(t: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(loss=float(np.sum(bend * t * t / 2.0 + slope * t)), gradient=lambda: bend * t + slope)

    problem = cast(Any, SimpleNamespace(at=at))
    theta, target = np.array([theta], dtype=float), np.array([target], dtype=float)
    t, moved = _line_search(problem, penalty, theta, target, evaluate(problem, penalty, theta), longest)
    return t, None if moved is None else moved[0][0].tolist()


@pytest.mark.parametrize(
    ("bend", "expected"),
    [(1.99975, 1.0), (1.99985, 0.5), (7.0, 0.25), (9.0, 0.125), (1.3e8, 2.0**-26), (1.5e8, 0.0)],
)
def test_a_step_is_halved_until_it_gains_a_little_of_what_it_promises(bend: float, expected: float) -> None:
    """The largest t with ``bend t² / 2 − t <= −1e-4 t``."""
    assert search(bend, NoPenalty((1, 1)), [0.0], [1.0]) == (expected, [expected] if expected else None)
    with_slope = search(bend, Lasso(np.full((1, 1), 0.5)), [0.0], [1.0], slope=-1.5)
    assert with_slope == (expected, [expected] if expected else None)


@pytest.mark.parametrize(("bend", "expected"), [(0.49994, 4.0), (0.49996, 1.0)])
def test_a_longer_step_is_tried_first_and_leaves_zeros_at_zero(bend: float, expected: float) -> None:
    t, moved = search(np.array([bend, 0.0]), NoPenalty((1, 2)), [0.0, 1e-9], [1.0, 0.0], 4.0, np.array([-1.0, 0.0]))
    assert t == expected
    assert moved == [expected, 0.0]


def test_coefficients_that_belong_at_zero_may_go_there_alone() -> None:
    lasso = Lasso(np.full((1, 2), 0.5))
    bend, slope = np.array([1e3, 1e-6]), np.array([-1.0, 0.0])
    assert search(bend, lasso, [0.0, 1.0], [1.0, 0.0], slope=slope) == (1.0, [0.0, 0.0])
    slope[1] = -1.0  # now the second would lose by that
    t, moved = search(bend, lasso, [0.0, 1.0], [1.0, 0.0], slope=slope)
    assert t == 0.0
    assert moved is None


@pytest.mark.parametrize(
    ("rise", "slope", "expected"), [(0.8e-14, -1e-30, 1.0), (1.5e-14, -1e-30, 0.0), (1e-5, 0.4, 0.0)]
)
@pytest.mark.parametrize("longest", [1.0, 4.0])
def test_only_rounding_of_the_objective_is_forgiven(rise: float, slope: float, expected: float, longest: float) -> None:
    def at(t: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(loss=1.0 + rise * (t[0, 0] > 0.0), gradient=lambda: np.full((1, 1), slope))

    problem, none = cast(Any, SimpleNamespace(at=at)), NoPenalty((1, 1))
    theta = np.zeros((1, 1))
    t, _ = _line_search(problem, none, theta, theta + 1.0, evaluate(problem, none, theta), longest)
    assert t == expected


def square(theta: np.ndarray) -> tuple[np.ndarray, ...]:
    return theta**2, 2.0 * theta, np.full(theta.shape, 2.0)


def proximal_newton(problem: Any, penalty: Penalty, start: float, tol: float = 1e-8, max_iter: int = 60) -> Solution:
    theta = np.full(problem.shape, start)
    return ProximalNewton().minimise(problem, penalty, tol=tol, max_iter=max_iter, theta=theta)


def test_steps_towards_an_optimum_far_away_become_longer() -> None:
    def falling(theta: np.ndarray) -> tuple[np.ndarray, ...]:
        value = np.exp(-theta)
        return value, -value, value

    problem = Bowl((1, 5), falling)
    found = proximal_newton(problem, NoPenalty((1, 5)), 2.0)
    assert problem.visited == pytest.approx([2.0, 3.0, 4.0, 8.0, 24.0], abs=1e-4)
    assert found.converged
    assert found.n_iter == 4


@pytest.mark.parametrize(("start", "most"), [(3.0, 10), (1e4, 172)])
def test_steps_that_are_far_too_long_are_damped(start: float, most: int) -> None:
    def size(theta: np.ndarray) -> tuple[np.ndarray, ...]:
        root = np.sqrt(1.0 + theta**2)
        return root, theta / root, 1.0 / root**3

    problem = Bowl((1, 5), size)
    found = proximal_newton(problem, NoPenalty((1, 5)), start)
    assert problem.visited.count(start) == 1
    assert len(problem.visited) <= most
    np.testing.assert_allclose(found.theta, 0.0, atol=1e-6)


@pytest.mark.parametrize(("error", "again"), [(1.40, True), (1.46, False)])
def test_curvature_comes_from_all_rows_once_some_gain_too_little(error: float, again: bool) -> None:
    """With curvature wrong by a factor e, a step leaves ``1 − 1/e`` of the gradient; more than 0.3 is too much."""
    problem = Bowl((1, 5), square, error=error)
    problem.curvature_share = 0.5
    found = proximal_newton(problem, NoPenalty((1, 5)), 3.0, tol=1e-4)
    assert found.converged
    assert problem.shares == [0.5] * (found.n_iter if again else 1)


def test_a_model_is_as_exact_as_the_error_or_the_last_gain_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []

    def minimise(point: Any, added: Any, theta: np.ndarray, u: np.ndarray, error: float) -> np.ndarray:
        asked.append((error, float(np.max(added))))
        return theta - 0.9 * u / point.second

    monkeypatch.setattr(proximal_newton_module, "_model", lambda *_: SimpleNamespace(minimise=minimise))
    problem = Bowl((1, 5), square)
    proximal_newton(problem, NoPenalty((1, 5)), 1.0, tol=1e-4, max_iter=5)
    gains = [5.0 * (0.01**m - 0.01 ** (m + 1)) for m in range(4)]
    expected = [2.0 * 0.1**m for m in range(5)]
    assert [error for error, _ in asked[:2]] == pytest.approx([expected[0], min(expected[1], gains[0])])
    assert [error for error, _ in asked] == pytest.approx(
        [expected[0]] + [min(e, max(g, 1e-7)) for e, g in zip(expected[1 : len(asked)], gains)]
    )
    assert {added for _, added in asked} == {0.0}


def test_a_concave_penalty_without_a_minimiser_is_left_to_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a model cannot be minimised; the steps before are counted."""
    seen: list[Any] = []

    class Gradients(FISTA):
        def minimise(self, *arguments: Any, **options: Any) -> Solution:
            seen.append(options)
            return super().minimise(*arguments, **{**options, "max_iter": 1})

    monkeypatch.setattr(proximal_newton_module, "FISTA", Gradients)
    for target, most in ((np.full((1, 5), 2e30), 2000), (None, 10_000)):
        stub = SimpleNamespace(minimise=lambda *_, target=target: target)
        monkeypatch.setattr(proximal_newton_module, "_model", lambda *_, stub=stub: stub)
        problem = Bowl((1, 5), square)
        found = proximal_newton(problem, MCP(np.full((1, 5), 1e-3)), 1.0)
        assert seen.pop()["max_iter"] == most
        assert found.n_iter == 1
