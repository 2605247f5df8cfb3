"""Solvers without curvature against their formulas, and when they look at the certificate."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from calibrant.softmax.penalties import Lasso, NoPenalty, Penalty, Ridge
from calibrant.softmax.rows.arrays import ArrayProblem
from calibrant.softmax.solvers.gradient_methods import FISTA, LBFGS, SAGA

from .conftest import make_problem


def loss_and_gradient(problem: ArrayProblem, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Of shared features, without kernels."""
    z = problem.offset + theta @ problem.shared
    residual = softmax(z, axis=0) - np.eye(problem.n_classes)[problem.y].T
    losses = -log_softmax(z, axis=0)[problem.y, np.arange(problem.n_rows)]
    return float(losses @ problem.row_weight), (residual * problem.row_weight) @ problem.shared.T


@pytest.mark.parametrize(
    "penalty", [Ridge(np.full((4, 5), 0.002)), Lasso(np.full((4, 5), 0.01))], ids=["ridge", "lasso"]
)
def test_fista_is_that_of_its_authors_with_backtracking_and_restarts(penalty: Penalty) -> None:
    problem = make_problem("matrix", n=60, weighted=True)

    def smooth(theta: np.ndarray) -> tuple[float, np.ndarray]:
        return loss_and_gradient(problem, theta)

    x = y = np.zeros((4, 5))
    best, t, bound, restarts = smooth(x)[0], 1.0, 1.0, 0
    for m in range(1, 111):
        value, slope = smooth(y)
        while True:
            new = penalty.prox(y - slope / bound, 1.0 / bound) if isinstance(penalty, Lasso) else None
            new = (y * bound - slope) / (bound + 0.004) if new is None else new
            move = new - y
            if smooth(new)[0] <= value + float(np.sum(slope * move)) + bound / 2.0 * float(np.sum(move**2)) + 1e-15:
                break
            bound *= 2.0
        if (objective := smooth(new)[0] + penalty.value(new)) > best:
            y, t, restarts = x, 1.0, restarts + 1
            continue
        longer = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
        x, y, t, best, bound = new, new + (t - 1.0) / longer * (new - x), longer, objective, 0.95 * bound
        if m in (5, 110):
            found = FISTA().minimise(problem, penalty, tol=0.0, max_iter=m)
            assert found.n_iter == m
            np.testing.assert_allclose(found.theta, x, atol=1e-9)
    assert restarts > 0


def test_fista_looks_at_the_certificate_after_ten_steps_and_at_the_end() -> None:
    problem, penalty = make_problem("matrix", n=60), Lasso(np.full((4, 5), 0.01))
    gaps = {m: FISTA().minimise(problem, penalty, tol=0.0, max_iter=m).gap for m in (0, 7, 10, 20)}
    assert FISTA().minimise(problem, penalty, tol=1.01 * gaps[7], max_iter=20).n_iter == 10
    assert FISTA().minimise(problem, penalty, tol=1.01 * gaps[7], max_iter=7).converged
    assert FISTA().minimise(problem, penalty, tol=1.01 * gaps[20], max_iter=30).n_iter == 20
    start = FISTA().minimise(problem, penalty, tol=1e-9, max_iter=0)
    assert (start.n_iter, start.converged) == (0, False)
    assert not start.theta.any()


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_lbfgs_stops_at_the_first_step_that_is_good_enough(tol: float) -> None:
    problem, ridge = make_problem("matrix", n=60, weighted=True), Ridge(np.full((4, 5), 0.002))
    found = LBFGS().minimise(problem, ridge, tol=tol, max_iter=500)
    before = LBFGS().minimise(problem, ridge, tol=tol, max_iter=found.n_iter - 1)
    assert before.n_iter == found.n_iter - 1
    assert found.gap <= tol * max(1.0, found.objective) < before.gap
    free = NoPenalty((4, 5))  # there is no gap: the gradient decides
    found = LBFGS().minimise(problem, free, tol=tol, max_iter=500)
    before = LBFGS().minimise(problem, free, tol=tol, max_iter=found.n_iter - 1)
    largest = [float(np.abs(loss_and_gradient(problem, end.theta)[1]).max()) for end in (found, before)]
    assert largest[0] <= min(1e-3 * np.sqrt(tol), 1e-5) < largest[1]
    assert found.converged


def test_saga_begins_with_the_residuals_of_the_start_and_a_step_that_suits_the_largest_row(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(kind, n=40, weighted=True)
    seen: list[Any] = []
    monkeypatch.setattr("calibrant.softmax.proximal.epoch", lambda *arguments: seen.append(arguments))
    looks = list[int]()
    at = ArrayProblem.at
    monkeypatch.setattr(ArrayProblem, "at", lambda *a, **o: looks.append(len(seen)) or at(*a, **o))
    start = 0.1 * np.random.default_rng(0).normal(size=problem.shape)
    penalty = Ridge(np.full(problem.shape, 0.01))
    SAGA().minimise(problem, penalty, tol=0.0, max_iter=7, theta=start)
    assert looks == [0, 0, 5, 7]
    rows, theta, table, mean, offset, shared, own, y, weight, first, step, description = seen[0]
    np.testing.assert_array_equal(theta, start)
    residual = softmax(problem.logits(start), axis=0) - np.eye(problem.n_classes)[problem.y].T
    f = problem.first_free
    np.testing.assert_allclose(table, residual[f:].T, atol=1e-14)
    features = np.stack([problem.class_features(f + j) for j in range(problem.shape[0])])
    np.testing.assert_allclose(mean, np.einsum("jn,jqn,n->jq", residual[f:], features, problem.row_weight), atol=1e-13)
    every = np.concatenate(
        [np.broadcast_to(problem.shared[:, None], (problem.n_shared, *problem.offset.shape)), problem.own]
    )
    squares = (every**2).sum(axis=0).max(axis=0)
    assert 1.0 / step == pytest.approx(3.0 * (squares * problem.row_weight).max() * 40 / 2.0)
    assert len(rows) == 40
    assert (rows >= 0).all()
    assert (rows < 40).all()
    np.testing.assert_array_equal(offset, problem.offset.T)
    np.testing.assert_array_equal(shared, problem.shared.T)
    np.testing.assert_array_equal(own[:, -1], problem.own[:, -1].T)
    assert (y is problem.y, weight is problem.row_weight, first) == (True, True, f)
    assert all(np.array_equal(one, other) for one, other in zip(description, penalty.description))
    assert any((one[0] != other[0]).any() for one, other in itertools.pairwise(seen))
