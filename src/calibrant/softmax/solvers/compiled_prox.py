"""Proximal steps of all penalties in compiled form, for solvers whose inner loops are compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

RIDGE, LASSO, GROUP_LASSO, MCP = range(4)


@njit(cache=True, inline="always")
def prox_entry(t, step, code, strength, gamma):  # type: ignore[no-untyped-def]
    """The prox of a separable penalty at one entry."""
    size = abs(t)
    if code == RIDGE:
        return t / (1.0 + 2.0 * step * strength)
    if code == LASSO:
        return math.copysign(max(size - step * strength, 0.0), t)
    if step >= gamma:  # concave inside ±γs: either zero or the point itself wins
        return t if size > math.sqrt(step * gamma) * strength else 0.0
    if size > gamma * strength:
        return t
    return math.copysign(max(size - step * strength, 0.0) / (1.0 - step / gamma), t)


@njit(cache=True)
def prox_in_place(theta, step, code, strength, groups, n_groups, gamma):  # type: ignore[no-untyped-def]
    """Apply the prox of any penalty to `theta` (rows × features)."""
    rows, features = theta.shape
    if code != GROUP_LASSO:
        for j in range(rows):
            for q in range(features):
                theta[j, q] = prox_entry(theta[j, q], step, code, strength[j, q], gamma)
        return
    squares = np.zeros(n_groups)
    limits = np.zeros(n_groups)
    for j in range(rows):
        for q in range(features):
            g = groups[j, q]
            squares[g] += theta[j, q] * theta[j, q]
            limits[g] = strength[j, q]
    for g in range(n_groups):
        norm = math.sqrt(squares[g])
        squares[g] = 0.0 if norm <= step * limits[g] else 1.0 - step * limits[g] / norm
    for j in range(rows):
        for q in range(features):
            theta[j, q] *= squares[groups[j, q]]
