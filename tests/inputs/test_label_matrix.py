"""What is true of each row, as a matrix or as lists of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.inputs.label_matrix import check_not_labels, label_matrix

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


@pytest.mark.parametrize("labels", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_every_column_has_one_name_of_its_own(labels: list[str]) -> None:
    with pytest.raises(ValueError, match=rf"labels names {len(labels)} columns .*; X has 2, and each needs a name"):
        label_matrix([[0, 1], [1, 0]], P, labels=labels)


def test_only_probabilities_far_from_one_are_taken_for_those_of_labels() -> None:
    several = [[1, 1], [0, 1]]
    with pytest.raises(ValueError, match="these are labels, any number of which may be true, not classes"):
        check_not_labels(np.array([[0.9, 0.8], [0.1, 0.2]]), several)
    for other in ([[2.0, 3.0], [4.0, 5.0]], [[-1.0, 0.5], [0.2, 0.1]], [[0.5, 0.5], [0.1, 0.2]]):
        check_not_labels(np.array(other), several)
    check_not_labels(np.array([[0.9, 0.8], [0.1, 0.2]]), [[1, 0], [0, 1]])
