"""Bins of scores: equal in width or equal in mass, each closed at its right end.

Bin `m` of `M` equal-width bins is `((m-1)/M, m/M]` with 0 in the first, so a score of exactly 1 belongs to the last.
Equal-mass bins cut the cumulated weight into `M` parts; equal scores always share a bin.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from calibrant.metrics.inputs import FloatArray, IntArray
from calibrant.metrics.views import SortedView, View, sort_view

Strategy = Literal["uniform", "quantile"]


class BinSums(NamedTuple):
    """Total weight, weighted sum of scores and weighted sum of hits in each bin."""

    weight: FloatArray
    score: FloatArray
    hit: FloatArray


def check_bins(n_bins: int, strategy: str) -> None:
    if isinstance(n_bins, bool) or int(n_bins) != n_bins or n_bins < 1:
        raise ValueError(f"n_bins must be a positive whole number, got {n_bins!r}")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' (equal width) or 'quantile' (equal mass), got {strategy!r}")


def uniform_edges(n_bins: int) -> FloatArray:
    return np.linspace(0.0, 1.0, n_bins + 1)


def uniform_index(score: FloatArray, n_bins: int) -> IntArray:
    """Equal-width bin of every score: `ceil(M s) - 1`, put right where rounding crossed an edge."""
    edges = uniform_edges(n_bins)
    index = np.clip(np.ceil(score * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    index -= (score <= edges[index]) & (index > 0)
    index += score > edges[index + 1]
    return np.minimum(index, n_bins - 1)


def quantile_index(ordered: SortedView, n_bins: int, weight: FloatArray | None) -> IntArray:
    """Equal-mass bin of every score in sorted order: the part of the mass in which its run of equals starts."""
    n_rows = len(ordered.score)
    if weight is None:
        before = ordered.starts.astype(np.float64)
        total = float(n_rows)
    else:
        cumulated = np.cumsum(weight[ordered.order])
        before = np.concatenate([[0.0], cumulated[ordered.starts[1:] - 1]])
        total = float(cumulated[-1])
    # The small constant keeps a boundary that is met exactly from being missed by rounding.
    of_run = np.minimum((before * (n_bins / total) + 1e-9).astype(np.intp), n_bins - 1)
    lengths = np.diff(np.append(ordered.starts, n_rows))
    return np.repeat(of_run, lengths)


def sum_by(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sum of the values of each index."""
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def bin_sums(index: IntArray, score: FloatArray, hit: FloatArray, weight: FloatArray | None, n_bins: int) -> BinSums:
    """Sums over each bin."""
    if weight is None:
        return BinSums(
            np.bincount(index, minlength=n_bins).astype(np.float64),
            sum_by(index, score, n_bins),
            sum_by(index, hit, n_bins),
        )
    return BinSums(
        sum_by(index, weight, n_bins), sum_by(index, weight * score, n_bins), sum_by(index, weight * hit, n_bins)
    )


class Binner:
    """Sums over the bins of one view for any weights, with the work that weights do not change done once."""

    def __init__(self, view: View, n_bins: int, strategy: str) -> None:
        check_bins(n_bins, strategy)
        self.n_bins = int(n_bins)
        self.strategy = strategy
        self.view = view
        if strategy == "uniform":
            self._index = uniform_index(view.score, self.n_bins)
        else:
            self._ordered = sort_view(view)

    def sums(self, weight: FloatArray | None) -> BinSums:
        if self.strategy == "uniform":
            return bin_sums(self._index, self.view.score, self.view.hit, weight, self.n_bins)
        ordered = self._ordered
        index = quantile_index(ordered, self.n_bins, weight)
        moved = None if weight is None else weight[ordered.order]
        return bin_sums(index, ordered.score, ordered.hit, moved, self.n_bins)

    def edges(self, weight: FloatArray | None) -> FloatArray:
        """Ends of all equal-width bins, or of the occupied equal-mass bins, which part half-way between scores."""
        if self.strategy == "uniform":
            return uniform_edges(self.n_bins)
        index = quantile_index(self._ordered, self.n_bins, weight)
        last = np.flatnonzero(np.diff(index))
        score = self._ordered.score
        return np.concatenate([[0.0], (score[last] + score[last + 1]) / 2, [1.0]])
