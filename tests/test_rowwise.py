"""Sums and products of rows: right, and the same bits whatever the other rows are."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.rowwise import ordered_row_sums, row_products, row_sums


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9, 20, 33, 130, 500])
def test_rows_do_not_depend_on_their_neighbours(k):
    rng = np.random.default_rng(k)
    x = rng.normal(size=(37, k)) * np.exp(rng.normal(size=(37, k)) * 5.0)
    w = rng.normal(size=(k, 7))
    order = rng.permutation(37)
    for function in (row_sums, lambda rows: row_products(rows, w), lambda rows: row_products(rows, w.T.copy().T)):
        together = function(x)
        np.testing.assert_array_equal(function(x[order]), together[order])
        np.testing.assert_array_equal(function(np.asfortranarray(x)), together)
        for size in (1, 2, 3, 8, 9, 36):
            np.testing.assert_array_equal(function(x[5 : 5 + size].copy()), together[5 : 5 + size])
    np.testing.assert_allclose(row_sums(x), x.sum(axis=1), rtol=1e-9, atol=1e-9 * np.abs(x).max())
    np.testing.assert_allclose(row_products(x, w), x @ w, rtol=1e-9, atol=1e-9 * np.abs(x).max())


def test_a_sum_from_left_to_right_is_that_of_a_loop() -> None:
    assert ordered_row_sums(np.array([[0.1] * 10])).tolist() == [0.9999999999999999]
