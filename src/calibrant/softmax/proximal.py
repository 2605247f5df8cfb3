"""The proximal operators of all penalties, compiled: each is written here once, for NumPy and for compiled solvers.

A penalty is either a sum over coefficients or a sum over groups of coefficients. The sums over coefficients are all of
one form, ``a |t| + b t² / 2`` up to ``|t| = c`` and constant beyond: ridge has only ``b``, lasso only ``a``, and MCP
has ``a = s``, ``b = −1/γ``, ``c = γ s``.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.compiling import compiled


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
