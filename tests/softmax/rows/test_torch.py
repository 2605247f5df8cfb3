"""The torch home answers every question of a solver as the array home does."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.softmax.penalties import Lasso, NoPenalty, Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers import solve
from tests.needs import needs
from tests.softmax.conftest import make_problem

torch = needs("torch")
pytestmark = pytest.mark.torch

from calibrant.softmax.rows.torch import TorchProblem  # noqa: E402


def on_device(problem: ArrayProblem, weighted: bool, dtype: torch.dtype = torch.float64) -> TorchProblem:
    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values).to(dtype)

    return TorchProblem(
        torch.as_tensor(problem.y),
        tensor(problem.offset.T.copy()),
        shared=tensor(problem.shared.T.copy()),
        own=tensor(problem.own.transpose(0, 2, 1).copy()),
        weight=torch.as_tensor(problem.row_weight * problem.total_weight) if weighted else None,
        first_free=problem.first_free,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_every_sum_is_that_of_the_array_home(kind: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.softmax.rows.torch._BLOCK_ELEMENTS", 100)
    monkeypatch.setattr("calibrant.softmax.rows.torch._BLOCK_ROWS", 7)
    arrays = make_problem(kind, weighted=weighted)
    tensors = on_device(arrays, weighted)
    rng = np.random.default_rng(0)
    theta, direction = 0.3 * rng.normal(size=(2, *arrays.shape))
    expected, found = arrays.at(theta), tensors.at(theta, reuse=tensors.at(direction))
    assert tensors.shape == arrays.shape
    assert found.loss == pytest.approx(expected.loss, rel=1e-13)
    for name in ("gradient", "hessian", "class_blocks"):
        np.testing.assert_allclose(getattr(found, name)(), getattr(expected, name)(), atol=1e-13, err_msg=name)
    np.testing.assert_allclose(
        found.hessian_vector_product(direction), expected.hessian_vector_product(direction), atol=1e-13
    )
    for part, other in zip(found.class_moments(), expected.class_moments()):
        np.testing.assert_allclose(part, other, atol=1e-13)
    before = found.p.clone()
    assert found.dual_value(0.7) == pytest.approx(expected.dual_value(0.7), rel=1e-12)
    assert torch.equal(found.p, before)
    np.testing.assert_allclose(tensors.second_moments, arrays.second_moments, rtol=1e-12)
    assert tensors.largest_change(theta) == pytest.approx(arrays.largest_change(theta))
    assert tensors.scaled(0.6) == pytest.approx(arrays.scaled(0.6), rel=1e-12)


def test_a_thinned_point_estimates_the_curvature(kind: str) -> None:
    arrays = make_problem(kind, weighted=True)
    tensors = on_device(arrays, weighted=True)
    point = tensors.at(np.zeros(tensors.shape))
    np.testing.assert_allclose(point.thinned(1.0, np.random.default_rng(0)).hessian(), point.hessian(), atol=1e-13)


@pytest.mark.parametrize("penalty", [Ridge, Lasso])
def test_solvers_end_where_they_do_on_arrays(kind: str, penalty: type) -> None:
    arrays = make_problem(kind)
    tensors = on_device(arrays, weighted=False)
    strength = np.full(arrays.shape, 0.01)
    expected, found = (solve(problem, penalty(strength), tol=1e-12) for problem in (arrays, tensors))
    assert found.gap <= 1e-12
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)
    # What all classes add to a shared feature changes nothing, nor the lasso where half of them are negative.
    for theta in (found.theta, expected.theta):
        theta[:, : arrays.n_shared] -= theta[:, : arrays.n_shared].mean(axis=0)
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_narrow_tensors_are_summed_in_double_precision(dtype: str) -> None:
    rng = np.random.default_rng(0)
    n, k = 3000, 4
    x = torch.log_softmax(torch.as_tensor(rng.normal(size=(n, k))), 1).to(getattr(torch, dtype)).to(torch.float32)
    y = torch.as_tensor(rng.integers(k, size=n))
    exact = TorchProblem(y, x.to(torch.float64), own=x.to(torch.float64)[None])
    narrow = TorchProblem(y, x, own=x[None])
    theta = 0.2 * rng.normal(size=(k, 1))
    assert narrow.at(theta).loss == pytest.approx(exact.at(theta).loss, rel=1e-7)
    np.testing.assert_allclose(narrow.at(theta).gradient(), exact.at(theta).gradient(), atol=1e-7)
    solution = solve(narrow, NoPenalty((k, 1)))
    np.testing.assert_allclose(solution.theta, solve(exact, NoPenalty((k, 1))).theta, atol=1e-3)
