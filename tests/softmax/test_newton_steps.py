"""What Newton's method decides from step to step, on models that are solved by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibrant.softmax.penalties import NoPenalty, Ridge
from calibrant.softmax.solvers import newton as newton_module
from calibrant.softmax.solvers.newton import (
    Newton,
    _conjugate_gradients,
    _curvature_share,
    _is_dense,
    _is_large,
    _tried_on_some,
)
from calibrant.softmax.solvers.solver import Solution

from .bowl import Bowl

EVERY = np.linspace(1.0, 3.0, 12).reshape(3, 4)
GRADIENT = np.random.default_rng(0).normal(size=(3, 4))


def stopped(hessian: np.ndarray, gradient: np.ndarray, penalty: Ridge, goal: float) -> tuple[np.ndarray, int]:
    """Conjugate gradients for a diagonal Hessian, preconditioned by twice the identity."""
    point = SimpleNamespace(hessian_vector_product=lambda direction: hessian * direction)
    half = SimpleNamespace(solve=lambda residual: 0.5 * residual)
    return _conjugate_gradients(cast(Any, point), penalty, gradient, cast(Any, half), goal, penalty.curvature)


def best_in(hessian: np.ndarray, gradient: np.ndarray, dimensions: int) -> np.ndarray:
    """The minimiser of the quadratic model among combinations of ``g, H g, H² g, ...``, as theory defines the steps."""
    h, g = hessian.ravel(), gradient.ravel()
    basis = np.linalg.qr(np.column_stack([h**i * g for i in range(dimensions)]))[0]
    return (basis @ np.linalg.solve(basis.T @ (h[:, None] * basis), -basis.T @ g)).reshape(gradient.shape)


@pytest.mark.parametrize("size", [1.0, 0.05, 1e-3])
def test_conjugate_gradients_stop_where_the_newton_step_is_good_enough(size: float) -> None:
    """Where the residual is down to a fifth, or to the root of the gradient's size if that is less."""
    gradient, hessian = size * GRADIENT, EVERY**4
    step, steps = stopped(hessian, gradient, NoPenalty((3, 4)), 0.0)
    first = 0.5 * np.sum(gradient**2)
    enough = first * min(0.2, np.sqrt(first)) ** 2
    sizes = [0.5 * np.sum((gradient + hessian * best_in(hessian, gradient, m)) ** 2) for m in range(steps + 1)[1:]]
    np.testing.assert_allclose(step, best_in(hessian, gradient, steps), rtol=1e-9)
    assert sizes[-1] <= enough < min(sizes[:-1])


@pytest.mark.parametrize("goal", [1e-1, 1e-3])
@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_conjugate_gradients_stop_at_a_tenth_of_the_goal(strength: float, goal: float) -> None:
    """What is left to gain: the conjugate of the ridge at the residual, without a ridge half the residual's size."""
    gradient, penalty = 1e-4 * GRADIENT, Ridge(np.full((3, 4), strength))
    goal = goal * float(np.sum(gradient**2))
    hessian = EVERY**4
    step, steps = stopped(hessian, gradient, penalty, goal)
    bent = hessian + 2.0 * strength
    left = []
    for m in range(1, steps + 1):
        residual = gradient + bent * best_in(bent, gradient, m)
        left.append(np.sum(residual**2) * (0.25 / strength if strength else 0.25))
    np.testing.assert_allclose(step, best_in(bent, gradient, steps), rtol=1e-9)
    assert left[-1] <= 0.1 * goal < min([*left[:-1], np.inf])


def test_conjugate_gradients_end_without_curvature_and_after_many_products() -> None:
    step, steps = stopped(np.zeros((3, 4)), GRADIENT, NoPenalty((3, 4)), 0.0)
    assert not step.any()
    assert steps == 1
    uneven = np.geomspace(1e-14, 1.0, 12).reshape(3, 4)
    assert stopped(uneven, 1e-14 * np.ones((3, 4)), NoPenalty((3, 4)), 0.0)[1] == 20 + 2 * 12


@pytest.mark.parametrize(
    ("bend", "expected"),
    [(1.99975, 1.0), (1.99985, 0.5), (7.0, 0.25), (9.0, 0.125), (1.6e4, 2.0**-13), (2e4, 1.0), (1e9, 1.0)],
)
def test_a_step_is_tried_on_some_rows_tilted_to_the_slope_of_all(bend: float, expected: float) -> None:
    """Where all rows fall by one per step, and the sample bends, the gain must be 1e-4 of what the slope promises."""

    def at(theta: np.ndarray) -> SimpleNamespace:
        second = bend / 4.0 - 0.5
        return SimpleNamespace(loss=second * float(theta[0, 0]) ** 2 / 2.0, gradient=lambda: second * theta)

    sample, ridge = cast(Any, SimpleNamespace(at=at)), Ridge(np.full((1, 1), 0.25))
    for start in (0.0, 0.5):
        found = _tried_on_some(sample, ridge, np.full((1, 1), start), np.full((1, 1), 2.0), -1.0)
        assert found == expected  # the largest t with bend t² / 2 − t <= −1e-4 t


def problem_of_size(n_rows: int, n_classes: int, n_shared: int, n_own: int, curvature_share: float = 1.0) -> Any:
    """What is asked about the size of a problem."""
    shape = (n_classes, n_shared + n_own)
    sizes = {"n_rows": n_rows, "n_classes": n_classes, "n_shared": n_shared, "shape": shape}
    return SimpleNamespace(**sizes, n_parameters=shape[0] * shape[1], in_memory=True, curvature_share=curvature_share)


def test_few_coefficients_have_a_dense_hessian() -> None:
    assert _is_dense(problem_of_size(100, 6, 8, 0))
    assert not _is_dense(problem_of_size(100, 7, 7, 0))
    assert _is_dense(problem_of_size(100, 128, 1, 1))
    assert _is_dense(problem_of_size(100, 256, 0, 1))
    assert not _is_dense(problem_of_size(100, 257, 0, 1))


def test_problems_of_many_classes_are_large() -> None:
    for n_classes, n_shared, n_own, large in (
        (5, 60, 0, True), (5, 59, 0, False), (20, 1, 1, True), (20, 0, 1, True), (19, 1, 1, False), (20, 2, 1, False),
    ):  # fmt: skip
        assert _is_large(problem_of_size(100, n_classes, n_shared, n_own)) == large


@pytest.mark.parametrize(
    ("size", "share"),
    [
        ((10**6, 59, 59, 0), 1.0),  # not large: all rows
        ((100_000, 60, 60, 0), 1.0 / 16.0),
        ((5000, 60, 60, 0), 0.16),  # 800 rows
        ((400, 60, 60, 0), 1.0),
        ((8000, 100, 100, 0), 0.15),  # twelve for each feature
        ((3200, 100, 60, 0), 0.25),
        ((16_000, 200, 1, 1), 0.15),
        ((16_000, 19, 1, 1), 1.0),
        ((100_000, 20, 1, 1), 1.0 / 16.0),
        ((12_500, 20, 1, 1), 1.0),  # 2e7 rows times squared parameters: cheap
        ((12_501, 20, 1, 1), 800 / 12_501),
        ((100_000, 60, 60, 0, 0.01), 0.01),  # where passes over all rows are expensive
    ],
)
def test_the_sample_for_curvature_has_enough_rows_for_its_features(size: Any, share: float) -> None:
    problem = problem_of_size(*size)
    assert _curvature_share(problem, Ridge(np.ones((1, 1)))) == pytest.approx(share)
    assert _curvature_share(problem, NoPenalty((1, 1))) == problem.curvature_share


def square(theta: np.ndarray) -> tuple[np.ndarray, ...]:
    return (theta - 3.0) ** 2, 2.0 * (theta - 3.0), np.full(theta.shape, 2.0)


def newton(problem: Any, penalty: Ridge, start: float = 0.0, tol: float = 1e-8, max_iter: int = 50) -> Solution:
    theta = np.full(problem.shape, start)
    return Newton().minimise(problem, penalty, tol=tol, max_iter=max_iter, theta=theta)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(1.5, [1, 1, 1]), (2.16, [1, 1, 1]), (2.26, [1, 2, 4, 8]), (20.0, [1, 2, 4, 8])],
)
def test_the_sample_is_doubled_while_it_gains_too_little(error: float, expected: list[int]) -> None:
    """With curvature wrong by a factor e, a step leaves ``(1 − 1/e)²`` of the gap; 0.3 is too much."""
    problem = Bowl((1, 60), square, n_rows=10**6, error=error)
    found = newton(problem, Ridge(np.full((1, 60), 1e-9)), tol=1e-3)
    assert found.converged
    assert [16 * share for share in problem.shares][: len(expected)] == expected
    assert problem.made == ["moments"]


def test_no_step_moves_a_logit_too_far() -> None:
    """A change of one moves a logit by fifty: a step of three that promises a large gain is cut to two."""
    for start, second in ((0.0, 2.0), (2.9, 3.0)):  # the gain of what is left is small: nobody asks how far it goes
        problem = Bowl((1, 5), square)
        newton(problem, Ridge(np.full((1, 5), 1e-9)), start)
        assert problem.visited[1] == pytest.approx(second, abs=1e-6)
    short = Bowl((1, 5), square, change=1.0)
    newton(short, Ridge(np.full((1, 5), 1e-9)))
    assert short.visited[1] == pytest.approx(3.0)


def test_steps_towards_an_optimum_far_away_become_longer() -> None:
    def falling(theta: np.ndarray) -> tuple[np.ndarray, ...]:
        value = np.exp(-theta)
        return value, -value, value

    problem = Bowl((1, 5), falling)
    found = newton(problem, NoPenalty((1, 5)), start=2.0, tol=1e-8)
    assert problem.visited[:5] == pytest.approx([2.0, 3.0, 7.0, 8.0, 12.0])
    assert found.converged
    assert found.objective <= 1e-7


@pytest.mark.parametrize(("start", "most"), [(3.0, 9), (1e3, 140)])
def test_steps_that_are_far_too_long_are_damped(start: float, most: int) -> None:
    def size(theta: np.ndarray) -> tuple[np.ndarray, ...]:
        root = np.sqrt(1.0 + theta**2)
        return root, theta / root, 1.0 / root**3

    problem = Bowl((1, 5), size, change=0.0)
    found = newton(problem, NoPenalty((1, 5)), start)
    assert found.converged
    np.testing.assert_allclose(found.theta, 0.0, atol=1e-6)
    assert len(problem.visited) <= most


def test_a_step_that_is_too_long_on_some_rows_is_not_tried_on_all() -> None:
    """Two thirds of the way to three move logits by a hundred; where the sample bends more, half of that is left."""
    problem = Bowl((1, 5), square)
    problem.rough = Bowl((1, 5), lambda theta: (5.0 * theta**2, 10.0 * theta, None))
    newton(problem, Ridge(np.full((1, 5), 1e-9)), tol=1e-3)
    assert problem.visited[1] == pytest.approx(1.0)
    assert problem.rough.visited == pytest.approx([0.0, 2.0, 1.0, *problem.rough.visited[3:]])


def test_iterations_are_counted_and_end_at_the_most() -> None:
    for penalty in (Ridge(np.full((1, 5), 1e-3)), NoPenalty((1, 5))):
        problem = Bowl((1, 5), lambda t: (np.cosh(t), np.sinh(t), np.cosh(t)))
        for most in (0, 1, 2):
            found = newton(problem, penalty, 1.5, max_iter=most)
            assert found.n_iter == most
            assert not found.converged
            assert found.objective == pytest.approx(float(np.sum(np.cosh(found.theta))) + penalty.value(found.theta))
            assert np.isnan(found.gap) != np.isnan(found.residual)
            if not penalty.certifies:  # what a step would gain on the quadratic model
                t = found.theta
                assert found.residual == pytest.approx(float(np.sum(np.sinh(t) ** 2 / np.cosh(t))) / 2.0)
        problem.visited.clear()
        problem.made.clear()
        found = newton(problem, penalty, 1.5)
        assert found.converged
        np.testing.assert_allclose(found.theta, 0.0, atol=1e-4)
        assert len(problem.visited) == 5
        assert problem.made == (["some"] * 3 if penalty.certifies else ["all"] * 5)


@pytest.mark.parametrize(("gap", "more", "made"), [(0.15, 0.0, "some"), (0.09, 0.0, "all"), (0.15, 5.0, "all")])
def test_far_from_the_optimum_curvature_comes_from_some_rows(gap: float, more: float, made: str) -> None:
    """Far is a tenth of the objective, or of one: a gradient g in five entries has the gap ``5 g² / 4s``."""
    slope = np.sqrt(gap * 2.0 / 5.0)
    problem = Bowl((1, 5), lambda t: ((t - slope) ** 2 / 2.0 + (0.2 + more) / 5.0, t - slope, np.ones(t.shape)))
    newton(problem, Ridge(np.full((1, 5), 0.5)))
    assert problem.made[0] == made


@pytest.mark.parametrize(("n_rows", "factor"), [(800, 1.0), (10**6, 0.3)])
@pytest.mark.parametrize("height", [0.0, 5.0])
def test_systems_of_some_rows_are_solved_more_exactly(
    n_rows: int, factor: float, height: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products are cheap there: to 0.3 of what the tolerance asks for, relative to an objective above one."""
    goals: list[float] = []

    def solved(point: Any, penalty: Ridge, gradient: np.ndarray, *rest: Any) -> tuple[np.ndarray, int]:
        goals.append(rest[1])
        return -gradient / 2.0, 1

    monkeypatch.setattr(newton_module, "_conjugate_gradients", solved)
    problem = Bowl((1, 60), lambda t: (square(t)[0] + height, *square(t)[1:]), n_rows=n_rows)
    start = Ridge(np.full((1, 60), 1e-9))
    newton(problem, start, 2.99, tol=1e-3)
    assert goals[0] == pytest.approx(factor * 1e-3 * max(1.0, 60.0 * (1e-4 + height)), rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "patience", "made"),
    [((1, 5), 4, "all"), ((10, 10), 15, "blocks"), ((10, 19), 15, "blocks"), ((10, 20), 25, "moments")],
)
def test_a_preconditioner_is_kept_until_it_takes_too_many_products(
    shape: tuple[int, int], patience: int, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in (patience, patience + 1):
        monkeypatch.setattr(newton_module, "_conjugate_gradients", lambda *a, steps=steps: (-a[2] / 20.0, steps))
        problem = Bowl(shape, lambda t: (np.cosh(t), np.sinh(t), np.cosh(t)), n_rows=10**6)
        newton(problem, Ridge(np.full(shape, 1e-9)), 2.9, max_iter=5)
        # Factors are used as they are when they are new, and counted from the next step on.
        expected = 1 if steps == patience else 3 if made == "all" else 5
        assert problem.made == [made] * expected


def test_the_sample_grows_to_all_rows_and_where_a_step_was_far_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    goals: list[float] = []
    conjugate = newton_module._conjugate_gradients
    monkeypatch.setattr(newton_module, "_conjugate_gradients", lambda *a: goals.append(a[4]) or conjugate(*a))
    problem = Bowl((1, 60), square, n_rows=5000, error=20.0, change=0.0)
    newton(problem, Ridge(np.full((1, 60), 1e-12)), -1e4, tol=1e-3)
    assert problem.shares == pytest.approx([0.16, 0.32, 0.64])
    factors = [goal / (60.0 * (at - 3.0) ** 2) for goal, at in zip(goals[:4], problem.visited)]
    assert factors == pytest.approx([0.3e-3, 0.3e-3, 0.3e-3, 1e-3], rel=1e-3)
    long = Bowl((1, 60), square, n_rows=10**6, error=0.1, change=0.0)  # ten times too long: an eighth is taken
    newton(long, Ridge(np.full((1, 60), 1e-9)), max_iter=2)
    assert long.visited[3:5] == pytest.approx([7.5, 3.75], abs=1e-3)
    assert [16 * share for share in long.shares] == [1, 2]


@pytest.mark.parametrize(("tol", "visited"), [(1e-5, [2.01]), (2e-6, [2.01, 2.0])])
def test_the_last_step_in_single_precision_is_judged_in_double(tol: float, visited: list[float]) -> None:
    """A step leaves a fiftieth of the gap: if that is enough, only double precision looks at where it ends."""
    problem, penalty = Bowl((1, 60), square), Ridge(np.full((1, 60), 0.5))
    problem.narrow = Bowl((1, 60), square)  # the gap is 0.027, the objective 180
    found = newton(problem, penalty, 2.01, tol=tol)
    assert problem.narrow.visited == pytest.approx(visited)
    assert problem.visited == pytest.approx([2.0])
    assert (found.n_iter, found.converged) == (1, True)
