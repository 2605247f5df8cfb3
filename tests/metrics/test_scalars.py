"""What metrics are made of: forms of sums and how they move, units of means over classes, parameters of functions."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import auroc, brier, expected_observed_ratio
from calibrant.metrics.scalars import REPLICATES, SCALARS, Form, cell_spread, moved_values
from calibrant.sample import Sample

DOUBLED = Form(lambda sums: 2 * sums, "distance", (slice(1, None),))
SUMS = np.array([10.0, 1.0, 2.0])


def test_sums_without_variance_move_by_what_was_not_seen_alone() -> None:
    still = {"variance": np.zeros(2)}
    for n, expected in ((3, 3), (10 * REPLICATES, REPLICATES)):
        found = moved_values(DOUBLED, SUMS, still, np.random.default_rng(0), n)
        np.testing.assert_array_equal(found, np.tile([20, 2, 4], (expected, 1)))
    unseen = lambda: np.array([0.5, 0.25, 0.0])  # noqa: E731
    found = moved_values(DOUBLED, SUMS, still, np.random.default_rng(0), 2, unseen)
    np.testing.assert_array_equal(found, [[21, 2.5, 4]] * 2)


def test_moves_of_groups_and_of_cells_are_added() -> None:
    moves = np.array([[1.0, 0.0], [0.0, -1.0], [2.0, 2.0]])
    found = moved_values(DOUBLED, SUMS, {"moves": moves}, np.random.default_rng(0), 2)
    np.testing.assert_array_equal(found, [[20, 4, 4], [20, 2, 2]])
    # The variance of a cell is that of its moves.
    found = moved_values(DOUBLED, SUMS, {"variance": np.array([9.0, 0.25])}, np.random.default_rng(0))
    np.testing.assert_allclose(found.std(axis=0), [0, 6, 1], rtol=0.15)
    both = moved_values(DOUBLED, SUMS, {"moves": np.tile([7.0, 0], (200, 1)), "variance": np.zeros(2)}, np.random)
    np.testing.assert_array_equal(both, np.tile([20, 16, 4], (200, 1)))


def test_a_group_moves_all_cells_in_which_it_has_rows_at_once() -> None:
    values, counts, cell = np.array([0.3, -0.4, 0.5, 0.2]), np.array([2.0, 3.0, 1.0, 1.5]), np.array([0, 1, 1, 2])

    def cells(rows: np.ndarray) -> np.ndarray:
        return np.bincount(cell, rows, 3)

    data = Sample(np.full((4, 2), 0.5), np.zeros(4, dtype=int), counts)
    np.testing.assert_allclose(cell_spread(data, values, cells), [0.18, 0.48 + 0.25, 0.06])
    grouped = Sample(data.values, data.y, counts, groups=np.array([5, 5, 7, 7]))
    moves = cell_spread(grouped, values, cells)
    first, second = moves[:, 0] / 0.6, moves[:, 2] / 0.3  # the random numbers of both groups
    assert moves.shape == (REPLICATES, 3)
    np.testing.assert_allclose(moves[:, 1], -1.2 * first + 0.5 * second)
    np.testing.assert_allclose([first.std(), second.std()], 1.0, rtol=0.15)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2
    # Other rows move otherwise: what is kept of parts is added.
    other = cell_spread(grouped, values + 0.1, cells)
    assert not np.allclose(other[:, 0] / (0.4 * 2), first)


def test_means_over_classes_rest_on_the_rare_ones() -> None:
    y, counts = np.repeat([0, 1, 3], [3, 12, 5]), np.full(20, 2.0)
    m = 2 * np.array([3.0, 12.0, 5.0])  # there is no third class
    expected = np.sum(1 / m) ** 2 / np.sum(1 / m**3)
    data = Sample(np.full((20, 4), 0.25), y, counts)
    assert SCALARS["auroc"].units(data) == pytest.approx(expected)
    pairs = Sample(data.values, y, counts, groups=np.arange(20) // 2)
    assert SCALARS["auroc"].units(pairs) == pytest.approx(expected / 4)  # ten units instead of forty
    assert (SCALARS["brier"].units(data), SCALARS["brier"].units(pairs)) == (40.0, 10.0)


def test_groups_are_refused_where_nothing_depends_on_them() -> None:
    for given in ({"groups": [0, 1]}, {"blocks": 1}):
        with pytest.raises(TypeError, match="brier does not depend on groups"):
            brier([0, 1], [0.2, 0.7], **given)
    assert expected_observed_ratio([0, 1] * 3, [0.2, 0.7] * 3, blocks=2).value == pytest.approx(0.9)


def test_a_value_is_that_of_the_statistic_with_the_counts() -> None:
    y, p, counts = [0, 1, 1, 0], [0.1, 0.4, 0.35, 0.8], np.array([1.0, 2.0, 0.5, 3.0])
    data = Sample(np.column_stack([1 - np.array(p), p]), np.array(y), counts)
    won = (2.0 * 1 + 0.5 * 1) * 1.0  # pairs in which the event has the higher score: the rows with 0.1
    assert auroc(y, p, sample_weight=counts) == auroc.of(data) == pytest.approx(won / (2.5 * 4))
