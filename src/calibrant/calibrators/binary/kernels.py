"""Compiled loops of the non-parametric calibrators, and only those; import this module where it is used."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from calibrant.softmax.kernels import _exp, _log
from calibrant.typing import FloatArray

#: Rows handled at a time, in the first-level cache.
_CHUNK = 256

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


@numba.njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy")
def spline_logistic(
    starts: IntArray,
    coefficients: FloatArray,
    target: FloatArray,
    weight: FloatArray,
    extended: FloatArray,
    hessian: FloatArray,
    gradient: FloatArray,
) -> float:
    """Log loss of a spline's log-odds, with its local derivatives.

    Rows ``starts[j]`` to ``starts[j + 1]`` lie in interval j, where the log-odds are ``c · e_j`` with four local
    coefficients c (columns of `coefficients`) and ``e_j = extended[j]``, the values and second derivatives at both
    ends. `hessian` (intervals, 4, 4; lower triangle) and `gradient` (intervals, 4) are overwritten.
    """
    residual = np.empty(_CHUNK)
    curvature = np.empty(_CHUNK)
    hessian[:] = 0.0
    gradient[:] = 0.0
    loss = 0.0
    for j in range(len(starts) - 1):
        e0, e1, e2, e3 = extended[j]
        for start in range(starts[j], starts[j + 1], _CHUNK):
            m = min(_CHUNK, starts[j + 1] - start)
            c0 = coefficients[0, start : start + m]
            c1 = coefficients[1, start : start + m]
            c2 = coefficients[2, start : start + m]
            c3 = coefficients[3, start : start + m]
            t = target[start : start + m]
            w = weight[start : start + m]
            for i in range(m):
                z = c0[i] * e0 + c1[i] * e1 + c2[i] * e2 + c3[i] * e3
                small = _exp(-abs(z))
                lesser = small / (1.0 + small)
                residual[i] = w[i] * ((1.0 - lesser if z > 0.0 else lesser) - t[i])
                curvature[i] = w[i] * lesser * (1.0 - lesser)
                loss += w[i] * (max(z, 0.0) + _log(1.0 + small) - t[i] * z)
            for a in range(4):
                row = coefficients[a, start : start + m]
                total = 0.0
                for i in range(m):
                    total += residual[i] * row[i]
                gradient[j, a] += total
                for b in range(a + 1):
                    other = coefficients[b, start : start + m]
                    total = 0.0
                    for i in range(m):
                        total += curvature[i] * row[i] * other[i]
                    hessian[j, a, b] += total
    return loss


@numba.njit(cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy")
def spline_loss(
    starts: IntArray, coefficients: FloatArray, target: FloatArray, weight: FloatArray, extended: FloatArray
) -> float:
    """Log loss of a spline's log-odds, for rows as in `spline_logistic`."""
    loss = 0.0
    for j in range(len(starts) - 1):
        for i in range(starts[j], starts[j + 1]):
            z = coefficients[0, i] * extended[j, 0] + coefficients[1, i] * extended[j, 1]
            z += coefficients[2, i] * extended[j, 2] + coefficients[3, i] * extended[j, 3]
            loss += weight[i] * (max(z, 0.0) + _log(1.0 + _exp(-abs(z))) - target[i] * z)
    return loss
