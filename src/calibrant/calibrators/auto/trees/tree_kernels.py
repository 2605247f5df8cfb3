"""Boosting of oblivious trees on the softmax loss, compiled by numba and cached on disk.

A tree of depth D asks D questions ``value > threshold`` of columns or of differences of two columns, the same on every
path, so that a row's leaf is a D-bit number and a leaf holds one step for each class, the damped Newton step
``-rate Σ_i w_i (p_ij - y_ij) / (Σ_i w_i p_ij (1 - p_ij) + l2)``. Questions are searched on two random ±1 projections
of the k gradients instead of on all of them, on a random subset of the columns and on a random share of the rows: as
accurate, at a cost that hardly grows with k.

Compiling is what a first fit waits for. The loop over rounds is therefore Python (`ensemble.cross_fit_trees`), and the
kernels hold loops over numbers only: arrays made, sliced or filled inside compiled code take seconds to compile.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.kernels import jit


@jit(fastmath=False)
def draw(share, seed, sample):  # type: ignore[no-untyped-def]
    """Write a random `share` of the row numbers into `sample`; returns how many. A xorshift without a branch."""
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)  # spread over all bits: small seeds start small
    limit = np.uint64(share * 2.0**64)
    m = 0
    for i in range(len(sample)):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        sample[m] = i
        m += state < limit  # type: ignore[assignment]
    return m


@jit(fastmath=False)
def project(p, y, weight, signs, rows, sketch):  # type: ignore[no-untyped-def]
    """Two projections of the gradients at `p` (k, n) on `signs` (2, k) and the mean curvature, into `sketch` (n, 4).

    A row of it is one vector of single precision, enough to compare questions by; the fourth column is padding.
    `rows` (3, n) is work space.
    """
    k, n = p.shape
    first, second, curvature = rows[0], rows[1], rows[2]
    for j in range(k):
        for i in range(n):
            q = p[j, i]
            curvature[i] += q * (1.0 - q)
            first[i] += signs[0, j] * q
            second[i] += signs[1, j] * q
    for i in range(n):
        sketch[i, 0] = weight[i] * (first[i] - signs[0, y[i]])
        sketch[i, 1] = weight[i] * (second[i] - signs[1, y[i]])
        sketch[i, 2] = weight[i] * curvature[i] / k
        first[i] = second[i] = curvature[i] = 0.0  # for the next call


@jit(fastmath=True)
def ask(  # type: ignore[no-untyped-def]
    bins, n_bins, sketch, leaf, sample, m, order, draws, columns, l2, total, left, histogram, features, borders
):
    """Find a tree's questions, at each level the (column, bin) that reduces the sketched loss most, and all leaves.

    Only the first `m` rows of `sample` are looked at, and random columns: those that `draws` (depth, columns) move to
    the front of `order`. `histogram` (bins, leaves, 4), `total` and `left` (3, leaves) are work space; leaves stand
    side by side in them, so that the scan over bins is vectorised over leaves.
    """
    l2 = np.float32(l2)
    for level in range(len(features)):
        n_leaves = 1 << level
        best, column, border = np.float32(-1.0), -1, 0
        for x in range(n_leaves):
            for b in range(3):
                total[b, x] = 0.0
        for s in range(m):
            i = sample[s]
            for b in range(3):
                total[b, leaf[i]] += sketch[i, b]
        for a in range(columns):
            b = a + int(draws[level, a] * (len(bins) - a))
            order[a], order[b] = order[b], order[a]
            f = order[a]
            row = bins[f]
            for c in range(n_bins[f]):
                for x in range(n_leaves):
                    for b in range(4):
                        histogram[c, x, b] = 0.0
            for s in range(m):
                i = sample[s]
                x, c = leaf[i], row[i]
                histogram[c, x, 0] += sketch[i, 0]
                histogram[c, x, 1] += sketch[i, 1]
                histogram[c, x, 2] += sketch[i, 2]
            for x in range(n_leaves):
                for b in range(3):
                    left[b, x] = 0.0
            for c in range(n_bins[f] - 1):
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
        if column >= 0:
            features[level], borders[level] = column, border
            for i in range(len(leaf)):
                leaf[i] += n_leaves * (bins[column, i] > border)


@jit(fastmath=False)
def step(p, y, weight, leaf, l2, rate, totals, values, z):  # type: ignore[no-untyped-def]
    """The damped Newton step of every leaf, into `values` (leaves, k), and added to the logits `z` (k, n).

    `totals` (k, 2, leaves) is work space.
    """
    k, n = p.shape
    for i in range(n):
        totals[y[i], 0, leaf[i]] -= weight[i]
    for j in range(k):
        for i in range(n):
            totals[j, 0, leaf[i]] += weight[i] * p[j, i]
            totals[j, 1, leaf[i]] += weight[i] * (p[j, i] * (1.0 - p[j, i]))
        for x in range(len(values)):
            values[x, j] = -rate * totals[j, 0, x] / (totals[j, 1, x] + l2)
            totals[j, 0, x] = totals[j, 1, x] = 0.0  # for the next call
        for i in range(n):
            z[j, i] += values[leaf[i], j]


@jit(fastmath=False)
def follow(bins, features, borders, values, leaf, z):  # type: ignore[no-untyped-def]
    """Add the steps of one tree to the logits `z` (k, n) of rows it has not seen, known by their `bins`."""
    for i in range(len(leaf)):
        leaf[i] = 0
    for level in range(len(features)):
        for i in range(len(leaf)):
            leaf[i] += (1 << level) * (bins[features[level], i] > borders[level])
    for j in range(z.shape[0]):
        for i in range(len(leaf)):
            z[j, i] += values[leaf[i], j]
