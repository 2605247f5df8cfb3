"""Fused row kernels of the softmax problem, compiled by numba and cached on disk.

All matrices are class-major, shape (k, n): the loops over rows are then contiguous and vectorise, which a loop over a
handful of classes does not. Rows are processed in chunks that stay in the first-level cache, so that the maximum, the
exponentials, the sum and the result cost one pass through memory.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_CHUNK = 256
_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has trailing zeros, so that n * ln 2 is exact for the exponents that occur.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10


@intrinsic
def _power_of_two(typingctx, exponent):  # type: ignore[no-untyped-def]
    """2**exponent for an integer exponent, by writing the exponent bits of a double."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        bits = builder.shl(builder.add(args[0], ir.Constant(ir.IntType(64), 1023)), ir.Constant(ir.IntType(64), 52))
        return builder.bitcast(bits, cgutils.ir.DoubleType())

    return types.float64(types.int64), codegen


@njit(inline="always", fastmath=True)
def _exp(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to within two units in the last place; a form the compiler can vectorise (libm's is not)."""
    x = max(x, -708.0)
    n = math.floor(x * _LOG2_E + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _power_of_two(np.int64(n))


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def softmax_loss(z, y, weight):  # type: ignore[no-untyped-def]
    """Overwrite logits `z` (k, n) by probabilities; return the weighted sum of the log losses at labels `y`."""
    k, n = z.shape
    top = np.empty(_CHUNK, dtype=z.dtype)
    total = np.empty(_CHUNK, dtype=z.dtype)
    at_label = np.empty(_CHUNK, dtype=z.dtype)
    loss = 0.0
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            top[i] = z[0, start + i]
            at_label[i] = z[y[start + i], start + i]
            total[i] = 0.0
        for j in range(1, k):
            row = z[j, start : start + m]
            for i in range(m):
                top[i] = max(top[i], row[i])
        for j in range(k):
            row = z[j, start : start + m]
            for i in range(m):
                e = _exp(row[i] - top[i])
                row[i] = e
                total[i] += e
        for i in range(m):
            loss += weight[start + i] * (math.log(total[i]) + top[i] - at_label[i])
            total[i] = 1.0 / total[i]
        for j in range(k):
            row = z[j, start : start + m]
            for i in range(m):
                row[i] *= total[i]
    return loss


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def apply_curvature(p, d, weight):  # type: ignore[no-untyped-def]
    """Overwrite directions `d` (k, n) by `weight (diag(p) - p pᵀ) d` of each row."""
    k, n = p.shape
    mean = np.empty(_CHUNK, dtype=p.dtype)
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            mean[i] = 0.0
        for j in range(k):
            p_row = p[j, start : start + m]
            d_row = d[j, start : start + m]
            for i in range(m):
                mean[i] += p_row[i] * d_row[i]
        for j in range(k):
            p_row = p[j, start : start + m]
            d_row = d[j, start : start + m]
            w = weight[start : start + m]
            for i in range(m):
                d_row[i] = w[i] * p_row[i] * (d_row[i] - mean[i])


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def line_derivatives(z, d, t, y, weight):  # type: ignore[no-untyped-def]
    """Loss sum along the line `z + t d` and its first two derivatives in `t`."""
    k, n = d.shape
    top = np.empty(_CHUNK, dtype=z.dtype)
    total = np.empty(_CHUNK, dtype=z.dtype)
    first = np.empty(_CHUNK, dtype=z.dtype)
    second = np.empty(_CHUNK, dtype=z.dtype)
    loss = 0.0
    slope = 0.0
    curvature = 0.0
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            top[i] = z[0, start + i] + t * d[0, start + i]
            total[i] = 0.0
            first[i] = 0.0
            second[i] = 0.0
        for j in range(1, k):
            z_row = z[j, start : start + m]
            d_row = d[j, start : start + m]
            for i in range(m):
                top[i] = max(top[i], z_row[i] + t * d_row[i])
        for j in range(k):
            z_row = z[j, start : start + m]
            d_row = d[j, start : start + m]
            for i in range(m):
                e = _exp(z_row[i] + t * d_row[i] - top[i])
                total[i] += e
                first[i] += e * d_row[i]
                second[i] += e * d_row[i] * d_row[i]
        for i in range(m):
            label = y[start + i]
            w = weight[start + i]
            mean = first[i] / total[i]
            loss += w * (math.log(total[i]) + top[i] - z[label, start + i] - t * d[label, start + i])
            slope += w * (mean - d[label, start + i])
            curvature += w * max(second[i] / total[i] - mean * mean, 0.0)
    return loss, slope, curvature
