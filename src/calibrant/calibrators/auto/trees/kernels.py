"""Boosting of oblivious trees on the softmax loss, compiled by numba and cached on disk.

A tree of depth D asks D questions ``value > threshold`` of columns or of differences of two columns, the same on every
path, so that a row's leaf is a D-bit number and a leaf holds one step for each class, the damped Newton step
``-rate Σ_i w_i (p_ij - y_ij) / (Σ_i w_i p_ij (1 - p_ij) + l2)``. Questions are searched on two random ±1 projections
of the k gradients instead of on all of them, on a random subset of the columns and on a random share of the rows: as
accurate, at a cost that hardly grows with k.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from calibrant.softmax.kernels import softmax_loss

_JIT = {"cache": True, "error_model": "numpy", "nogil": True}


@njit(**_JIT)
def _sketch(p, y, weight, signs, sketch, hessian):  # type: ignore[no-untyped-def]
    """Two projections of the gradients on `signs` (2, k) and the mean curvature of each row, into `sketch` (n, 4).

    The fourth column is padding: a row is one vector of single precision, enough to compare questions by.
    """
    k, n = p.shape
    first, second, curvature = np.zeros(n), np.zeros(n), np.zeros(n)
    for j in range(k):
        for i in range(n):
            q = p[j, i]
            h = q * (1.0 - q)
            hessian[j, i] = h
            curvature[i] += h
            first[i] += signs[0, j] * q
            second[i] += signs[1, j] * q
    for i in range(n):
        sketch[i, 0] = weight[i] * (first[i] - signs[0, y[i]])
        sketch[i, 1] = weight[i] * (second[i] - signs[1, y[i]])
        sketch[i, 2] = weight[i] * curvature[i] / k


@njit(**_JIT)
def _draw(share, seed, sample):  # type: ignore[no-untyped-def]
    """Write a random `share` of the row numbers into `sample`; returns how many. A xorshift without a branch."""
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)  # spread over all bits: small seeds start small
    limit = np.uint64(share * 2.0**64)
    m = 0
    for i in range(len(sample)):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        sample[m] = i
        m += state < limit
    return m


@njit(fastmath=True, **_JIT)
def _best_question(bins, n_bins, order, columns, sketch, leaf, rows, n_leaves, l2, histogram):  # type: ignore[no-untyped-def]
    """The (column, bin) whose split of all present leaves reduces the sketched loss most; column -1 if none can.

    Only `rows` are looked at. `histogram` (bins, leaves, 4) is work space; leaves stand side by side in it, so that the
    scan over bins is vectorised over leaves.
    """
    best, column, border = np.float32(-1.0), -1, 0
    l2 = np.float32(l2)
    total = np.zeros((3, n_leaves), dtype=np.float32)
    left = np.empty((3, n_leaves), dtype=np.float32)
    for i in rows:
        for b in range(3):
            total[b, leaf[i]] += sketch[i, b]
    for a in range(columns):
        f = order[a]
        m = n_bins[f]
        if m < 2:
            continue
        row = bins[f]
        histogram[:m, :n_leaves] = 0.0
        for i in rows:
            x, c = leaf[i], row[i]
            histogram[c, x, 0] += sketch[i, 0]
            histogram[c, x, 1] += sketch[i, 1]
            histogram[c, x, 2] += sketch[i, 2]
        left[:] = 0.0
        for c in range(m - 1):
            score = np.float32(0.0)
            for x in range(n_leaves):
                u = left[0, x] + histogram[c, x, 0]
                v = left[1, x] + histogram[c, x, 1]
                h = left[2, x] + histogram[c, x, 2]
                left[0, x], left[1, x], left[2, x] = u, v, h
                right_u, right_v, right_h = total[0, x] - u, total[1, x] - v, total[2, x] - h + l2
                h += l2
                # u²/h + v²/h on both sides, with one division for all
                score += ((u * u + v * v) * right_h + (right_u * right_u + right_v * right_v) * h) / (h * right_h)
            if score > best:
                best, column, border = score, f, c
    return column, border


@njit(**_JIT)
def add_trees(x, features, subtracted, thresholds, values, z):  # type: ignore[no-untyped-def]
    """Add the steps of trees to the logits `z` (k, n) of rows `x` (columns, n).

    A question is ``x[feature] > threshold``, or ``x[feature] - x[subtracted] > threshold`` unless `subtracted` is -1.
    """
    depth = features.shape[1]
    n = x.shape[1]
    leaf = np.empty(n, dtype=np.int64)
    for t in range(len(features)):
        leaf[:] = 0
        for level in range(depth):
            row = x[features[t, level]]
            threshold = thresholds[t, level]
            bit = 1 << level
            if subtracted[t, level] < 0:
                for i in range(n):
                    leaf[i] += bit * (row[i] > threshold)
            else:
                other = x[subtracted[t, level]]
                for i in range(n):
                    leaf[i] += bit * (row[i] - other[i] > threshold)
        _add_steps(values[t], leaf, z)


@njit(**_JIT)
def _add_steps(values, leaf, z):  # type: ignore[no-untyped-def]
    """Add to the logits `z` (k, n) the steps `values` (leaves, k) of each row's leaf."""
    for j in range(z.shape[0]):
        for i in range(len(leaf)):
            z[j, i] += values[leaf[i], j]


@njit(**_JIT)
def boost(  # type: ignore[no-untyped-def]
    bins, n_bins, z, y, weight, held_bins, held_z, held_y, held_weight, rounds, depth, rate, l2, columns, share,
    patience, seed,
):  # fmt: skip
    """Boost from logits `z` (k, n), which are overwritten; also follow the loss of held-out rows from `held_z`.

    `bins` (columns, n) and `held_bins` number the interval of each value. Stops after `patience` rounds without a new
    best held-out loss. Returns questions (rounds, depth) as columns and last bins below, leaf values
    (rounds, 2**depth, k), the held-out loss after 0, 1, ... rounds, and the rounds made.
    """
    np.random.seed(seed)  # noqa: NPY002  numba's own generator, which the caller's does not share
    k, n = z.shape
    leaves = 1 << depth
    features = np.zeros((rounds, depth), dtype=np.int64)
    borders = np.full((rounds, depth), 255, dtype=np.int64)  # above all bins: a question that nobody answers by yes
    values = np.zeros((rounds, leaves, k))
    curve = np.zeros(rounds + 1)
    p = np.empty((k, n))
    hessian = np.empty((k, n))
    sketch = np.zeros((n, 4), dtype=np.float32)
    signs = np.eye(2, k)  # two classes: the gradients themselves
    leaf, held_leaf = np.empty(n, dtype=np.int64), np.empty(len(held_y), dtype=np.int64)
    histogram = np.empty((n_bins.max(), leaves, 4), dtype=np.float32)
    order = np.arange(len(bins))
    columns = min(columns, len(bins))
    sample = np.arange(n)
    n_sample = n
    curve[0] = softmax_loss(held_z.copy(), held_y, held_weight)
    best, best_round, made = curve[0], 0, 0
    for t in range(rounds):
        p[:] = z
        softmax_loss(p, y, weight)
        if k > 2:
            for b in range(2):
                for j in range(k):
                    signs[b, j] = 1.0 if np.random.random() < 0.5 else -1.0  # noqa: NPY002
        _sketch(p, y, weight, signs, sketch, hessian)
        if share < 1.0:
            n_sample = _draw(share, np.random.randint(1, 2**31), sample)  # noqa: NPY002
        leaf[:] = 0
        held_leaf[:] = 0
        for level in range(depth):
            for a in range(columns):
                b = a + int(np.random.random() * (len(bins) - a))  # noqa: NPY002
                order[a], order[b] = order[b], order[a]
            damping = share * l2 / k
            f, c = _best_question(
                bins, n_bins, order, columns, sketch, leaf, sample[:n_sample], 1 << level, damping, histogram
            )
            if f >= 0:
                features[t, level], borders[t, level] = f, c
                bit = 1 << level
                for i in range(n):
                    leaf[i] += bit * (bins[f, i] > c)
                for i in range(len(held_y)):
                    held_leaf[i] += bit * (held_bins[f, i] > c)
        gradient_sum = np.zeros((k, leaves))
        hessian_sum = np.zeros((k, leaves))
        for i in range(n):
            gradient_sum[y[i], leaf[i]] -= weight[i]
        for j in range(k):
            for i in range(n):
                gradient_sum[j, leaf[i]] += weight[i] * p[j, i]
                hessian_sum[j, leaf[i]] += weight[i] * hessian[j, i]
        values[t] = (-rate * gradient_sum / (hessian_sum + l2)).T
        _add_steps(values[t], leaf, z)
        _add_steps(values[t], held_leaf, held_z)
        made = t + 1
        curve[made] = softmax_loss(held_z.copy(), held_y, held_weight)
        if curve[made] < best:
            best, best_round = curve[made], made
        elif made - best_round >= patience:
            break
    for t in range(made + 1, rounds + 1):
        curve[t] = curve[made]
    return features, borders, values, curve, made
