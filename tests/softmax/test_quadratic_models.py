"""Minimisers of the quadratic model against the conditions of its optimum, and how much they ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibrant.softmax.penalties import GroupLasso, Lasso
from calibrant.softmax.problem import ClassMoments
from calibrant.softmax.solvers.proximal_newton import _model
from calibrant.softmax.solvers.quadratic_models import DenseGroupModel, GroupModel, SeparableModel, _smooth_step


class Model:
    """A loss with this Hessian (d, d), counting what is asked."""

    def __init__(self, hessian: np.ndarray, shape: tuple[int, int]) -> None:
        self.dense, self.shape, self.products, self.asked = hessian, shape, 0, list[object]()

    def hessian(self) -> np.ndarray:
        self.asked.append("all")
        return self.dense.copy()

    def rough_hessian(self, every: int, dtype: Any) -> np.ndarray:
        self.asked.append((every, dtype))
        return self.dense.copy()

    def hessian_of(self, coefficients: np.ndarray) -> np.ndarray:
        self.asked.append(len(coefficients))
        return self.dense[np.ix_(coefficients, coefficients)]

    def hessian_vector_product(self, direction: np.ndarray) -> np.ndarray:
        self.products += 1
        return (self.dense @ direction.ravel()).reshape(self.shape)

    def class_blocks(self) -> np.ndarray:
        self.asked.append("blocks")
        return np.einsum("jqjs->jqs", self.dense.reshape(*self.shape, *self.shape)).copy()

    def class_moments(self) -> ClassMoments:
        self.asked.append("moments")
        square = np.diag(self.dense).reshape(self.shape)
        return ClassMoments(np.ones(self.shape[0]), np.zeros(self.shape), square)


def random_model(shape: tuple[int, int], seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model with coefficients and a gradient."""
    rng = np.random.default_rng(seed)
    d = shape[0] * shape[1]
    root = rng.normal(size=(3 * d, d)) * rng.uniform(0.5, 2.0, size=d)
    return Model(root.T @ root / (3 * d), shape), rng.normal(size=shape), rng.normal(size=shape)


def slope_at(model: Any, x: np.ndarray, theta: np.ndarray, u: np.ndarray, added: float = 0.0) -> np.ndarray:
    """The gradient of the model's loss at `x`."""
    move = (x - theta).ravel()
    return u + (model.dense @ move + added * move).reshape(u.shape)


@pytest.mark.parametrize("added", [0.0, 0.7])
@pytest.mark.parametrize("shape", [(2, 4), (5, 13)])
def test_a_separable_model_is_minimised_on_coefficients_that_may_not_be_zero(shape: Any, added: float) -> None:
    model, theta, u = random_model(shape)
    theta[np.abs(theta) < 1.0] = 0.0
    penalty = Lasso(np.full(shape, 0.5))
    found = SeparableModel(penalty).minimise(model, added, theta, u, 1e-8)
    assert found is not None
    slope = slope_at(model, found, theta, u, added)
    few = theta.size <= 64
    working = np.full(shape, True) if few else (theta != 0.0) | (np.abs(u) >= 0.9 * 0.5)
    assert model.asked == ["all" if few else int(working.sum())]
    assert np.all(found[~working] == 0.0)
    moved = working & (found != 0.0)
    np.testing.assert_allclose(slope[moved], -0.5 * np.sign(found[moved]), atol=1e-7)
    assert np.all(np.abs(slope[working & (found == 0.0)]) <= 0.5 + 1e-7)
    assert moved.any()
    assert (working & (found == 0.0)).any()


def test_a_model_of_too_many_coefficients_is_left_to_gradients() -> None:
    penalty = Lasso(np.full((40, 51), 0.5))
    model = cast(Any, SimpleNamespace(hessian_of=lambda some: np.eye(len(some))))
    u = np.zeros((40, 51))
    u.flat[:2000] = 1.0
    found = SeparableModel(penalty).minimise(model, 0.0, np.zeros((40, 51)), u, 1e-3)
    np.testing.assert_allclose(cast(Any, found).flat[:2000], -0.5, atol=1e-6)
    u.flat[2000] = 1.0
    assert SeparableModel(penalty).minimise(model, 0.0, np.zeros((40, 51)), u, 1e-3) is None


def test_a_smooth_step_solves_for_all_that_stay_on_their_branch() -> None:
    """Two features that are nearly the same, which sweeps would take thousands of times to part."""
    hessian = np.array([[1.0, 0.999999, 0.2], [0.999999, 1.0, 0.1], [0.2, 0.1, 1.0]])
    x, optimum, slope = np.array([5.0, 3.0, 0.0]), np.array([2.0, 4.0, 0.0]), np.full(3, 0.1)
    gradient = hessian @ (x - optimum) - slope * np.sign(optimum)
    before = gradient.copy(), x.copy()
    _smooth_step(x, hessian, gradient, slope, np.zeros(3), np.full(3, np.inf))
    np.testing.assert_allclose(x, optimum, atol=1e-6)
    np.testing.assert_allclose(gradient, before[0] + hessian @ (x - before[1]), atol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_smooth_step_ends_where_the_first_coefficient_reaches_zero_or_its_reach(sign: float) -> None:
    slope, reach = np.full(3, 0.1), np.array([np.inf, 3.0, 3.0])
    curvature = np.array([0.5, -0.2, -0.2])
    cases = [
        ([1.0, 1.0, 4.0], [-1.0, 1.5, 4.5], [0.0, 1.25, 4.25]),  # the first gets to zero half-way
        ([1.0, 2.0, 4.0], [2.0, 6.0, 4.5], [1.25, 3.0, 4.125]),  # the second to its reach, a quarter of the way
        ([1.0, 2.9, 4.0], [1.2, 3.3, 4.1], [1.05, 3.0, 4.025]),
        ([1.0, 2.0, 4.0], [1.5, 2.5, 2.0], [1.25, 2.25, 3.0]),  # the third back to its reach, half-way
        ([1.0, 2.0, 4.0], [3.0, 1.0, 5.0], [3.0, 1.0, 5.0]),
    ]
    for start, end, expected in cases:
        x = sign * np.array(start)
        inside = np.abs(x) < reach
        bend = 2.0 + np.where(inside, curvature, 0.0)
        at = sign * np.where(inside, slope, 0.0) + np.where(inside, curvature, 0.0) * x
        gradient = -bend * (sign * np.array(end) - x) - at  # so that Newton's step leads to the end
        begun = gradient.copy()
        _smooth_step(x, 2.0 * np.eye(3), gradient, slope, curvature, reach)
        np.testing.assert_allclose(x, sign * np.array(expected), atol=1e-12)
        np.testing.assert_allclose(gradient, begun + 2.0 * (x - sign * np.array(start)), atol=1e-12)
        assert (x[0] == 0.0) == (expected[0] == 0.0)


def test_a_smooth_step_without_curvature_does_nothing() -> None:
    x, gradient = np.array([1.0, 2.0]), np.array([0.3, 0.4])
    _smooth_step(x, 0.1 * np.eye(2), gradient, np.ones(2), np.full(2, -0.5), np.full(2, 5.0))
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(gradient, [0.3, 0.4])


def check_groups(model: Any, penalty: GroupLasso, x: np.ndarray, slope: np.ndarray, atol: float) -> None:
    """The conditions of the optimum: a group not at zero balances its pull, one at zero cannot overcome it."""
    for g, s in enumerate(penalty.group_strength):
        members = np.equal(penalty.groups, g)
        mine, down = x[members], -slope[members]
        if mine.any():
            np.testing.assert_allclose(down, s * mine / np.linalg.norm(mine), atol=atol)
        else:
            assert np.linalg.norm(down) <= s + atol


GROUPS = np.repeat([0, 1, 2, 3], [3, 4, 7, 10]).reshape(4, 6)


@pytest.mark.parametrize("added", [0.0, 0.7])
@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize("strengths", [(0.1, 0.1, 0.1, 0.1), (3.0, 0.01, 1.0, 0.3), (9.0, 9.0, 9.0, 9.0)])
def test_groups_are_minimised_by_products_in_a_few_rounds(strengths: Any, start: float, added: float) -> None:
    model, theta, u = random_model((4, 6))
    theta *= start
    penalty = GroupLasso(np.array(strengths)[GROUPS], GROUPS)
    groups = GroupModel(penalty)
    error, x = 1.0, theta
    for _ in range(4):  # as the outer iteration asks again, more exactly
        slope = slope_at(model, x, theta, u, added)
        x, error = groups.minimise(model, added, x, slope, error), 0.01 * error
    check_groups(model, penalty, x, slope_at(model, x, theta, u, added), 1e-5)
    assert model.products <= 37
    assert model.asked == ["blocks"]


def test_a_dense_hessian_is_kept_as_long_as_steps_reduce_the_error() -> None:
    model, theta, u = random_model((4, 6))
    penalty = GroupLasso(np.full((4, 6), 0.1), GROUPS)
    for n_rows, rough in ((16 * 24, [(4, np.float32)]), (16 * 24 - 1, [])):
        groups, error = DenseGroupModel(penalty, n_rows), 1.0
        model.asked.clear()
        for _ in range(2 + len(rough)):  # the first are made from fewer rows or digits
            groups.minimise(model, 0.0, theta, u, error)
        narrow = [*rough, (1, np.float32), (1, np.float32)]
        assert model.asked == narrow
        for factor, fresh in ((0.5, 0), (0.04, 0), (0.041, 1), (0.5, 1), (0.039, 1), (0.3, 2), (0.51, 3)):
            error *= factor
            groups.minimise(model, 0.0, theta, u, error)
            assert model.asked == narrow + ["all"] * fresh


@pytest.mark.parametrize(("size", "expected"), [(3, [20 * 2**i for i in range(9)]), (2000, [20, 40])])
def test_sweeps_double_until_there_were_enough(size: int, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand, or as many as two hundred million multiplications allow, at a thousandth of the outer error."""
    sweeps: list[tuple[int, float]] = []

    def descend(*arguments: Any) -> bool:
        sweeps.append((arguments[-1], arguments[-2]))
        return False

    monkeypatch.setattr("calibrant.softmax.proximal.descend", descend)
    model = cast(Any, SimpleNamespace(hessian=lambda: np.eye(size), hessian_of=lambda some: np.eye(size)))
    penalty = Lasso(np.full((1, size), 0.5))
    for error, accuracy in ((1.0, 1e-5), (1e-2, 1e-5), (1e-3, 1e-6)):
        sweeps.clear()
        SeparableModel(penalty).minimise(model, 0.0, np.zeros((1, size)), np.ones((1, size)), error)
        assert [count for count, _ in sweeps] == expected
        assert sweeps[0][1] == pytest.approx(accuracy)


def test_features_that_are_nearly_the_same_take_newtons_steps_between_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.softmax import proximal

    sweeps, descend = list[int](), proximal.descend
    monkeypatch.setattr(proximal, "descend", lambda *a: sweeps.append(a[-1]) or descend(*a))
    rng = np.random.default_rng(0)
    root = rng.normal(size=(50, 1)) + 1e-2 * rng.normal(size=(50, 6))
    model, penalty = cast(Any, Model(root.T @ root / 50.0, (1, 6))), Lasso(np.full((1, 6), 1e-7))
    optimum = rng.normal(size=(1, 6))
    u = -(model.dense @ optimum.ravel())[None]
    found = SeparableModel(penalty).minimise(model, 0.0, np.zeros((1, 6)), u, 1e-6)
    assert found is not None
    slope = slope_at(model, found, np.zeros((1, 6)), u)
    np.testing.assert_allclose(slope[found != 0.0], -1e-7 * np.sign(found[found != 0.0]), atol=1e-10)
    assert sweeps in ([20, 40], [20, 40, 80])


@pytest.mark.parametrize(
    ("strengths", "most"),
    [((0.1, 0.1, 0.1, 0.1), (4, 10, 3, 5)), ((3.0, 0.01, 1.0, 0.3), (5, 16, 3, 6)), ((9.0,) * 4, (1, 3, 2, 2))],
)
def test_a_few_factors_find_the_pulls_of_groups(strengths: Any, most: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From zero, from nearly zero, from near the optimum and from far away."""
    from calibrant.softmax.solvers import quadratic_models

    factors, cholesky = list[float](), quadratic_models.cholesky
    counted = lambda matrix, jitter: factors.append(jitter) or cholesky(matrix, jitter=jitter)  # noqa: E731
    monkeypatch.setattr(quadratic_models, "cholesky", counted)
    model, begun, at_zero = random_model((4, 6))
    penalty = GroupLasso(np.array(strengths)[GROUPS], GROUPS)
    for start, count in zip((0.0, 1e-9, 1.0, 1e3), most, strict=True):
        theta = start * begun
        u = at_zero + (model.dense @ theta.ravel()).reshape(begun.shape)
        factors.clear()
        x = DenseGroupModel(penalty, 10).minimise(model, 0.0, theta, u, 1e-3)
        check_groups(model, penalty, x, slope_at(model, x, theta, u), 1e-3)
        assert len(factors) <= count


def test_a_preconditioner_is_kept_for_fifteen_products() -> None:
    model, theta, u = random_model((4, 6))
    penalty = GroupLasso(np.full((4, 6), 0.01), GROUPS)
    groups, x = GroupModel(penalty), theta
    for error in (1.0, 0.1, 0.01):
        x = groups.minimise(model, 0.0, x, slope_at(model, x, theta, u), error)
    before = model.products
    x = groups.minimise(model, 0.0, x, slope_at(model, x, theta, u), 1e-3)  # all groups are settled: one round
    assert groups.products == model.products - before > 1
    for products, fresh in ((15, 0), (16, 1)):
        groups.products = products
        model.asked.clear()
        groups.minimise(model, 0.0, x, slope_at(model, x, theta, u), 1e-3)
        assert model.asked == ["blocks"] * fresh


@pytest.mark.parametrize(("features", "asked"), [(20, "blocks"), (21, "moments")])
def test_many_features_are_preconditioned_by_their_moments(features: int, asked: str) -> None:
    model, theta, u = random_model((2, features))
    penalty = GroupLasso(np.full((2, features), 0.3), np.indices((2, features))[0])
    groups, x = GroupModel(penalty), theta
    for error in (1.0, 1e-2, 1e-4, 1e-6):
        x = groups.minimise(model, 0.5, x, slope_at(model, x, theta, u, 0.5), error)
    check_groups(model, penalty, x, slope_at(model, x, theta, u, 0.5), 1e-5)
    assert set(model.asked) == {asked}
    assert model.products <= (11 if asked == "blocks" else 22)


def test_few_parameters_in_memory_have_a_dense_model() -> None:
    penalty = GroupLasso(np.full((4, 6), 0.1), GROUPS)

    def chosen(n_parameters: int, in_memory: bool) -> type:
        problem: Any = SimpleNamespace(n_parameters=n_parameters, in_memory=in_memory, n_rows=1000)
        return type(_model(penalty, problem))

    assert chosen(128, True) is DenseGroupModel
    assert chosen(129, True) is chosen(20, False) is GroupModel


def test_a_round_ends_after_two_hundred_products() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(24, 24)))[0]
    model: Any = Model(basis @ np.diag(np.geomspace(1e-15, 1.0, 24)) @ basis.T, (4, 6))
    model.class_blocks = lambda: np.tile(np.eye(6), (4, 1, 1))
    penalty = GroupLasso(np.full((4, 6), 1e-16), GROUPS)
    groups, x = GroupModel(penalty), np.ones((4, 6))
    groups.settled[:] = True
    groups.point, groups.added, groups.parts = model, 0.0, model.class_blocks()
    groups._step(x, 1e-6 * rng.normal(size=(4, 6)), penalty.norms(x), 0.0)
    assert groups.products == 200


def test_a_model_of_little_curvature_is_minimised_as_exactly() -> None:
    """What is added to the diagonal is 1e-12 of its largest entry, however small that is."""
    model: Any = Model(1e-10 * np.diag([1.0, 2.0, 4.0]), (1, 3))
    penalty = Lasso(np.full((1, 3), 1e-15))
    found = SeparableModel(penalty).minimise(model, 0.0, np.zeros((1, 3)), np.full((1, 3), -1e-10), 1e-3)
    np.testing.assert_allclose(found, [[0.99999, 0.499995, 0.2499975]], rtol=1e-9)
