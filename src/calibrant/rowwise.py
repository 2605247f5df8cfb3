"""Sums and products of rows that do not depend on a row's neighbours, bit for bit.

A row must get the same prediction alone, in any batch and in any order: a last bit decides on which side of a step it
falls. BLAS and NumPy's reductions choose the order of additions by the shape of the whole array. Here every row is
added up in the order of its columns' number alone, and products are made of tiles of one fixed shape.
"""

from __future__ import annotations

import numpy as np

from calibrant.typing import AnyFloatArray, FloatArray

#: Rows of a tile: what the kernels of BLAS compute at a time, so that a row's place in its tile does not matter.
TILE = 8

#: Numbers whose cumulated sums are held at a time: half a megabyte, which a processor's cache holds.
_BLOCK = 1 << 16

#: Up to so many columns it is faster to add whole columns.
_FEW_COLUMNS = 4


def row_sums(x: AnyFloatArray) -> AnyFloatArray:
    """The sum of each row of `x` (n, k), or of any array along its last axis."""
    if 1 < x.shape[-1] <= _FEW_COLUMNS:
        total = x[..., 0] + x[..., 1]
        for j in range(2, x.shape[-1]):
            total = total + x[..., j]
        return np.asarray(total)
    return np.asarray(np.einsum("...k->...", np.ascontiguousarray(x)))


def ordered_row_sums(x: AnyFloatArray) -> AnyFloatArray:
    """The sum of each row of `x` (n, k), added from left to right: to the last bit what any other language gets."""
    n, k = x.shape
    if 1 < k <= _FEW_COLUMNS:
        return row_sums(x)
    if 1 < k <= n:  # whole columns, which is faster and gives the same bits
        total = x[:, 0] + x[:, 1]
        for j in range(2, k):
            total += x[:, j]
        return total
    if n == 1:
        return np.add.accumulate(x, axis=1)[:, -1]
    out = np.empty(n, dtype=x.dtype)
    rows = max(1, _BLOCK // max(k, 1))
    for start in range(0, n, rows):
        out[start : start + rows] = np.cumsum(x[start : start + rows], axis=1)[:, -1]
    return out


def row_products(x: FloatArray, matrix: FloatArray) -> FloatArray:
    """The product of each row of `x` (n, d) with `matrix` (d, m)."""
    n, d = x.shape
    m = matrix.shape[1]
    whole = n - n % TILE
    out = np.empty((n, m))
    if whole:
        tiles = np.ascontiguousarray(x[:whole]).reshape(-1, TILE, d)
        np.matmul(tiles, matrix, out=out[:whole].reshape(-1, TILE, m))
    if whole < n:
        last = np.zeros((1, TILE, d))
        last[0, : n - whole] = x[whole:]
        out[whole:] = np.matmul(last, matrix)[0, : n - whole]
    return out
