"""The group lasso's model on a dense Hessian: the conditions of its optimum, and the solver that asks for products."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from calibrant.softmax.penalties import GroupLasso
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers import proximal_newton, solve
from calibrant.softmax.solvers.quadratic_models import DenseGroupModel

GROUPS = np.repeat([0, 1, 2], [3, 4, 8]).reshape(3, 5)


@pytest.mark.parametrize("start", [0.0, 1.0, 1e-9])
@pytest.mark.parametrize("strengths", [(0.1, 0.1, 0.1), (0.0, 1.0, 0.5), (3.0, 0.01, 1.0), (9.0, 9.0, 9.0)])
def test_minimiser_meets_the_conditions_of_the_optimum(strengths: tuple[float, ...], start: float):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(40, 15)) * rng.uniform(0.1, 2.0, size=15)
    hessian = root.T @ root / 40.0
    point = SimpleNamespace(hessian=lambda: hessian, rough_hessian=lambda every, dtype: hessian)
    theta, u = start * rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    model = DenseGroupModel(GroupLasso(np.array(strengths)[GROUPS], GROUPS), n_rows=40)
    x = model.minimise(cast(Any, point), 0.0, theta, u, 1e-9)
    slope = u + (hessian @ (x - theta).ravel()).reshape(u.shape)
    for g, s in enumerate(strengths):
        members = np.equal(GROUPS, g)
        mine, down = x[members], -slope[members]
        if s == 0.0:
            np.testing.assert_allclose(down, 0.0, atol=1e-9)
        elif mine.any():
            np.testing.assert_allclose(down, s * mine / np.linalg.norm(mine), atol=1e-8)
        else:
            assert np.linalg.norm(down) <= s + 1e-9


def test_kept_hessian_and_products_lead_to_the_same_optimum(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    z = 2.0 * rng.normal(size=(1500, 4))
    y = (z / 3.0 + rng.gumbel(size=z.shape)).argmax(axis=1)
    x = (z - np.log(np.exp(z).sum(axis=1, keepdims=True))).T
    problem = ArrayProblem(y, x, shared=np.vstack([x, np.ones(len(y))]))
    groups = np.full((4, 5), 2)
    groups[:, 4] = 0
    np.fill_diagonal(groups, 1)
    penalty = GroupLasso(np.array([0.001, 0.002, 0.01])[groups], groups)
    dense = solve(problem, penalty, tol=1e-9)
    monkeypatch.setattr(proximal_newton, "_DENSE_GROUPS", 0)
    products = solve(problem, penalty, tol=1e-9)
    assert dense.converged
    assert products.converged
    assert abs(dense.objective - products.objective) < 4e-9
    np.testing.assert_allclose(dense.theta, products.theta, atol=1e-3)
