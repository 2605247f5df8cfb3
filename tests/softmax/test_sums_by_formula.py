"""Sums over rows, exponentials and logarithms of compiled code, and rows that stand for others, against formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr, expit, log_softmax, softmax

from calibrant.softmax.kernels import softmax_loss, take_logs
from calibrant.softmax.penalties import MCP, GroupLasso, Lasso, NoPenalty, Ridge
from calibrant.softmax.problem import ClassMoments
from calibrant.softmax.proximal import descend, epoch
from calibrant.softmax.rows.arrays import ArrayProblem, _at_most_one
from calibrant.softmax.rows.levels import LevelProblem
from calibrant.softmax.rows.summed_rows import block_rows
from calibrant.softmax.solvers import SOLVERS, solve
from calibrant.softmax.solvers.preconditioners import ClassBlocks, ClassMeans
from calibrant.softmax.solvers.searches import Factored, damped_newton, less_damping, more_damping
from calibrant.softmax.solvers.solver import Solution, State, judge, prox_residual

from .conftest import make_problem


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 4e-16), (np.float32, 3e-7)])
def test_probabilities_are_exact_to_a_few_last_digits(dtype, rtol):
    """Two classes far apart: the probability of the lesser is about the exponential of their distance."""
    z = np.zeros((2, 3001), dtype=dtype)
    z[1] = np.linspace(-80.0, -20.0, 3001)
    distance = z[1].astype(np.float64)
    loss = softmax_loss(z, np.zeros(3001, dtype=np.int64), np.full(3001, 1.0, dtype=dtype))
    np.testing.assert_allclose(z[1], expit(distance), rtol=3 * rtol)
    assert loss == pytest.approx(np.exp(distance).sum(), rel=1e-6, abs=3001 * rtol)


@pytest.mark.parametrize(("dtype", "least"), [(np.float64, -708.0), (np.float32, -87.0)])
def test_probabilities_end_where_numbers_do(dtype, least):
    z = np.zeros((2, 4), dtype=dtype)
    z[1] = least + 0.5, least - 0.5, 2.0 * least, -1e30
    softmax_loss(z, np.zeros(4, dtype=np.int64), np.ones(4, dtype=dtype))
    np.testing.assert_allclose(z[1], np.exp(least + np.array([0.5, 0.0, 0.0, 0.0])), rtol=1e-6)


def test_logarithms_are_exact_to_a_few_last_digits():
    x = np.concatenate([np.geomspace(1e-290, 1e290, 2000), np.linspace(0.5, 2.0, 1001), [0.0, 1e-300]])
    found = x.copy()
    take_logs(found, -600.0)
    np.testing.assert_allclose(found[:-2], np.maximum(np.log(x[:-2]), -600.0), rtol=4e-16, atol=2e-16)
    assert np.all(found[-2:] == -600.0)
    least = np.array([0.0, 1e-310])
    take_logs(least, -1000.0)
    np.testing.assert_allclose(least, np.log(1e-300))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.7, 0.0])
def test_the_dual_value_is_an_entropy_and_a_product(kind, weighted, scale):
    problem = make_problem(kind, weighted=weighted)
    point = problem.at(0.3 * np.random.default_rng(1).normal(size=problem.shape))
    onehot = np.eye(problem.n_classes)[problem.y].T
    residual = scale * (point.p - onehot)
    values = (entr(np.maximum(onehot + residual, 0.0)) + residual * problem.offset).sum(axis=0)
    assert point.dual_value(scale) == pytest.approx(float(values @ problem.row_weight), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_some_rows_are_a_problem_of_their_own(kind, weighted):
    problem, rows = make_problem(kind, weighted=weighted), np.arange(1, 300, 3)
    weight = problem.row_weight[rows] if weighted else None
    alone = ArrayProblem(
        problem.y[rows],
        problem.offset[:, rows],
        shared=problem.shared[:, rows],
        own=problem.own[:, :, rows],
        weight=weight,
        first_free=problem.first_free,
    )
    problem.second_moments, problem.target, problem.scratch, problem._ends  # noqa: B018  what a copy must not keep
    some = problem.some(rows, np.full(len(rows), 1.0 / problem.row_weight[rows].sum()))
    theta = 0.3 * np.random.default_rng(1).normal(size=problem.shape)
    for one, other in ((some.at(theta), alone.at(theta)),):
        assert one.loss == pytest.approx(other.loss, rel=1e-13)
        np.testing.assert_allclose(one.gradient(), other.gradient(), atol=1e-14)
        np.testing.assert_allclose(one.hessian(), other.hessian(), atol=1e-14)
    np.testing.assert_allclose(some.second_moments, alone.second_moments, rtol=1e-13)
    np.testing.assert_allclose(some.scaled(0.7), alone.scaled(0.7), rtol=1e-12, atol=1e-13)
    assert some.always_right() == alone.always_right()
    twice = problem.some(rows, np.full(len(rows), 3.0)).at(theta)
    expected = 3.0 * problem.row_weight[rows] @ -log_softmax(problem.logits(theta)[:, rows], axis=0)[
        problem.y[rows], np.arange(len(rows))
    ]  # fmt: skip
    assert twice.loss == pytest.approx(expected, rel=1e-12)


def test_second_moments_and_labels_are_weighted_means(kind):
    problem = make_problem(kind, weighted=True)
    f = problem.first_free
    squares = [problem.class_features(f + j) ** 2 @ problem.row_weight for j in range(problem.shape[0])]
    np.testing.assert_allclose(problem.second_moments, squares, rtol=1e-12)
    target = [
        problem.class_features(f + j) @ (problem.row_weight * (problem.y == f + j)) for j in range(problem.shape[0])
    ]
    np.testing.assert_allclose(problem.target, target, atol=1e-14)
    theta = np.random.default_rng(0).normal(size=problem.shape)
    change = [theta[j] @ problem.class_features(f + j) for j in range(problem.shape[0])]
    assert problem.largest_change(theta) == pytest.approx(np.abs(change).max(), rel=1e-12)
    assert problem.largest_change(np.full(problem.shape, 1.01e30)) == np.inf
    assert problem.largest_change(np.full(problem.shape, 0.99e30)) < np.inf
    assert problem.precision == np.finfo(np.float64).eps
    assert problem.single_precision().precision == np.finfo(np.float32).eps
    assert problem.single_precision().single_precision() is None


def test_labels_with_the_largest_offset_are_always_right():
    offset = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0]])
    assert ArrayProblem(np.array([1, 0, 0]), offset).always_right()
    assert ArrayProblem(np.array([1, 1, 0]), offset).always_right()
    assert not ArrayProblem(np.array([1, 1, 1]), offset).always_right()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_rough_hessian_is_that_of_every_fourth_row(kind, weighted):
    problem = make_problem(kind, n=2001, weighted=weighted)
    theta = 0.1 * np.random.default_rng(1).normal(size=problem.shape)
    point, share = problem.at(theta), problem.row_weight[::4]
    for every in (4, None):
        found = point.rough_hessian(every)
        one = problem.some(np.arange(0, 2001, 4), np.full(501, 1.0 / share.sum())).at(theta).hessian()
        if every is None and 40 * problem.n_parameters > 2001:
            np.testing.assert_allclose(found, point.hessian(), atol=1e-15)
        else:
            np.testing.assert_allclose(found, one * share.sum() * 2001 / len(share), atol=1e-14)
    np.testing.assert_allclose(point.rough_hessian(1, np.float32), point.hessian(), atol=1e-5)
    small = make_problem(kind, n=40 * problem.n_parameters - 1).at(theta)
    np.testing.assert_array_equal(small.rough_hessian(), small.hessian())
    enough = make_problem(kind, n=40 * problem.n_parameters).at(theta)
    np.testing.assert_array_equal(enough.rough_hessian(), enough.rough_hessian(4))
    assert np.any(enough.rough_hessian() != enough.hessian())


def test_chances_add_up_and_none_exceeds_one():
    rng = np.random.default_rng(0)
    chance = rng.exponential(size=200) ** 3
    found = _at_most_one(chance, 60.0)
    assert found.sum() == pytest.approx(60.0)
    assert found.max() == 1.0
    below = found < 1.0
    ratio = found[below] / chance[below]
    np.testing.assert_allclose(ratio, ratio[0])
    assert np.all(chance[~below] * ratio[0] >= 1.0 - 1e-12)
    np.testing.assert_array_equal(_at_most_one(chance, 200.0), np.ones(200))
    np.testing.assert_array_equal(_at_most_one(chance, 500.0), np.ones(200))


def test_uncertain_rows_are_drawn_more_often():
    z = np.zeros((2, 400))
    z[0, 200:] = 6.0  # sure
    problem = ArrayProblem(np.zeros(400, dtype=np.int64), z, shared=np.ones((1, 400)))
    point = problem.at(np.zeros((2, 1)))
    drawn = point.thinned(0.25, np.random.default_rng(0)).problem
    spread = np.sqrt(1.0 - (softmax(z[:, [0, 200]], axis=0) ** 2).sum(axis=0))
    unsure = np.sum(drawn.offset[0] == 0.0)
    assert drawn.n_rows == pytest.approx(100, abs=1)
    assert unsure == pytest.approx(100 * spread[0] / spread.sum(), abs=2)


def test_equal_rows_are_drawn_equally_often():
    problem = ArrayProblem(np.arange(20), np.zeros((20, 20)))
    point, rng = problem.at(np.zeros(problem.shape)), np.random.default_rng(0)
    drawn = np.concatenate([point.thinned(0.1, rng).problem.y for _ in range(100)])
    assert len(drawn) == 200
    assert np.bincount(drawn, minlength=20).max() < 25


def test_rows_that_are_certain_to_rounding_stand_for_few_others():
    """Their curvature counts as a millionth at least, so that their chance is a thousandth, not zero."""
    z = np.zeros((2, 2000))
    z[0, 2:] = 60.0
    point = ArrayProblem(np.zeros(2000, dtype=np.int64), z, shared=np.ones((1, 2000))).at(np.zeros((2, 1)))
    drawn = point.thinned(2.0 / 2000.0, np.random.default_rng(0)).problem
    chances = np.where(drawn.offset[0] == 0.0, np.sqrt(0.5), 1e-3) * 2.0 / (2.0 * np.sqrt(0.5) + 1.998)
    assert (drawn.offset[0] > 0.0).any()
    np.testing.assert_allclose(drawn.row_weight, 1.0 / 2000.0 / chances, rtol=1e-9)


def test_levels_are_features_that_are_zero_outside_them():
    rng = np.random.default_rng(0)
    n, k, levels = 50, 3, 4
    z, y = log_softmax(rng.normal(size=(n, k)), axis=1), rng.integers(0, k, n)
    places = np.column_stack([rng.integers(-1, 2, n), rng.integers(2, 4, n)])
    weight = rng.uniform(0.5, 2.0, n)
    problem = LevelProblem(y, z, places, levels, weight)
    within = (places[:, :, None] == np.arange(levels)).any(axis=1)
    theta = rng.normal(size=(k, 2 * levels))
    assert problem.shape == theta.shape
    logits = z + within @ theta[:, :levels].T + (within @ theta[:, levels:].T) * z
    np.testing.assert_allclose(problem.logits(theta).T, logits, atol=1e-13)
    point = problem.at(theta)
    share = weight / weight.sum()
    assert point.loss == pytest.approx(-share @ log_softmax(logits, axis=1)[np.arange(n), y], rel=1e-12)
    residual = (softmax(logits, axis=1) - np.eye(k)[y]) * share[:, None]
    gradient = np.hstack([residual.T @ within, (residual * z).T @ within])
    np.testing.assert_allclose(point.gradient(), gradient, atol=1e-14)
    squares = np.hstack([np.tile(share @ within, (k, 1)), (z**2 * share[:, None]).T @ within])
    np.testing.assert_allclose(problem.second_moments, squares, atol=1e-14)


@pytest.mark.parametrize("penalty", ["ridge", "lasso", "mcp", "group"])
def test_an_epoch_is_a_walk_of_single_rows(kind, penalty):
    """SAGA as its authors write it: step along the changed row and the mean of the table, then the prox."""
    problem = make_problem(kind, n=40, weighted=True)
    r, q = problem.shape
    strength = np.full((r, q), 0.02)
    groups = np.arange(r * q).reshape(r, q) % 2
    chosen = {
        "ridge": Ridge(strength), "lasso": Lasso(strength), "mcp": MCP(strength), "group": GroupLasso(strength, groups),
    }[penalty]  # fmt: skip
    rng = np.random.default_rng(2)
    theta, table, step = 0.1 * rng.normal(size=(r, q)), 0.1 * rng.normal(size=(40, r)), 0.05
    f, first = (
        np.stack([problem.class_features(problem.first_free + j).T for j in range(r)], axis=1),
        problem.first_free,
    )
    mean = np.ascontiguousarray(np.einsum("n,nj,njq->jq", problem.row_weight, table, f))
    rows = rng.integers(0, 40, 60)
    expected, memory, average = theta.copy(), table.copy(), mean.copy()
    for i in rows:
        z = problem.offset[:, i].copy()
        z[first:] += (f[i] * expected).sum(axis=1)
        new = (softmax(z) - np.eye(problem.n_classes)[problem.y[i]])[first:]
        change = (new - memory[i])[:, None] * f[i] * problem.row_weight[i]
        expected = chosen.prox(expected - step * (40 * change + average), step)
        average, memory[i] = average + change, new
    arrays = (problem.offset.T, problem.shared.T, problem.own.transpose(2, 1, 0))
    walked = [np.ascontiguousarray(part) for part in arrays]
    epoch(rows, theta, table, mean, *walked, problem.y, problem.row_weight, first, step, chosen.description)
    np.testing.assert_allclose(theta, expected, atol=1e-13)
    np.testing.assert_allclose(table, memory, atol=1e-13)
    np.testing.assert_allclose(mean, average, atol=1e-13)


def test_sweeps_end_at_the_minimum_of_the_model_or_when_there_were_enough():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 6))
    hessian, b = root.T @ root / 30.0, rng.normal(size=6)
    slope, curvature, reach = np.full(6, 0.3), np.full(6, 0.1), np.full(6, np.inf)
    x = np.zeros(6)
    assert descend(x, hessian, -b, slope, curvature, reach, 1e-10, 1000)
    downhill = b - hessian @ x - curvature * x
    np.testing.assert_allclose(downhill[x != 0.0], 0.3 * np.sign(x[x != 0.0]), atol=1e-8)
    assert np.all(np.abs(downhill[x == 0.0]) <= 0.3 + 1e-8)
    assert (x == 0.0).any()
    gradient = -b.copy()
    one = np.zeros(6)
    assert not descend(one, hessian, gradient, slope, curvature, reach, 1e-10, 1)
    np.testing.assert_allclose(gradient, hessian @ one - b, atol=1e-14)
    for c in range(6):  # the first sweep by hand
        new = np.zeros(6)
        new[:c] = one[:c]
        t = (b - hessian @ new)[c]
        expected = np.sign(t) * max(abs(t) - 0.3, 0.0) / (hessian[c, c] + 0.1)
        assert one[c] == pytest.approx(expected, abs=1e-13)


def test_preconditioners_invert_what_they_are_made_of():
    problem = make_problem("matrix")
    point, curvature = problem.at(np.zeros(problem.shape)), np.full(problem.shape, 0.05)
    residual = np.random.default_rng(0).normal(size=problem.shape)
    blocks = point.class_blocks()
    solved = ClassBlocks(blocks, curvature).solve(residual)
    for block, x, b in zip(blocks, solved, residual):
        np.testing.assert_allclose((block + 0.05 * np.eye(5)) @ x, b, atol=1e-8)
    moments = point.class_moments()
    solved = ClassMeans(moments, curvature).solve(residual)
    for j in range(4):
        mean = moments.first[j] / moments.scale[j]
        spread = moments.square[j] - moments.scale[j] * mean**2
        matrix = np.diag(spread + curvature[j]) + moments.scale[j] * np.outer(mean, mean)
        np.testing.assert_allclose(matrix @ solved[j], residual[j], atol=1e-10)
    hessian = point.hessian()
    solved = Factored(hessian.copy(), curvature).solve(residual)
    np.testing.assert_allclose((hessian + 0.05 * np.eye(20)) @ solved.ravel(), residual.ravel(), atol=1e-10)


def test_preconditioners_hold_without_curvature():
    """A block gets 1e-10 of its largest curvature on its diagonal, a variance is that share of its square at least."""
    blocks = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    solved = ClassBlocks(blocks, np.zeros((2, 2))).solve(np.array([[1.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(solved, [[1.0, 1e10], [0.0, 0.0]], rtol=1e-9)
    constant = np.array([[6.0, 6.0], [0.0, 0.0]])
    moments = ClassMoments(np.array([2.0, 0.0]), constant, 3.0 * constant)
    solved = ClassMeans(moments, np.zeros((2, 2))).solve(np.array([[1.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(solved, [[1.0 / 1.8e-9, -1.0 / 1.8e-9], [0.0, 0.0]], rtol=1e-6)


def test_steps_that_are_too_long_are_damped_and_end():
    """From far away Newton's step overshoots for a loss like |t|, whose curvature vanishes."""

    def smooth_size(t):
        root = np.sqrt(1.0 + t[0] ** 2)
        return float(root), np.array([t[0] / root]), np.array([[1.0 / root**3]])

    for start in (1.5, 30.0, -1e4):
        end = damped_newton(smooth_size, np.array([start]), enough=lambda at: at.decrement < 1e-14)
        assert end.converged
        assert abs(end.theta[0]) < 1e-6
        assert end.n_iter < 40
    assert damped_newton(smooth_size, np.array([30.0]), enough=lambda at: False, max_iter=3).n_iter == 3
    parabola = damped_newton(
        lambda t: (float(t[0] ** 2), 2.0 * t, np.array([[2.0]])), np.array([3.0]), enough=lambda at: False, max_iter=0
    )
    assert parabola.decrement == pytest.approx(9.0)  # all that there is to gain
    assert parabola.step == pytest.approx([-3.0])
    for options, share in (({}, 1.0), ({"moments": 4.0}, 4.0)):  # where nothing bends, a step stays small
        flat = damped_newton(
            lambda t: (0.0, np.array([1e-20]), np.zeros((1, 1))), np.zeros(1), enough=lambda at: True, **options
        )
        assert flat.step == pytest.approx([-1e-7 / share])
    assert more_damping(0.0) == 1e-6
    assert more_damping(1.0) == 100.0
    assert less_damping(1.0) == 0.1
    assert less_damping(1e-10) == 0.0


def test_a_solution_is_judged_by_its_gap_or_by_its_residual():
    problem = make_problem("vector")
    theta = np.full(problem.shape, 0.1)
    point = problem.at(theta)
    u = point.gradient()
    ridge = Ridge(np.full(problem.shape, 0.01))
    gap = float(np.sum((u + 0.02 * theta) ** 2) / 0.04)
    state = State(point, u, point.loss + ridge.value(theta))
    found = judge(ridge, theta, state, 7, 2.0 * gap)
    assert found.gap == pytest.approx(gap)
    assert (found.converged, found.n_iter, found.error) == (True, 7, found.gap)
    assert not judge(ridge, theta, state, 7, 0.9 * gap / max(1.0, state.objective)).converged
    large = State(point, u, 10.0)
    assert judge(ridge, theta, large, 7, 0.11 * gap).converged
    free = judge(NoPenalty(problem.shape), theta, state, 1, 1e-9)
    assert np.isnan(free.gap)
    assert free.error == free.residual == pytest.approx(np.abs(u).max()) == prox_residual(NoPenalty(u.shape), theta, u)
    assert not free.converged
    assert judge(NoPenalty(u.shape), theta, State(point, u, 1e-12), 1, 1e-9).converged
    assert Solution(theta, 1.0, 0.5, np.nan, 1, True).error == 0.5


def test_what_a_tolerance_and_a_seed_are_by_default():
    small, large = make_problem("vector", n=50), make_problem("vector", n=50, k=20)
    many = make_problem("matrix", n=50, k=45)
    ridge, none = Ridge(np.ones(large.shape)), NoPenalty(large.shape)
    newton, proximal = SOLVERS["newton"], SOLVERS["proximal-newton"]
    assert newton.default_tol(small, Ridge(np.ones(small.shape))) == newton.default_tol(large, none) == 1e-8
    assert newton.default_tol(large, ridge) == 1e-6
    assert proximal.default_tol(small, Lasso(np.ones(small.shape))) == 1e-8
    assert proximal.default_tol(many, Lasso(np.ones(many.shape))) == 1e-6
    lasso = Lasso(np.full(small.shape, 0.01))
    found = [solve(small, lasso, solver="saga", tol=1e-2, random_state=seed).theta for seed in (None, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(found[0] != found[2])
    assert block_rows(2) == 65536
    assert block_rows(1000) == 256


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_logit_far_above_all_others_does_not_overflow(dtype: type) -> None:
    z = 2000.0 * np.eye(4, dtype=dtype)  # row i is class i, whichever that is
    loss = softmax_loss(z, np.array([0, 1, 2, 0]), np.ones(4, dtype=dtype))
    np.testing.assert_allclose(z, np.eye(4), atol=1e-37)  # the least probability is not zero
    assert loss == 2000.0
