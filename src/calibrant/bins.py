"""Bins of scores in [0, 1]: equal in width or equal in mass, each closed on the right.

Bin `m` of `M` equal-width bins is `((m-1)/M, m/M]` with 0 in the first, so a score of exactly 1 belongs to the last.
Scores meet edges with 12 decimals: 0.3 belongs to (0.2, 0.3] whichever way it was rounded. Equal-mass bins cut the
cumulated weight into `M` parts; equal scores always share a bin, and weights equal repetition.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray

Strategy = Literal["uniform", "quantile"]

#: Decimals with which a score meets an edge.
EDGE_DECIMALS = 12

#: Up to this many bins, comparing with every edge is faster than a binary search.
_FEW_BINS = 40


class BinSums(NamedTuple):
    """Total weight, weighted sum of scores and weighted sum of hits in each bin."""

    weight: AnyFloatArray
    score: AnyFloatArray
    hit: AnyFloatArray


def check_bins(n_bins: int, strategy: str) -> None:
    if isinstance(n_bins, bool) or int(n_bins) != n_bins or n_bins < 1:
        raise ValueError(f"n_bins must be a positive whole number, got {n_bins!r}")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' (equal width) or 'quantile' (equal mass), got {strategy!r}")


def uniform_edges(n_bins: int) -> FloatArray:
    return np.linspace(0.0, 1.0, n_bins + 1)


def uniform_index(score: AnyFloatArray, n_bins: int) -> NDArray[np.intp]:
    """Equal-width bin of every score: `ceil(M s) - 1`, half a unit of the last decimal to the left."""
    index = np.ceil((score - 0.5 * 10.0**-EDGE_DECIMALS) * n_bins).astype(np.intp)
    index -= 1
    return np.clip(index, 0, n_bins - 1, out=index)


def edge_index(score: AnyFloatArray, inner_edges: AnyFloatArray, closed: str = "right") -> NDArray[np.intp]:
    """Bin of every score between sorted inner edges; both have been rounded to `EDGE_DECIMALS` decimals.

    `closed="left"` is for calibrators of version 0.1.0, whose bins held their left edge.
    """
    if len(inner_edges) >= _FEW_BINS:
        return np.searchsorted(inner_edges, score, side="left" if closed == "right" else "right")
    index = np.zeros(len(score), dtype=np.uint8)
    for edge in inner_edges:
        index += score > edge if closed == "right" else score >= edge
    return index.astype(np.intp)


def quantile_index(starts: AnyIntArray, n_bins: int, counts: AnyFloatArray) -> NDArray[np.intp]:
    """Equal-mass bin of every sorted score: the part of the mass in which its run of equals starts.

    `starts` are the positions at which the runs start, `counts` those of the sorted rows.
    """
    cumulated = np.cumsum(counts)
    before, total = np.concatenate([[0.0], cumulated[starts[1:] - 1]]), float(cumulated[-1])
    # The small constant keeps a boundary that is met exactly from being missed by rounding.
    of_run = np.minimum((before * (n_bins / total) + 1e-9).astype(np.intp), n_bins - 1)
    return np.repeat(of_run, np.diff(np.append(starts, len(counts))))


def quantiles(score: AnyFloatArray, weight: AnyFloatArray | None, levels: FloatArray) -> FloatArray:
    """Quantiles with linear interpolation of the sequence in which each score is repeated `weight` times."""
    if weight is None:
        return np.asarray(np.quantile(score, levels), dtype=np.float64)
    order = np.argsort(score)
    score, reached = score[order], np.cumsum(weight[order])
    position = levels * max(float(reached[-1]) - 1.0, 0.0)
    lower = np.floor(position)
    last = len(score) - 1
    below = score[np.minimum(np.searchsorted(reached, lower, side="right"), last)]
    above = score[np.minimum(np.searchsorted(reached, lower + 1.0, side="right"), last)]
    return np.asarray(below + (position - lower) * (above - below), dtype=np.float64)


def equal_mass_edges(score: AnyFloatArray, weight: AnyFloatArray, n_bins: int) -> FloatArray:
    """Inner edges of equal-mass bins of sorted distinct scores, half-way between the scores they part.

    With integer weights the bins are those of the repeated scores, of which the first few hold one more than the
    others if the number is not divisible.
    """
    reached = np.cumsum(weight)
    total = float(reached[-1])
    n_bins = max(1, min(n_bins, int(total)))
    size = np.floor(total / n_bins)
    part = np.arange(1, n_bins)
    count = part * size + np.minimum(part, total - n_bins * size)
    last = len(score) - 1
    below = score[np.minimum(np.searchsorted(reached, count, side="left"), last)]
    above = score[np.minimum(np.searchsorted(reached, count, side="right"), last)]
    edges = np.unique(0.5 * (below + above))
    return np.asarray(edges[edges < score[-1]], dtype=np.float64)


def sum_by(index: AnyIntArray, values: AnyFloatArray, size: int) -> FloatArray:
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def bin_sums(
    index: AnyIntArray, score: AnyFloatArray, hit: AnyFloatArray, counts: AnyFloatArray, n_bins: int
) -> BinSums:
    return BinSums(*(sum_by(index, part, n_bins) for part in (counts, counts * score, counts * hit)))
