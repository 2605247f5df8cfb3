"""Compiled loops of the non-parametric calibrators, and only those; import this module where it is used."""

from __future__ import annotations

import numpy as np

from calibrant.softmax.kernels import exp, jit, log
from calibrant.typing import FloatArray, IntArray

#: Rows handled at a time, in the first-level cache; unsigned as in `calibrant.softmax.kernels`.
_CHUNK = np.uint64(256)


def bridge_slopes(weight: FloatArray, positive: FloatArray) -> FloatArray:
    """Isotonic value of a positive row of weight one put before group i, for i = 0 ... m.

    With cumulative sums P_i = (W_i, S_i), it is the slope of the greatest convex minorant where it crosses from the
    points P_0 ... P_i to the points P_i+1 ... P_m moved by (1, 1): the common lower tangent of their two lower
    hulls. As i grows the slope does too, so both tangent points only move to the right and all slopes together
    cost O(m).
    """
    m = len(weight)
    w, s, slope = np.zeros(m + 1), np.zeros(m + 1), np.ones(m + 1)
    np.cumsum(weight, out=w[1:])
    np.cumsum(positive, out=s[1:])
    _bridge_slopes(w, s, slope, np.full(m + 1, m), np.zeros(m + 1, dtype=np.int64))
    return slope


@jit(fastmath=False)
def _bridge_slopes(w, s, slope, after, hull):  # type: ignore[no-untyped-def]
    """`after`, the next vertex on the lower hull of points i ... m, and `hull`, of points 0 ... i, are work space."""
    m = len(w) - 1
    for i in range(m - 1, -1, -1):
        j = i + 1
        while j != m and (s[j] - s[i]) * (w[after[j]] - w[i]) >= (s[after[j]] - s[i]) * (w[j] - w[i]):
            j = after[j]
        after[i] = j

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
            # Differences first: beside sums of 1e16 the row of weight one would be lost.
            dw = (w[v] - w[left]) + 1.0
            ds = (s[v] - s[left]) + 1.0
            while v < m:
                nw = (w[after[v]] - w[left]) + 1.0
                ns = (s[after[v]] - s[left]) + 1.0
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
    ends. `hessian` (intervals, 4, 4) and `gradient` (intervals, 4) are overwritten.
    """
    hessian[:] = 0.0
    gradient[:] = 0.0
    buffer = np.empty((2, _CHUNK))
    return float(_spline_logistic(starts, coefficients, target, weight, extended, buffer, hessian, gradient))


@jit()
def _spline_logistic(starts, coefficients, target, weight, extended, buffer, hessian, gradient):  # type: ignore[no-untyped-def]
    residual, curvature = buffer[0], buffer[1]
    loss = 0.0
    for j in range(len(starts) - 1):
        e0, e1, e2, e3 = extended[j, 0], extended[j, 1], extended[j, 2], extended[j, 3]
        stop = np.uint64(starts[j + 1])
        for start in range(np.uint64(starts[j]), stop, _CHUNK):
            m = min(_CHUNK, stop - start)
            for i in range(m):
                r = start + i
                z = (
                    coefficients[0, r] * e0
                    + coefficients[1, r] * e1
                    + coefficients[2, r] * e2
                    + coefficients[3, r] * e3
                )
                small = exp(-abs(z))
                lesser = small / (1.0 + small)
                residual[i] = weight[r] * ((1.0 - lesser if z > 0.0 else lesser) - target[r])
                curvature[i] = weight[r] * lesser * (1.0 - lesser)
                loss += weight[r] * (max(z, 0.0) + log(1.0 + small) - target[r] * z)
            for a in range(4):
                total = 0.0
                for i in range(m):
                    total += residual[i] * coefficients[a, start + i]
                gradient[j, a] += total
                for b in range(a + 1):
                    total = 0.0
                    for i in range(m):
                        total += curvature[i] * coefficients[a, start + i] * coefficients[b, start + i]
                    hessian[j, a, b] += total
                    hessian[j, b, a] = hessian[j, a, b]
    return loss
