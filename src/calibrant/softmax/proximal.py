"""The proximal operators of all penalties, and the loops of solvers that call them: all that is compiled for them.

A penalty is either a sum over coefficients or a sum over groups of coefficients. The sums over coefficients are all of
one form, ``a |t| + b t² / 2`` up to ``|t| = c`` and constant beyond: ridge has only ``b``, lasso only ``a``, and MCP
has ``a = s``, ``b = −1/γ``, ``c = γ s``.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.compiling import compiled
from calibrant.softmax.problem import FLATTEST


@compiled(inline="always")
def prox_entry(t, step, slope, curvature, reach):  # type: ignore[no-untyped-def]
    """The minimiser of ``(x − t)² / 2 + step · (slope |x| + curvature x² / 2, constant beyond |x| = reach)``."""
    size = abs(t)
    bend = 1.0 + step * curvature
    if bend <= 0.0:  # concave up to the reach: either zero or the point itself wins
        return t if size * size > 2.0 * step * reach * (slope + curvature * reach / 2.0) else 0.0
    if size > reach:
        return t
    shrunk = max(size - step * slope, 0.0)
    return math.copysign(shrunk if curvature == 0.0 else shrunk / bend, t)


@compiled()
def prox_in_place(theta, step, slope, curvature, reach, groups, group_strength):  # type: ignore[no-untyped-def]
    """Apply a penalty's prox to `theta` (rows × features); without groups (none has a strength) to each entry."""
    rows, features = theta.shape
    if len(group_strength) == 0:
        for j in range(rows):
            for q in range(features):
                theta[j, q] = prox_entry(theta[j, q], step, slope[j, q], curvature[j, q], reach[j, q])
        return
    factor = np.zeros(len(group_strength))
    for j in range(rows):
        for q in range(features):
            factor[groups[j, q]] += theta[j, q] * theta[j, q]
    for g in range(len(group_strength)):
        norm, least = math.sqrt(factor[g]), step * group_strength[g]
        factor[g] = 0.0 if norm <= least else 1.0 - least / norm
    for j in range(rows):
        for q in range(features):
            theta[j, q] *= factor[groups[j, q]]


@compiled(error_model="numpy", nogil=True)
def epoch(rows, theta, table, mean, offset, shared, own, y, weight, first, step, penalty):  # type: ignore[no-untyped-def]
    """One pass of SAGA steps over the drawn `rows`; matrices are row-major, (n, ...), `penalty` is its description."""
    n, k = offset.shape
    d = shared.shape[1]
    free = theta.shape[0]
    z = np.empty(k)
    for i in rows:
        top = -np.inf
        for j in range(k):
            value = offset[i, j]
            if j >= first:
                for q in range(d):
                    value += theta[j - first, q] * shared[i, q]
                for m in range(own.shape[2]):
                    value += theta[j - first, d + m] * own[i, j, m]
            z[j] = value
            top = max(top, value)
        total = 0.0
        for j in range(k):
            z[j] = math.exp(z[j] - top)
            total += z[j]
        for j in range(free):
            new = z[j + first] / total - (1.0 if y[i] == j + first else 0.0)
            change = new - table[i, j]
            table[i, j] = new
            sampled = step * change * weight[i] * n
            averaged = change * weight[i]
            for q in range(d):
                theta[j, q] -= sampled * shared[i, q] + step * mean[j, q]
                mean[j, q] += averaged * shared[i, q]
            for m in range(own.shape[2]):
                theta[j, d + m] -= sampled * own[i, j + first, m] + step * mean[j, d + m]
                mean[j, d + m] += averaged * own[i, j + first, m]
        prox_in_place(theta, step, *penalty)


@compiled(error_model="numpy", nogil=True, fastmath={"contract", "reassoc"})
def descend(x, hessian, gradient, slope, curvature, reach, accuracy, most_sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on the quadratic model from `x`, where the model's gradient is `gradient`."""
    n = len(x)
    for _ in range(most_sweeps):
        decrease = 0.0
        largest = 0.0
        for c in range(n):
            h = max(hessian[c, c], FLATTEST)  # rounding may have left it below zero
            new = prox_entry(x[c] - gradient[c] / h, 1.0 / h, slope[c], curvature[c], reach[c])
            change = new - x[c]
            if change != 0.0:
                x[c] = new
                row = hessian[c]
                for i in range(n):
                    gradient[i] += change * row[i]
                decrease += h * change * change
                largest = max(largest, abs(change))
        if decrease <= accuracy * accuracy and largest <= accuracy:
            return True
    return False
