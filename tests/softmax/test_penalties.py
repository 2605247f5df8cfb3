from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Penalty, Ridge

STRENGTH = np.array([[0.3, 0.3, 0.7], [0.3, 0.3, 0.7]])
GROUPS = np.array([[0, 0, 1], [0, 0, 1]])
PENALTIES: list[Penalty] = [
    NoPenalty((2, 3)),
    Ridge(STRENGTH),
    Lasso(STRENGTH),
    GroupLasso(STRENGTH, GROUPS),
    MCP(STRENGTH, 3.0),
    MCP(STRENGTH, 1.2),
]


def values_of_entries(penalty: Penalty, t: np.ndarray) -> np.ndarray:
    """What each entry of `t` (..., 2, 3) adds to a penalty that is a sum over entries, as its definition says."""
    size = np.abs(t)
    if isinstance(penalty, Ridge):
        return penalty.strength * t**2
    if isinstance(penalty, Lasso):
        return penalty.strength * size
    gamma = penalty.reach / penalty.strength
    inside = np.minimum(size, gamma * penalty.strength)
    return penalty.strength * inside - inside**2 / (2.0 * gamma)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: f"{type(p).__name__}-{p.reach.min():g}")
@pytest.mark.parametrize("step", [0.1, 1.0, 2.0])
def test_prox_minimises_its_objective(penalty: Penalty, step: float) -> None:
    """Against every number of a fine grid; a group keeps its direction, so that its length alone is searched."""
    point = 1.5 * np.random.default_rng(0).normal(size=(2, 3))
    found = penalty.prox(point, step)
    if isinstance(penalty, GroupLasso):
        shares = np.linspace(0.0, 1.2, 2401)
        for g, s in enumerate((0.3, 0.7)):
            mine = point[np.equal(GROUPS, g)]
            length = float(np.linalg.norm(mine))
            objectives = (1.0 - shares) ** 2 * length**2 / 2.0 + step * s * shares * length
            np.testing.assert_allclose(found[np.equal(GROUPS, g)], shares[objectives.argmin()] * mine, atol=2e-3)
        assert penalty.value(point) == pytest.approx(
            sum(s * np.linalg.norm(point[np.equal(GROUPS, g)]) for g, s in enumerate((0.3, 0.7)))
        )
        return
    assert penalty.value(point) == pytest.approx(values_of_entries(penalty, point).sum())
    grid = np.linspace(-4.0, 4.0, 8001)[:, None, None]

    def objective(t: np.ndarray) -> np.ndarray:
        return (t - point) ** 2 / 2.0 + step * values_of_entries(penalty, t)

    assert np.all(objective(found) <= objective(grid).min(axis=0) + 1e-9)


def test_mcp_is_the_lasso_near_zero_and_constant_far_out() -> None:
    penalty, lasso = MCP(np.array([2.0]), gamma=3.0), Lasso(np.array([2.0]))
    assert penalty.value(np.array([1e-6])) == pytest.approx(lasso.value(np.array([1e-6])), rel=1e-6)
    assert penalty.value(np.array([6.0])) == penalty.value(np.array([1e6])) == pytest.approx(3.0 * 4.0 / 2)


@pytest.mark.parametrize("penalty", [Lasso(STRENGTH), GroupLasso(STRENGTH, GROUPS)], ids=["lasso", "group"])
def test_dual_scale_is_the_largest_feasible_one(penalty: Lasso | GroupLasso) -> None:
    """The conjugate at u is zero where sup_t u·t − penalty(t) = 0, and infinite just beyond."""
    rng = np.random.default_rng(1)
    u = 5.0 * rng.normal(size=(2, 3))
    scale = penalty.dual_scale(u)
    directions = rng.normal(size=(500, 2, 3))
    if isinstance(penalty, GroupLasso):  # the worst directions are u restricted to one group
        directions = np.concatenate([directions, np.where(np.arange(2)[:, None, None] == GROUPS, u, 0.0)])
    else:
        directions = np.concatenate([directions, np.sign(u) * np.eye(6).reshape(6, 2, 3)])
    support = max(float(np.sum(u * t)) / penalty.value(t) for t in directions)
    assert scale == pytest.approx(1.0 / support, rel=1e-9)
    assert penalty.dual_scale(0.5 * scale * u) == 1.0


def test_ridge_conjugate_is_the_supremum() -> None:
    penalty = Ridge(STRENGTH)
    u = np.random.default_rng(2).normal(size=(2, 3))
    result = minimize(lambda t: penalty.value(t.reshape(2, 3)) - float(u.ravel() @ t), np.zeros(6), tol=1e-12)
    assert penalty.conjugate(u) == pytest.approx(-result.fun, rel=1e-8)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_entries_of_a_concave_penalty_go_to_zero_or_stay(sign: float) -> None:
    """The penalty beyond its reach is ``γ s² / 2``; going to zero costs ``t² / 2``. With a short step it shrinks."""
    penalty = MCP(np.full(1, 0.5), 1.2)
    edge = sign * np.sqrt(2.0 * 2.0 * 1.2 * 0.5**2 / 2.0)
    assert penalty.prox(np.array([0.999 * edge]), 2.0) == 0.0
    assert penalty.prox(np.array([1.001 * edge]), 2.0) == 1.001 * edge
    assert penalty.prox(np.array([0.999 * edge]), 1.2) == 0.999 * edge  # as concave as the square is convex
    assert penalty.prox(np.array([sign * 0.5]), 0.3) == pytest.approx(sign * (0.5 - 0.15) / (1.0 - 0.25))
    assert penalty.prox(np.array([sign * 0.61]), 0.3) == sign * 0.61
    assert penalty.prox(np.array([sign * 0.14]), 0.3) == 0.0
