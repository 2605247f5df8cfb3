"""What is true of each row, as a matrix or as lists of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.inputs.label_matrix import label_matrix

P = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("y", "truth"),
    [
        ([[0, 1], [1, 0]], [[0, 1], [1, 0]]),
        ([[1, 1], [1, 0]], [[1, 1], [1, 0]]),  # twice the same label: a matrix
        ([{0, 1}, {1, 0}], [[1, 1], [1, 1]]),
        ([[0], [1, 0]], [[1, 0], [1, 1]]),
        ([["b", "a"], ["a", "b"]], [[1, 1], [1, 1]]),
        ([["b"], ["a", "b"]], [[0, 1], [1, 1]]),
        ([("b",), np.array(["a", "b"])], [[0, 1], [1, 1]]),
    ],
)
def test_lists_of_labels_are_told_from_matrices(y: Any, truth: list[list[int]]) -> None:
    assert label_matrix(y, P).y.tolist() == truth


def test_rows_of_no_weight_are_left_out() -> None:
    found = label_matrix([[0, 1], [1, 0]], P, [0.0, 2.0], labels=["a", "b"])
    assert (found.y.tolist(), found.rows.counts.tolist(), found.labels) == ([[1, 0]], [2.0], ["a", "b"])


def test_pooled_cells_of_an_observation_belong_together() -> None:
    pooled = label_matrix([[0, 1], [1, 0]], P, [1.0, 2.5]).pooled()
    assert pooled.counts.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]
    assert pooled.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert pooled.y.tolist() == [0, 1, 1, 0, 1, 0, 1, 0]
    grouped = label_matrix([[0, 1], [1, 0]], P, [1.0, 2.5], groups=["x", "x"]).pooled()
    assert (grouped.counts.tolist(), grouped.groups.tolist()) == ([1.0, 1.0, 2.5, 2.5], [0, 0, 0, 0])
