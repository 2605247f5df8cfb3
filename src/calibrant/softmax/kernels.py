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
from numba.extending import intrinsic

_CHUNK = 256
_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has trailing zeros, so that n * ln 2 is exact for the exponents that occur.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10


@intrinsic
def _bits(typingctx, x):  # type: ignore[no-untyped-def]
    """The bits of a double as an integer."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _from_bits(typingctx, bits):  # type: ignore[no-untyped-def]
    """The double that an integer's bits stand for."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@njit(inline="always", fastmath=True)
def _log(x):  # type: ignore[no-untyped-def]
    """log(x) for normal x > 0 to within two units in the last place, in a form the compiler can vectorise.

    With ``x = 2ⁿ m``, ``m`` in [1, 2), it is ``n ln 2 + 2 artanh((m − 1) / (m + 1))``, the latter by its series.
    """
    bits = _bits(np.float64(x))
    n = (bits >> 52) - 1023
    m = _from_bits((bits & 0xFFFFFFFFFFFFF) | (1023 << 52))
    u = (m - 1.0) / (m + 1.0)
    v = u * u
    p = 1.0 / 33.0
    p = p * v + 1.0 / 31.0
    p = p * v + 1.0 / 29.0
    p = p * v + 1.0 / 27.0
    p = p * v + 1.0 / 25.0
    p = p * v + 1.0 / 23.0
    p = p * v + 1.0 / 21.0
    p = p * v + 1.0 / 19.0
    p = p * v + 1.0 / 17.0
    p = p * v + 1.0 / 15.0
    p = p * v + 1.0 / 13.0
    p = p * v + 1.0 / 11.0
    p = p * v + 1.0 / 9.0
    p = p * v + 1.0 / 7.0
    p = p * v + 1.0 / 5.0
    p = p * v + 1.0 / 3.0
    p = p * v + 1.0
    return n * _LN2_HIGH + (n * _LN2_LOW + 2.0 * u * p)


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
    return p * _from_bits((np.int64(n) + 1023) << 52)


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
            loss += weight[start + i] * (_log(total[i]) + top[i] - at_label[i])
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
def add_own(z, theta, own):  # type: ignore[no-untyped-def]
    """Add to `z` (k, n) the own-class features (m, k, n) weighed by `theta` (k, m)."""
    k, n = z.shape
    for j in range(k):
        row = z[j]
        for m in range(theta.shape[1]):
            coefficient = theta[j, m]
            feature = own[m, j]
            for i in range(n):
                row[i] += coefficient * feature[i]


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def own_curvature(p, shared, own, theta, weight, out):  # type: ignore[no-untyped-def]
    """Hessian-vector product with at most one shared feature beside own-class ones, in one pass over the data.

    `p` (k, n) and `own` (m, k, n) of the classes that have coefficients, `theta` and `out` (k, d + m), `shared` (d, n).
    """
    k, n = p.shape
    d = shared.shape[0]
    moved = np.empty((k, _CHUNK), dtype=p.dtype)
    mean = np.empty(_CHUNK, dtype=p.dtype)
    out[:] = 0.0
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        mean[:] = 0.0
        for j in range(k):
            row = moved[j, :m]
            p_row = p[j, start : start + m]
            row[:] = 0.0
            for q in range(d):
                feature = shared[q, start : start + m]
                coefficient = theta[j, q]
                for i in range(m):
                    row[i] += coefficient * feature[i]
            for q in range(own.shape[0]):
                feature = own[q, j, start : start + m]
                coefficient = theta[j, d + q]
                for i in range(m):
                    row[i] += coefficient * feature[i]
            for i in range(m):
                mean[i] += p_row[i] * row[i]
        w = weight[start : start + m]
        for j in range(k):
            row = moved[j, :m]
            p_row = p[j, start : start + m]
            for i in range(m):
                row[i] = w[i] * p_row[i] * (row[i] - mean[i])
            for q in range(d):
                feature = shared[q, start : start + m]
                total = 0.0
                for i in range(m):
                    total += row[i] * feature[i]
                out[j, q] += total
            for q in range(own.shape[0]):
                feature = own[q, j, start : start + m]
                total = 0.0
                for i in range(m):
                    total += row[i] * feature[i]
                out[j, d + q] += total


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def own_sums(residual, own, out):  # type: ignore[no-untyped-def]
    """Sums over rows of residuals (k, n) times own-class features (m, k, n), into `out` (k, m)."""
    k, n = residual.shape
    for j in range(k):
        row = residual[j]
        for m in range(own.shape[0]):
            feature = own[m, j]
            total = 0.0
            for i in range(n):
                total += row[i] * feature[i]
            out[j, m] = total


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def logistic_derivatives(offset, features, theta, y, weight):  # type: ignore[no-untyped-def]
    """Loss sum, gradient and Hessian of two classes of which only the second has coefficients, in one pass."""
    d, n = features.shape
    z = np.empty(_CHUNK)
    residual = np.empty(_CHUNK)
    curvature = np.empty(_CHUNK)
    gradient = np.zeros(d)
    hessian = np.zeros((d, d))
    loss = 0.0
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            z[i] = offset[1, start + i] - offset[0, start + i]
        for q in range(d):
            row = features[q, start : start + m]
            for i in range(m):
                z[i] += theta[q] * row[i]
        for i in range(m):
            small = _exp(-abs(z[i]))
            lesser = small / (1.0 + small)
            w = weight[start + i]
            residual[i] = w * ((1.0 - lesser if z[i] > 0.0 else lesser) - y[start + i])
            curvature[i] = w * lesser * (1.0 - lesser)
            margin = -z[i] if y[start + i] == 1 else z[i]
            loss += w * (max(margin, 0.0) + (_log(1.0 + small) if small > 1e-8 else small))
        for q in range(d):
            row = features[q, start : start + m]
            total = 0.0
            for i in range(m):
                total += residual[i] * row[i]
            gradient[q] += total
            for s in range(q + 1):
                other = features[s, start : start + m]
                total = 0.0
                for i in range(m):
                    total += curvature[i] * row[i] * other[i]
                hessian[q, s] += total
    for q in range(d):
        for s in range(q):
            hessian[s, q] = hessian[q, s]
    return loss, gradient, hessian


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def scaled_dual_value(p, x, y, weight, scale):  # type: ignore[no-untyped-def]
    """Sum of ``w (H(q) + (q − onehot(y)) · x)`` at ``q = onehot(y) + scale (p − onehot(y))``; see `certificate`."""
    k, n = p.shape
    value = np.empty(_CHUNK)
    total = 0.0
    for start in range(0, n, _CHUNK):
        m = min(_CHUNK, n - start)
        value[:] = 0.0
        for j in range(k):
            p_row = p[j, start : start + m]
            x_row = x[j, start : start + m]
            for i in range(m):
                q = scale * p_row[i]
                value[i] += q * (x_row[i] - _log(max(q, 1e-300)))
        for i in range(m):
            label = y[start + i]
            x_label = x[label, start + i]
            without = scale * p[label, start + i]
            q = without + (1.0 - scale)
            value[i] -= without * (x_label - _log(max(without, 1e-300)))
            value[i] += q * (x_label - _log(max(q, 1e-300))) - x_label
            total += weight[start + i] * value[i]
    return total


@njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy", nogil=True)
def line_derivatives(z, d, t, y, weight):  # type: ignore[no-untyped-def]
    """Loss sum along the line `z + t d` and its first two derivatives in `t`."""
    k, n = d.shape
    top = np.empty(_CHUNK, dtype=z.dtype)
    total = np.empty(_CHUNK, dtype=z.dtype)
    first = np.empty(_CHUNK, dtype=z.dtype)
    second = np.empty(_CHUNK, dtype=z.dtype)
    at_label = np.empty(_CHUNK, dtype=z.dtype)
    d_label = np.empty(_CHUNK, dtype=z.dtype)
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
            at_label[i] = z[label, start + i] + t * d[label, start + i]
            d_label[i] = d[label, start + i]
        for i in range(m):
            w = weight[start + i]
            mean = first[i] / total[i]
            loss += w * (_log(total[i]) + top[i] - at_label[i])
            slope += w * (mean - d_label[i])
            curvature += w * max(second[i] / total[i] - mean * mean, 0.0)
    return loss, slope, curvature
