"""Boosting of oblivious trees on the softmax loss, compiled by numba and cached on disk.

A tree of depth D asks D questions ``feature > threshold``, the same on every path, so that a row's leaf is a D-bit
number and a leaf holds one step for each class, the damped Newton step
``-rate Σ_i w_i (p_ij - y_ij) / (Σ_i w_i p_ij (1 - p_ij) + l2)``. Questions are searched on a few random ±1 projections
of the k gradients instead of on all of them, and on a random subset of the columns: as accurate, at a cost that hardly
grows with k.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..softmax.kernels import softmax_loss

_JIT = {"cache": True, "error_model": "numpy", "nogil": True}


@njit(**_JIT)
def _sketch(p, y, weight, out, hessian, signs):  # type: ignore[no-untyped-def]
    """Projections of the gradients on `signs` (s, k) into `out` (n, s + 1), mean curvature in the last column."""
    k, n = p.shape
    s = signs.shape[0]
    for i in range(n):
        for b in range(s):
            out[i, b] = -signs[b, y[i]]
        out[i, s] = 0.0
    for j in range(k):
        for i in range(n):
            q = p[j, i]
            h = q * (1.0 - q)
            hessian[j, i] = h
            out[i, s] += h
            for b in range(s):
                out[i, b] += signs[b, j] * q
    for i in range(n):
        for b in range(s):
            out[i, b] *= weight[i]
        out[i, s] *= weight[i] / k


@njit(**_JIT)
def _best_question(bins, n_bins, order, columns, sketch, leaf, n_leaves, l2, histogram):  # type: ignore[no-untyped-def]
    """The (feature, bin) whose split of all present leaves reduces the sketched loss most; feature -1 if none can."""
    n = bins.shape[1]
    s = sketch.shape[1] - 1
    best, feature, border = -1.0, -1, 0
    left = np.empty(s + 1)
    for a in range(columns):
        f = order[a]
        m = n_bins[f]
        if m < 2:
            continue
        histogram[:n_leaves, :m] = 0.0
        for i in range(n):
            x = leaf[i]
            c = bins[f, i]
            for b in range(s + 1):
                histogram[x, c, b] += sketch[i, b]
        score = np.zeros(m - 1)
        for x in range(n_leaves):
            total = np.zeros(s + 1)
            for c in range(m):
                for b in range(s + 1):
                    total[b] += histogram[x, c, b]
            left[:] = 0.0
            for c in range(m - 1):
                for b in range(s + 1):
                    left[b] += histogram[x, c, b]
                for b in range(s):
                    right = total[b] - left[b]
                    score[c] += left[b] ** 2 / (left[s] + l2) + right**2 / (total[s] - left[s] + l2)
        for c in range(m - 1):
            if score[c] > best:
                best, feature, border = score[c], f, c
    return feature, border


@njit(**_JIT)
def add_trees(x, features, thresholds, values, z):  # type: ignore[no-untyped-def]
    """Add the steps of trees, which ask ``x[feature] > threshold``, to the logits `z` (k, n) of `x` (columns, n)."""
    depth = features.shape[1]
    n = x.shape[1]
    leaf = np.empty(n, dtype=np.int64)
    for t in range(len(features)):
        leaf[:] = 0
        for level in range(depth):
            row = x[features[t, level]]
            threshold = thresholds[t, level]
            for i in range(n):
                if row[i] > threshold:
                    leaf[i] += 1 << level
        for j in range(z.shape[0]):
            for i in range(n):
                z[j, i] += values[t, leaf[i], j]


@njit(**_JIT)
def boost(  # type: ignore[no-untyped-def]
    bins, n_bins, borders, z, y, weight, held_x, held_z, held_y, held_weight, rounds, depth, rate, l2, columns,
    sketches, patience, seed,
):  # fmt: skip
    """Boost from logits `z` (k, n), which are overwritten; also follow the loss of held-out rows from `held_z`.

    `bins` (columns, n) numbers the intervals between the ascending `borders` (columns, most bins) of each column. Stops
    after `patience` rounds without a new best held-out loss. Returns questions (rounds, depth) as features and
    thresholds, leaf values (rounds, 2**depth, k), the held-out loss after 0, 1, ... rounds, and the rounds made.
    """
    np.random.seed(seed)  # noqa: NPY002  numba's own generator, which the caller's does not share
    k, n = z.shape
    n_features = bins.shape[0]
    leaves = 1 << depth
    sketches = min(sketches, k)
    features = np.zeros((rounds, depth), dtype=np.int64)
    thresholds = np.full((rounds, depth), np.inf)
    values = np.zeros((rounds, leaves, k))
    curve = np.zeros(rounds + 1)
    p = np.empty((k, n))
    hessian = np.empty((k, n))
    sketch = np.empty((n, sketches + 1))
    signs = np.empty((sketches, k))
    leaf = np.empty(n, dtype=np.int64)
    histogram = np.empty((leaves, n_bins.max(), sketches + 1))
    order = np.arange(n_features)
    columns = min(columns, n_features)
    curve[0] = softmax_loss(held_z.copy(), held_y, held_weight)
    best, best_round, made = curve[0], 0, 0
    for t in range(rounds):
        p[:] = z
        softmax_loss(p, y, weight)
        for b in range(sketches):
            for j in range(k):
                signs[b, j] = 1.0 if np.random.random() < 0.5 else -1.0  # noqa: NPY002
        if sketches == k:  # as many as gradients: the gradients themselves
            signs[:] = np.eye(k)
        _sketch(p, y, weight, sketch, hessian, signs)
        leaf[:] = 0
        for level in range(depth):
            for a in range(columns):
                b = a + int(np.random.random() * (n_features - a))  # noqa: NPY002
                order[a], order[b] = order[b], order[a]
            f, c = _best_question(bins, n_bins, order, columns, sketch, leaf, 1 << level, l2 / k, histogram)
            if f >= 0:
                features[t, level], thresholds[t, level] = f, borders[f, c]
                row = bins[f]
                for i in range(n):
                    if row[i] > c:
                        leaf[i] += 1 << level
        gradient_sum = np.zeros((leaves, k))
        hessian_sum = np.zeros((leaves, k))
        for i in range(n):
            gradient_sum[leaf[i], y[i]] -= weight[i]
        for j in range(k):
            for i in range(n):
                gradient_sum[leaf[i], j] += weight[i] * p[j, i]
                hessian_sum[leaf[i], j] += weight[i] * hessian[j, i]
        values[t] = -rate * gradient_sum / (hessian_sum + l2)
        for j in range(k):
            for i in range(n):
                z[j, i] += values[t, leaf[i], j]
        add_trees(held_x, features[t : t + 1], thresholds[t : t + 1], values[t : t + 1], held_z)
        made = t + 1
        curve[made] = softmax_loss(held_z.copy(), held_y, held_weight)
        if curve[made] < best:
            best, best_round = curve[made], made
        elif made - best_round >= patience:
            break
    for t in range(made + 1, rounds + 1):
        curve[t] = curve[made]
    return features, thresholds, values, curve, made
