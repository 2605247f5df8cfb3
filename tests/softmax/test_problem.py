from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp, softmax

from calibrant.softmax.problem import Point
from calibrant.softmax.rows.arrays import ArrayProblem

from .conftest import make_problem


def plain_loss(problem: ArrayProblem, theta: np.ndarray) -> float:
    """The mean log loss written as in the formula, with loops over nothing but NumPy."""
    z = problem.offset.astype(float).copy()
    f = problem.first_free
    d = problem.n_shared
    for j in range(problem.shape[0]):
        z[f + j] += theta[j, :d] @ problem.shared
        z[f + j] += theta[j, d:] @ problem.own[:, f + j]
    losses = logsumexp(z, axis=0) - z[problem.y, np.arange(problem.n_rows)]
    return float(losses @ problem.row_weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_value_gradient_and_curvature_agree_with_finite_differences(kind: str, weighted: bool) -> None:
    problem = make_problem(kind, weighted=weighted)
    rng = np.random.default_rng(1)
    theta = 0.3 * rng.normal(size=problem.shape)
    point = problem.at(theta)
    loss = point.loss
    assert loss == pytest.approx(plain_loss(problem, theta), rel=1e-13)
    numeric = approx_fprime(theta.ravel(), lambda t: plain_loss(problem, t.reshape(problem.shape)), 1e-7)
    gradient = point.gradient()
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-6)

    direction = rng.normal(size=problem.shape)

    def gradient_at(t: np.ndarray) -> np.ndarray:
        return problem.at(t).gradient()

    h = 1e-6
    numeric_product = (gradient_at(theta + h * direction) - gradient_at(theta - h * direction)) / (2 * h)
    product = point.hessian_vector_product(direction)
    np.testing.assert_allclose(product, numeric_product, atol=1e-7)
    np.testing.assert_allclose(point.hessian() @ direction.ravel(), product.ravel(), atol=1e-12)
    fused = problem.derivatives(theta)
    assert fused[0] == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(fused[1], gradient, atol=1e-13)
    np.testing.assert_allclose(fused[2], point.hessian(), atol=1e-13)


def test_derivatives_in_the_scale_are_those_of_the_mean_loss(kind: str) -> None:
    """The slope is the mean of E[x] − x_y, the curvature that of Var[x], under the model's probabilities."""
    problem = make_problem(kind)
    x, w, rows = problem.offset, problem.row_weight, np.arange(problem.n_rows)
    for alpha in (0.3, 1.0, 2.5):
        p = softmax(alpha * x, axis=0)
        mean = (p * x).sum(axis=0)
        loss, slope, curvature = problem.scaled(alpha)
        assert loss == pytest.approx(-float(w @ np.log(p[problem.y, rows])), rel=1e-13)
        assert slope == pytest.approx(float(w @ (mean - x[problem.y, rows])), abs=1e-12)
        assert curvature == pytest.approx(float(w @ ((p * x * x).sum(axis=0) - mean**2)), rel=1e-10)


def test_adjoint_is_the_transpose_of_linear(kind: str) -> None:
    problem = make_problem(kind)
    rng = np.random.default_rng(3)
    theta, residual = rng.normal(size=problem.shape), rng.normal(size=(problem.n_classes, problem.n_rows))
    left, right = np.sum(problem.linear(theta) * residual), np.sum(theta * problem.adjoint(residual))
    assert left == pytest.approx(right, rel=1e-12)


def test_features_of_a_class_of_its_own_need_no_shared_one() -> None:
    full = make_problem("vector")
    problem = ArrayProblem(full.y, full.offset, own=np.stack([full.offset, full.offset**2]))
    theta = np.random.default_rng(3).normal(size=(4, 2))
    change = theta[:, :1] * full.offset + theta[:, 1:] * full.offset**2
    np.testing.assert_allclose(problem.linear(theta), change, atol=1e-12)
    np.testing.assert_allclose(problem.logits(theta), full.offset + change, atol=1e-12)


def test_weight_two_equals_a_repeated_row(kind: str) -> None:
    problem = make_problem(kind, weighted=True)
    counts = np.rint(problem.row_weight * problem.total_weight).astype(int)
    rows = np.repeat(np.arange(problem.n_rows), counts)
    repeated = ArrayProblem(
        problem.y[rows],
        problem.offset[:, rows],
        shared=problem.shared[:, rows],
        own=problem.own[:, :, rows],
        first_free=problem.first_free,
    )
    theta = np.random.default_rng(4).normal(size=problem.shape)
    for one, other in zip(problem.derivatives(theta), repeated.derivatives(theta)):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_extreme_logits_give_finite_losses_and_exact_probabilities() -> None:
    z = np.array([[0.0, -1000.0, 700.0], [-800.0, 0.0, 700.0], [-0.5, 1e4, -1e4]])
    problem = ArrayProblem(np.array([0, 1, 2]), z)
    point = problem.at(np.zeros(problem.shape))
    np.testing.assert_allclose(point.p, softmax(z, axis=0), rtol=1e-12, atol=1e-300)
    assert point.loss == pytest.approx(np.mean(logsumexp(z, axis=0) - z[[0, 1, 2], [0, 1, 2]]), rel=1e-12)


def test_single_precision_agrees_to_its_rounding(kind: str) -> None:
    problem = make_problem(kind)
    narrow = problem.astype(np.float32)
    theta = 0.1 * np.random.default_rng(5).normal(size=problem.shape)
    wide_point, narrow_point = problem.at(theta), narrow.at(theta)
    assert narrow_point.p.dtype == np.float32
    assert narrow_point.loss == pytest.approx(wide_point.loss, rel=1e-5)
    np.testing.assert_allclose(narrow_point.gradient(), wide_point.gradient(), atol=1e-5)
    np.testing.assert_allclose(narrow_point.hessian(), wide_point.hessian(), atol=1e-5)
    if kind != "vector":
        product = narrow_point.hessian_vector_product(theta)
        np.testing.assert_allclose(product, wide_point.hessian_vector_product(theta), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_the_preconditioners_are_parts_of_the_hessian(kind: str, weighted: bool) -> None:
    problem = make_problem(kind, weighted=weighted)
    r, q = problem.shape
    point = problem.at(0.3 * np.random.default_rng(6).normal(size=(r, q)))
    hessian = point.hessian().reshape(r, q, r, q)
    blocks = np.stack([hessian[j, :, j] for j in range(r)])
    np.testing.assert_allclose(point.class_blocks(), blocks, atol=1e-13)
    some = np.array([0, r * q // 2, r * q - 1])
    np.testing.assert_allclose(point.hessian_of(some), point.hessian()[np.ix_(some, some)], atol=1e-13)
    np.testing.assert_allclose(Point.hessian_of(point, some), point.hessian_of(some), atol=1e-13)
    moments = point.class_moments()
    np.testing.assert_allclose(moments.square, np.einsum("jqq->jq", blocks), atol=1e-13)
    spread = (point.p * (1.0 - point.p) * problem.row_weight)[problem.first_free :]
    np.testing.assert_allclose(moments.scale, spread.sum(axis=1), atol=1e-14)
    first = [problem.class_features(problem.first_free + j) @ spread[j] for j in range(r)]
    np.testing.assert_allclose(moments.first, first, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_curvature_on_some_rows_is_unbiased(kind: str, weighted: bool) -> None:
    """Halves of the rows, many of them: their mean curvature is that of all rows, within sampling error."""
    problem = make_problem(kind, weighted=weighted)
    point = problem.at(np.zeros(problem.shape))
    rng = np.random.default_rng(7)
    halves = np.stack([point.thinned(0.5, rng).hessian() for _ in range(200)])
    np.testing.assert_array_less(np.abs(halves.mean(axis=0) - point.hessian()), 6.0 * halves.std(axis=0) / 14 + 1e-9)
    np.testing.assert_allclose(point.thinned(1.0, rng).hessian(), point.hessian(), atol=1e-13)


def test_a_point_may_take_the_memory_of_another(kind: str) -> None:
    problem = make_problem(kind)
    theta = np.full(problem.shape, 0.1)
    old = problem.at(np.zeros(problem.shape))
    new = problem.at(theta, reuse=old)
    assert new.p is old.p
    assert new.loss == problem.at(theta).loss
