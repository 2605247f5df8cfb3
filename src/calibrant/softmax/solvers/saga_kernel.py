"""The compiled inner loop of SAGA."""

from __future__ import annotations

import math

import numpy as np

from calibrant.compiling import compiled
from calibrant.softmax.proximal import prox_in_place


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
