"""Compiled loops of the non-parametric calibrators, and only those; import this module where it is used."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ..simplex import FloatArray

IntArray = NDArray[np.int64]


@numba.njit(cache=True)
def bridge_slopes(weight: FloatArray, positive: FloatArray) -> FloatArray:
    """Isotonic value of a positive row of weight one put before group i, for i = 0 ... m.

    With cumulative sums P_i = (W_i, S_i), it is the slope of the greatest convex minorant where it crosses from the
    points P_0 ... P_i to the points P_i+1 ... P_m moved by (1, 1): the common lower tangent of their two lower
    hulls. As i grows the slope does too, so both tangent points only move to the right and all slopes together
    cost O(m).
    """
    m = len(weight)
    w = np.zeros(m + 1)
    s = np.zeros(m + 1)
    for i in range(m):
        w[i + 1] = w[i] + weight[i]
        s[i + 1] = s[i] + positive[i]

    after = np.zeros(m + 1, dtype=np.int64)  # the next vertex on the lower hull of points i ... m
    after[m] = m
    for i in range(m - 1, -1, -1):
        j = i + 1
        while j != m and (s[j] - s[i]) * (w[after[j]] - w[i]) >= (s[after[j]] - s[i]) * (w[j] - w[i]):
            j = after[j]
        after[i] = j

    slope = np.ones(m + 1)
    hull = np.zeros(m + 1, dtype=np.int64)  # the lower hull of points 0 ... i, as a stack
    top = -1
    u = 0
    v = 1
    for i in range(m):
        while top >= 1:
            a = hull[top - 1]
            b = hull[top]
            if (s[b] - s[a]) * (w[i] - w[a]) < (s[i] - s[a]) * (w[b] - w[a]):
                break
            top -= 1
        top += 1
        hull[top] = i
        u = min(u, top)
        v = max(v, i + 1)
        while True:
            left = hull[u]
            dw = w[v] + 1.0 - w[left]
            ds = s[v] + 1.0 - s[left]
            while v < m:
                nw = w[after[v]] + 1.0 - w[left]
                ns = s[after[v]] + 1.0 - s[left]
                if ns * dw > ds * nw:
                    break
                v = after[v]
                dw = nw
                ds = ns
            if u < top and (s[hull[u + 1]] - s[left]) * dw < ds * (w[hull[u + 1]] - w[left]):
                u += 1
            else:
                break
        slope[i] = ds / dw
    return slope


@numba.njit(cache=True)
def spline_logistic(
    interval: IntArray,
    coefficients: FloatArray,
    target: FloatArray,
    weight: FloatArray,
    fold: IntArray,
    left_out: int,
    extended: FloatArray,
    hessian: FloatArray,
    gradient: FloatArray,
) -> float:
    """Log loss of a spline's log-odds over the rows outside fold `left_out`, with its local derivatives.

    A point in interval j has log-odds ``c · e_j`` with four local coefficients c and ``e_j = extended[j]``, the
    values and second derivatives at both ends. `hessian` (intervals, 4, 4; lower triangle) and `gradient`
    (intervals, 4) are overwritten. Rows are sorted by interval, so sums stay in registers within one.
    """
    hessian[:] = 0.0
    gradient[:] = 0.0
    loss = 0.0
    n = len(target)
    i = 0
    while i < n:
        j = interval[i]
        e0, e1, e2, e3 = extended[j]
        g0 = g1 = g2 = g3 = 0.0
        h00 = h10 = h11 = h20 = h21 = h22 = h30 = h31 = h32 = h33 = 0.0
        while i < n and interval[i] == j:
            if fold[i] == left_out:
                i += 1
                continue
            c0 = coefficients[i, 0]
            c1 = coefficients[i, 1]
            c2 = coefficients[i, 2]
            c3 = coefficients[i, 3]
            z = c0 * e0 + c1 * e1 + c2 * e2 + c3 * e3
            e = np.exp(-abs(z))
            q = 1.0 / (1.0 + e)
            p = q if z >= 0.0 else e * q
            loss += weight[i] * (max(z, 0.0) - np.log(q) - target[i] * z)
            r = weight[i] * (p - target[i])
            v = weight[i] * e * q * q
            g0 += r * c0
            g1 += r * c1
            g2 += r * c2
            g3 += r * c3
            h00 += v * c0 * c0
            h10 += v * c1 * c0
            h11 += v * c1 * c1
            v2 = v * c2
            h20 += v2 * c0
            h21 += v2 * c1
            h22 += v2 * c2
            v3 = v * c3
            h30 += v3 * c0
            h31 += v3 * c1
            h32 += v3 * c2
            h33 += v3 * c3
            i += 1
        gradient[j] += np.array([g0, g1, g2, g3])
        hessian[j, 0, 0] += h00
        hessian[j, 1, 0] += h10
        hessian[j, 1, 1] += h11
        hessian[j, 2, 0] += h20
        hessian[j, 2, 1] += h21
        hessian[j, 2, 2] += h22
        hessian[j, 3, 0] += h30
        hessian[j, 3, 1] += h31
        hessian[j, 3, 2] += h32
        hessian[j, 3, 3] += h33
    return loss


@numba.njit(cache=True)
def spline_fold_loss(
    interval: IntArray,
    coefficients: FloatArray,
    target: FloatArray,
    weight: FloatArray,
    fold: IntArray,
    chosen: int,
    extended: FloatArray,
) -> float:
    """Log loss of a spline's log-odds over the rows of one fold."""
    loss = 0.0
    for i in range(len(target)):
        if fold[i] == chosen:
            z = 0.0
            for a in range(4):
                z += coefficients[i, a] * extended[interval[i], a]
            loss += weight[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z))) - target[i] * z)
    return loss
