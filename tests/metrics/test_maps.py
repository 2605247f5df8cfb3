"""Maps of calibrators as tables, with stand-ins whose map and matrix are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.metrics import calibration_map, correction_matrix


class Squares:
    """Squares probabilities and divides by their sum."""

    def __init__(self, *classes: str) -> None:
        self.classes_ = np.array(classes)

    def predict_proba(self, P: np.ndarray) -> np.ndarray:
        return P**2 / np.sum(P**2, axis=1, keepdims=True)


class Linear:
    """Has a matrix, and maybe a calibrator inside that has it."""

    def __init__(self, matrix: Any, inside: Any = None) -> None:
        self.classes_ = np.array(["a", "b", "c"])
        self.coef_ = matrix
        if inside is not None:
            self.calibrator_ = inside


def test_two_classes_are_shown_on_a_grid_of_the_second() -> None:
    found = calibration_map(Squares("no", "yes"))
    t = np.arange(201) / 200
    assert found.classes == ("no", "yes")
    np.testing.assert_allclose(found.before, np.column_stack([1 - t, t]), atol=1e-15)
    np.testing.assert_allclose(found.after[:, 1], t**2 / (t**2 + (1 - t) ** 2), atol=1e-15)
    assert calibration_map(Squares("no", "yes"), n_points=3).before.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]


def test_three_classes_are_shown_in_the_middle_of_triangles() -> None:
    found = calibration_map(Squares("a", "b", "c"), n_points=2)
    np.testing.assert_allclose(found.before, np.array([[1, 1, 4], [1, 4, 1], [4, 1, 1]]) / 6)
    np.testing.assert_allclose(found.after, np.array([[1, 1, 16], [1, 16, 1], [16, 1, 1]]) / 18)
    ten = calibration_map(Squares("a", "b", "c")).before
    assert len(np.unique(ten, axis=0)) == 55
    assert ten.min() == pytest.approx(1 / 30)
    with pytest.raises(ValueError, match="two or three classes, this calibrator has 4"):
        calibration_map(Squares("a", "b", "c", "d"))


def test_a_correction_is_the_matrix_minus_the_identity() -> None:
    # Off the diagonal "b" has the largest entry, in its row; "a" shares it, in its column; "c" has 0.4 at most.
    matrix = np.array([[1.0, 0.1, 0.2], [-0.9, 1.5, 0.0], [0.3, 0.4, 9.0]])
    for given in (Linear(matrix), Linear(None, inside=Linear(matrix))):
        for most in (None, 3, 4):
            whole = correction_matrix(given, max_classes=most)
            np.testing.assert_allclose(whole.matrix, [[0, 0.1, 0.2], [-0.9, 0.5, 0], [0.3, 0.4, 8]])
            assert (whole.classes, whole.n_left_out) == (("a", "b", "c"), 0)
    two, one = (correction_matrix(Linear(matrix), max_classes=most) for most in (2, 1))
    np.testing.assert_allclose(two.matrix, [[0, 0.1], [-0.9, 0.5]])
    assert (two.classes, two.n_left_out) == (("a", "b"), 1)
    assert (one.matrix.tolist(), one.classes, one.n_left_out) == ([[0.0]], ("a",), 2)
    by_row = correction_matrix(Linear(matrix.T[::-1, ::-1]), max_classes=2)
    assert by_row.classes == ("b", "c")


def test_what_has_no_matrix_is_refused() -> None:
    for given in (Linear(np.eye(2)), Linear(None), Linear(np.ones(3))):
        with pytest.raises(ValueError, match=r"Linear has no matrix of shape \(k, k\)"):
            correction_matrix(given)
    with pytest.raises(ValueError, match="max_classes must be positive, got 0"):
        correction_matrix(Linear(np.eye(3)), max_classes=0)
