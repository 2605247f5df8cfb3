"""Rows that can only be summed over answer every question as rows in memory do."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from calibrant.sample import Sample
from calibrant.softmax.penalties import GroupLasso, Lasso, Ridge
from calibrant.softmax.rows.batch_rows import BatchRows, RowCache, watched
from calibrant.softmax.rows.row_source import ArrayRows, Extent, Features, with_ones
from calibrant.softmax.rows.summed_rows import SummedProblem, add_up
from calibrant.softmax.solvers import solve
from calibrant.steps import Log, Scale, Softmax
from tests.samples import confused


def matrix(x):
    shared = np.vstack([x.T, np.ones(len(x))])
    return Features(shared[: x.shape[1]], shared)


def vector(x):
    return Features(np.ascontiguousarray(x.T), np.ones((1, len(x))), np.ascontiguousarray(x.T)[None])


def binary(x):
    t = x[:, 1] - x[:, 0]
    return Features(np.zeros((2, len(t))), np.vstack([t, np.ones_like(t), t * t]))


CASES = {"matrix": (matrix, 4, 0), "vector": (vector, 4, 0), "binary": (binary, 2, 1)}


def homes(k, weighted, n=700, cache=None, sample=None):
    """The same rows in memory and in uneven batches, one of them of a single class."""
    p, y = confused(n, k)
    x = np.log(p)
    weight = np.random.default_rng(0).uniform(0.5, 3.0, n) if weighted else None
    order = np.argsort(y, kind="stable")
    order[200:] = np.random.default_rng(1).permutation(order[200:])
    x, y = x[order], y[order]
    bounds = [0, 150, 151, 151, 400, n]

    everything = Sample(x, y, weight, logs=True)

    def read():
        for a, b in itertools.pairwise(bounds):
            yield everything.take(slice(a, b))

    rows = ArrayRows(everything)
    some = np.arange(0, n, 3) if sample is None else sample
    batches = BatchRows(read, Extent(n, rows.total_weight, rows.class_weights), ArrayRows(everything.take(some)), cache)
    return rows, batches


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_sum_is_that_of_all_rows(case, weighted):
    features, k, first_free = CASES[case]
    one, other = (rows.problem(features, first_free=first_free) for rows in homes(k, weighted))
    assert other.shape == one.shape
    rng = np.random.default_rng(2)
    theta, direction = 0.3 * rng.normal(size=(2, *one.shape))
    a, b = one.at(theta), other.at(theta)
    assert b.loss == pytest.approx(a.loss, rel=1e-13)
    np.testing.assert_allclose(b.gradient(), a.gradient(), atol=1e-14)
    np.testing.assert_allclose(b.hessian(), a.hessian(), atol=1e-14)
    np.testing.assert_allclose(b.hessian_vector_product(direction), a.hessian_vector_product(direction), atol=1e-13)
    np.testing.assert_allclose(b.class_blocks(), a.class_blocks(), atol=1e-14)
    for mine, theirs in zip(b.class_moments(), a.class_moments(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-13)
    assert b.dual_value(0.7) == pytest.approx(a.dual_value(0.7), rel=1e-12)
    for mine, theirs in zip(other.derivatives(theta), one.derivatives(theta), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-13)


@pytest.mark.parametrize("make", [Ridge, Lasso, lambda s: GroupLasso(s, np.indices(s.shape)[1])])
def test_solvers_find_the_same_optimum(make):
    one, other = (rows.problem(matrix) for rows in homes(4, True))
    penalty = make(np.full(one.shape, 0.01))
    a, b = (solve(problem, penalty, tol=1e-13) for problem in (one, other))
    assert b.objective == pytest.approx(a.objective, rel=1e-12)
    # A constant added to all classes' coefficients changes no prediction, and the lasso may not mind it either.
    np.testing.assert_allclose(b.theta - b.theta.mean(axis=0), a.theta - a.theta.mean(axis=0), atol=1e-5)
    assert b.gap <= 1e-13 * max(1.0, b.objective)


def test_a_sample_that_tells_too_little_is_replaced_by_all_rows():
    """Ten rows say hardly anything about the curvature of twenty coefficients: the optimum is found all the same."""
    one, other = (rows.problem(matrix) for rows in homes(4, False, sample=np.arange(10)))
    penalty = Ridge(np.full(one.shape, 1e-4))
    a, b = (solve(problem, penalty, tol=1e-10) for problem in (one, other))
    assert b.converged
    assert b.objective == pytest.approx(a.objective, abs=2e-10)


def test_saga_says_that_it_needs_all_rows():
    _, batches = homes(4, False)
    problem = batches.problem(matrix)
    with pytest.raises(ValueError, match=r"all rows in memory.*newton"):
        solve(problem, Ridge(np.full(problem.shape, 0.1)), solver="saga")


@pytest.mark.parametrize("prior", [0.0, 5.0])
def test_temperatures_of_several_mixtures_share_their_passes(prior):
    rows, batches = homes(4, True)
    mixtures = (0.0, 1e-3, 0.05, 0.1, 0.2)
    alone = rows.inverse_temperatures(mixtures, prior)
    together = batches.inverse_temperatures(mixtures, prior)
    np.testing.assert_allclose(together, alone, rtol=1e-9)
    assert batches.n_passes <= 5


def test_rows_without_an_error_lead_to_certainty_in_batches_too():
    rows, batches = homes(3, False)
    right = np.argmax(rows.x, axis=1)
    rows.y[:] = right  # the arrays are those that the batches are cut from
    batches.sample().y[:] = np.argmax(batches.sample().x, axis=1)
    assert batches.inverse_temperatures((0.0,))[0][0] == rows.inverse_temperatures((0.0,))[0][0] > 1e6


def test_rows_after_steps_are_those_in_memory_after_the_same_steps():
    steps = [Log(), Scale(0.7), Softmax(), Log()]
    rows, batches = (rows.mapped(steps) for rows in homes(4, True))
    theta = np.full((4, 5), 0.1)
    one, other = (home.problem(matrix).at(theta) for home in (rows, batches))
    assert other.loss == pytest.approx(one.loss, rel=1e-13)
    np.testing.assert_allclose(other.gradient(), one.gradient(), atol=1e-14)
    assert batches.always_right == bool(np.all(rows.x[np.arange(len(rows.y)), rows.y] >= rows.x.max(axis=1)))


def test_many_passes_read_a_temporary_file_that_is_removed(tmp_path):
    rows, _ = homes(50, True, n=300)
    cache = RowCache(300, 50, tmp_path)
    _, batches = homes(50, True, n=300, cache=cache)
    with cache:
        problem = batches.problem(matrix)  # 2550 coefficients: more than a dense Hessian is made for
        assert cache.filled
        assert cache._rows.nbytes == cache.bytes_needed
        theta = np.full(problem.shape, 0.01)
        one, other = rows.problem(matrix).at(theta), problem.at(theta)
        assert other.loss == pytest.approx(one.loss, rel=1e-6)
        np.testing.assert_allclose(other.gradient(), one.gradient(), atol=1e-6)
        np.testing.assert_allclose(other.hessian_vector_product(theta), one.hessian_vector_product(theta), atol=1e-6)
        sampled = other.thinned(1 / 3, np.random.default_rng(0))
        assert sampled.problem.n_rows == len(batches.sample().y)  # no more rows are asked for than the sample has
        assert other.thinned(1.0, np.random.default_rng(0)) is other
    assert not any(tmp_path.iterdir())


def test_curvature_of_more_rows_than_the_sample_has_comes_from_blocks_of_the_file(tmp_path):
    rows, batches = homes(50, True, n=2000, cache=RowCache(2000, 50, tmp_path), sample=np.arange(100))
    problem = batches.problem(matrix)
    rng = np.random.default_rng(0)
    theta, direction = np.full(problem.shape, 0.01), rng.normal(size=problem.shape)
    exact = rows.problem(matrix).at(theta).hessian_vector_product(direction)
    products = [problem.at(theta).thinned(0.5, rng).hessian_vector_product(direction) for _ in range(12)]
    assert np.abs(np.mean(products, axis=0) - exact).max() < 0.2 * np.abs(exact).max()
    batches._cache.remove()
    assert not any(tmp_path.iterdir())


def test_no_file_is_written_where_the_disk_may_not_be_used(tmp_path):
    cache = RowCache(300, 50, tmp_path, most_mb=0.01)
    _, batches = homes(50, False, n=300, cache=cache)
    batches.problem(matrix)
    assert not any(tmp_path.iterdir())


def test_a_file_is_removed_when_reading_fails_while_it_is_written(tmp_path):
    def broken():
        yield Sample(np.zeros((10, 2)), np.zeros(10, dtype=np.int64), logs=True)
        raise OSError("the network is gone")

    cache = RowCache(20, 2, tmp_path)
    with pytest.raises(OSError, match="network"):
        cache.fill(broken())
    assert not any(tmp_path.iterdir())


def test_a_part_of_the_file_is_blocks_drawn_at_random_and_steps_map_it_too(tmp_path):
    rows, batches = homes(4, True, cache=RowCache(700, 4, tmp_path))
    rng = np.random.default_rng
    assert batches.part(0.3, rng(0)) is batches.mapped([Scale(2.0)]).part(0.3, rng(0)) is None  # nothing is kept yet
    batches._size = 64
    mapped = batches.mapped([Log(), Scale(2.0)])
    mapped.expect_passes()
    with batches._cache:
        for share, count in ((0.3, 3), (0.01, 1), (1.0, 11)):
            drawn = np.sort(rng(0).choice(11, count, replace=False))
            here = np.isin(np.arange(700) // 64, drawn)
            for some, factor in ((batches.part(share, rng(0)), 1.0), (mapped.part(share, rng(0)), 2.0)):
                total, x = some.sums(lambda block: [block.total, block.x.T @ block.each])
                assert some.n_rows == here.sum()
                assert some.total_weight == pytest.approx(total) == pytest.approx(rows.weight[here].sum())
                np.testing.assert_allclose(x, factor * rows.x[here].T @ rows.weight[here], rtol=1e-6)
        assert batches.n_rows == 700


def test_a_file_is_kept_where_the_disk_has_room_for_it_and_for_others(tmp_path, monkeypatch):
    cache = RowCache(1000, 5, tmp_path)
    assert cache.bytes_needed == 1000 * (5 * 4 + 4 + 8)
    for spare, fits in ((0, True), (-1, False)):
        free = 2**28 + cache.bytes_needed + spare
        monkeypatch.setattr("shutil.disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        assert cache.fits == fits
    monkeypatch.undo()
    assert RowCache(2**15, 5, tmp_path, most_mb=1.0).fits
    assert not RowCache(2**15 + 1, 5, tmp_path, most_mb=1.0).fits


def test_blocks_that_are_watched_move_a_bar(monkeypatch):
    moves = []

    class Bar:
        def __init__(self, whole, what):
            assert (whole, what) == (1.0, "pass 2")

        def __enter__(self):
            return SimpleNamespace(move=lambda done, text: moves.append((done, text)))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("calibrant.softmax.rows.batch_rows.ProgressBar", Bar)
    blocks = [Sample(np.zeros((n, 2)), np.zeros(n, dtype=np.int64), logs=True) for n in (1000, 500)]
    assert list(watched(blocks, "pass 2", 2000)) == blocks
    assert list(watched(blocks, "pass 2")) == blocks
    assert moves == [(0.5, "1,000 rows"), (0.75, "1,500 rows"), (0.0, "1,000 rows"), (0.0, "1,500 rows")]


@pytest.mark.parametrize(
    ("coefficients", "sampled", "exact"),
    [(8, 10**5, True), (9, 9000, False), (9, 8999, True), (48, 47_999, True), (49, 100, False)],
)
def test_few_coefficients_get_curvature_of_all_rows_with_every_pass(coefficients, sampled, exact):
    """With hardly any coefficients always, with a few more where the sample has fewer than 1000 rows for each."""
    problem = sized(coefficients, sampled)
    assert problem.curvature_share == (1.0 if exact else sampled / 10**6)
    passes = []
    problem.means = lambda function: passes.append(1) or function(problem.sampled)
    point = problem.at(np.zeros(problem.shape))
    assert (point.loss, point.gradient(), point.hessian()) == (1.0, 2.0, 3.0)
    assert len(passes) == (1 if exact else 2)


def sized(coefficients, sampled, kept=None):
    """A problem of a million rows, with so many coefficients and rows in its sample, whose sums are one, two, three."""
    point = SimpleNamespace(loss=1.0, gradient=lambda: 2.0, hessian=lambda: 3.0, hessian_vector_product=lambda d: 4.0)
    point.class_blocks = lambda: 5.0
    some = SimpleNamespace(shape=(1, coefficients), n_shared=coefficients, n_own=0, n_rows=sampled, at=lambda t: point)
    sample = SimpleNamespace(problem=lambda features, first_free: some)
    rows = SimpleNamespace(
        sample=lambda: sample, n_classes=2, n_rows=10**6, total_weight=1e6, expect_passes=lambda: kept.append(1)
    )
    return SummedProblem(rows, None, 0)


def test_rows_are_kept_for_many_passes_where_no_dense_hessian_is_made():
    kept = []
    for coefficients in (2000, 2001):
        problem = sized(coefficients, 100, kept)
        problem.means = lambda function, problem=problem: function(problem.sampled)
        point = problem.at(np.zeros(problem.shape))
        point._hessian = np.eye(2)
        product = point.hessian_vector_product(np.array([5.0, 6.0]))
        assert (product == 4.0) if coefficients > 2000 else (product.tolist() == [5.0, 6.0])
        point._hessian = np.eye(coefficients)
        assert (point.class_blocks() == 5.0) if coefficients > 2000 else (point.class_blocks().shape == (1, 2000, 2000))
    assert kept == [1]


def test_curvature_of_all_rows_serves_until_more_is_asked_for():
    problem = sized(100, 10_000)  # a hundredth of the rows
    one, two = problem.at(np.zeros((1, 100))), problem.at(np.ones((1, 100)))
    rng = np.random.default_rng(0)
    assert one.thinned(0.01, rng) is problem.sampled.at(None)
    assert one.thinned(0.02, rng) is one
    assert two.thinned(0.02, rng) is one
    assert two.thinned(0.04, rng) is two
    assert one.thinned(0.03, rng) is two


def test_sums_skip_parts_without_rows() -> None:
    assert (add_up([[1, 2.5], None, [10, 1.0]]), add_up([None])) == ([11, 3.5], [])


def test_rows_in_memory_have_the_weight_of_each_class_and_features_class_by_class() -> None:
    assert with_ones(np.array([[-1.0, -2.0]])).tolist() == [[-1.0], [-2.0], [1.0]]
    rows = ArrayRows(Sample(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]), np.array([0, 0, 0])))
    assert rows.class_weights.tolist() == [3.0, 0.0]
