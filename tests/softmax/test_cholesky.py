"""Factors of Hessians: exact where there is one, close where rounding left none, an error where numbers are missing."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.softmax.solvers.searches import cholesky


def test_a_positive_matrix_is_not_changed():
    root = np.random.default_rng(0).normal(size=(5, 9))
    matrix = root @ root.T
    factor = np.tril(cholesky(matrix, jitter=1e-12))
    np.testing.assert_array_equal(matrix, root @ root.T)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-12)


def test_a_matrix_that_rounding_made_indefinite_gets_a_factor():
    matrix = np.ones((3, 3)) - 1e-9 * np.eye(3)
    factor = np.tril(cholesky(matrix, jitter=1e-12))
    np.testing.assert_allclose(factor @ factor.T, np.ones((3, 3)), atol=2e-6)


def test_numbers_that_are_none_do_not_keep_the_diagonal_growing():
    with pytest.raises(np.linalg.LinAlgError, match="finite"):
        cholesky(np.diag([-np.inf, 1.0]), jitter=1e-12)
