"""Smooth curves of outcomes: smooth ECE with its kernel and automatic bandwidth, and the integrated calibration index.

Smear the differences `hit_i - s_i` over [0, 1] by a Gaussian of width σ reflected at both ends and integrate the
absolute value: `smECE_σ = ∫ |(1/n) Σ_i (hit_i - s_i) K_σ(s_i, t)| dt`. It falls as σ grows; the measure is its fixed
point `smECE_σ = σ` (Błasiok and Nakkiran 2023). Reflected smoothing multiplies the k-th cosine coefficient by
`exp(-(πkσ)²/2)`, so each σ costs one cosine transform of a fine grid.

The reliability curve is `f(t) = t + Σ_i c_i (hit_i - s_i) K_σ(s_i, t) / Σ_i c_i K_σ(s_i, t)`, with this bandwidth or
with that of Silverman's rule if it is larger. Smoothing the differences instead of the outcomes leaves the curve of
calibrated predictions on the diagonal. The interval at `t` is that of a weighted mean, with the variance
`Σ c_i K_i² (hit_i - f(s_i))² / (Σ c_i K_i)²`; with groups, squares of their sums are summed.

The curve of the integrated calibration index is a local polynomial regression of outcomes on scores (loess, Cleveland
1979): at a score `s`, the polynomial with the least squares over the nearest `span` of all observations, with tricube
weights `(1 - (d/h)³)³` of the distance `d`, where `h` is the distance of the farthest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import ndtri

from calibrant.bins import quantile_index, sum_by
from calibrant.confidence import check_level
from calibrant.metrics.result_types import HISTOGRAM_BINS, UNIT, ReliabilityCurve
from calibrant.metrics.scalars import Form, Statistic, Summed, cell_spread, public, scalar
from calibrant.metrics.views import Kind, View, shown_view, sort_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray, Label

#: Cells of the grid: sixteen times as many change the error by less than 3e-8 of it, with 300 to 30,000 rows.
GRID_CELLS = 1 << 14
#: An error below it is given as this, or as the sum of the cells' absolute errors if that is smaller.
SMALLEST_BANDWIDTH = 1e-6
#: Points of the smoothed curve within a bandwidth: with as many as there are cells the error changes by 4e-7 of it.
POINTS_PER_BANDWIDTH = 64
#: Places at which the curve is given.
POINTS = 201
#: The curve ends where fewer rows than this are near: with three it jumps between 0 and 1.
FEWEST_ROWS = 20.0
#: A narrower kernel of the curve would draw single rows.
NARROWEST_KERNEL = 1e-3


class Grid:
    """Sums of row values over the cells of a grid on [0, 1], each value shared by the two nearest midpoints."""

    def __init__(self, score: AnyFloatArray, n_cells: int = GRID_CELLS) -> None:
        self.n_cells = n_cells
        place = np.clip(score * n_cells - 0.5, 0, n_cells - 1)
        self._left = place.astype(np.intp)
        self._share = place - self._left

    def sums(self, values: AnyFloatArray) -> FloatArray:
        right = sum_by(self._left, values * self._share, self.n_cells)
        left = sum_by(self._left, values * (1 - self._share), self.n_cells)
        left[1:] += right[:-1]
        return left


def smoothed_error(coefficients: AnyFloatArray, bandwidth: float) -> float:
    """Integral of the absolute value after reflected Gaussian smoothing, from the cosine coefficients of cell sums.

    What was smoothed has no detail finer than the bandwidth, so a coarser grid does as well.
    """
    n_fine = len(coefficients)
    n_coarse = min(n_fine, 1 << int(np.ceil(np.log2(POINTS_PER_BANDWIDTH / bandwidth))))
    frequency = np.pi * bandwidth * np.arange(n_coarse)
    values = idct(coefficients[:n_coarse] * np.exp(-0.5 * frequency**2), norm="ortho")
    return float(np.abs(values).sum() * np.sqrt(n_fine / n_coarse))


def smooth_error(cells: AnyFloatArray) -> float:
    """Fixed point of the smoothed absolute error of cell sums of `hit - score`."""
    coefficients = dct(cells, norm="ortho")

    def excess(bandwidth: float) -> float:
        return smoothed_error(coefficients, bandwidth) - bandwidth

    if excess(SMALLEST_BANDWIDTH) <= 0:
        return min(float(np.abs(cells).sum()), SMALLEST_BANDWIDTH)
    if excess(1.0) >= 0:
        return 1.0
    return float(brentq(excess, SMALLEST_BANDWIDTH, 1.0, xtol=1e-8, rtol=1e-7))


def _of_sums(sums: FloatArray) -> float:
    """Smooth ECE from the number of observations, followed by `Σ c (hit - score)` over the cells of the grid."""
    return smooth_error(sums[1:] / sums[0])


def _prepare_view(view: View) -> Statistic:
    grid = Grid(view.score)
    difference = view.hit - view.score

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.append(counts.sum(), grid.sums(counts * difference))

    form = Form(_of_sums, "distance", (slice(1, None),))
    return Summed(form, sums, lambda data: cell_spread(data, difference, grid.sums))


@scalar(upper=1.0, plug_in_bias=True, of_sums=True)
def smooth_ece(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Smooth expected calibration error, which needs no bins and no bandwidth.

    Examples
    --------
    >>> round(smooth_ece([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    >>> round(smooth_ece([0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]), 3)
    0.25
    """
    return view_statistic(data, kind, _prepare_view)


def reflected_kernel(score: AnyFloatArray, at: AnyFloatArray, bandwidth: float) -> FloatArray:
    """Gaussian kernel on [0, 1], reflected at both ends: one row for each place, one column for each score."""
    reach = 1 + int(np.ceil(4 * bandwidth))
    total = np.zeros((len(at), len(score)))
    for shift in range(-reach, reach + 1):
        for image in (score, -score):
            total += np.exp(-0.5 * ((at[:, None] - image - 2.0 * shift) / bandwidth) ** 2)
    return total / (bandwidth * np.sqrt(2 * np.pi))


@public
def smooth_curve(
    data: Sample, *, kind: Kind = "auto", pos_label: Label = None, level: float = 0.95
) -> ReliabilityCurve:
    """Kernel-smoothed reliability curve with intervals, where at least 20 rows carry it.

    The bandwidth is that of smooth ECE, or that of Silverman's rule if it is larger.

    References
    ----------
    J. Błasiok and P. Nakkiran. Smooth ECE: principled reliability diagrams via kernel smoothing. ICLR 2024.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(4000)
    >>> curve = smooth_curve((rng.random(4000) < p**2).astype(int), p)
    >>> bool(abs(curve.frequency[100] - 0.5**2) < 0.05)  # at a score of 0.5
    True
    """
    check_level(level)
    shown = shown_view(data, kind, pos_label)
    score, hit = (np.asarray(part, dtype=np.float64) for part in shown.view)
    excess = data.each * (hit - score)
    error = smooth_error(Grid(score).sums(excess) / data.total)
    mean = float(data.each @ score) / data.total
    spread = np.sqrt(float(data.each @ (score - mean) ** 2) / data.total)
    # Silverman's rule: a kernel much narrower than that draws single rows.
    bandwidth = max(error, float(1.06 * spread * data.units**-0.2), NARROWEST_KERNEL)
    # Cells a sixteenth of the kernel wide: finer ones change nothing that can be seen.
    grid = Grid(score, int(2 ** np.ceil(np.log2(16 / min(bandwidth, 0.5)))))
    middle = (np.arange(grid.n_cells) + 0.5) / grid.n_cells
    at = np.linspace(0, 1, POINTS)
    at = at[(at >= score.min() - bandwidth / 2) & (at <= score.max() + bandwidth / 2)]
    at = at if len(at) > 1 else np.array([score.min(), score.max()])
    kernel = reflected_kernel(middle, at, bandwidth)
    mass = kernel @ grid.sums(data.each)
    rows = mass * bandwidth * np.sqrt(2 * np.pi)
    near = rows >= min(FEWEST_ROWS, data.total / 10, float(rows.max()))
    at, kernel, mass, rows = at[near], kernel[near], mass[near], rows[near]
    frequency = at + kernel @ grid.sums(excess) / mass
    residual = hit - np.interp(score, at, frequency)
    if data.groups is None:
        variance = kernel**2 @ grid.sums(data.each * residual**2)
    else:
        cell = np.minimum((score * grid.n_cells).astype(np.intp), grid.n_cells - 1)
        variance = np.array([data.sum_variance(row[cell] * residual) for row in kernel])
    half = np.sqrt(variance) / mass * float(ndtri((1 + level) / 2))
    return ReliabilityCurve(
        maker="kernel",
        lower=at,
        upper=at,
        score=at,
        frequency=np.clip(frequency, 0.0, 1.0),
        weight=rows,
        at=at,
        low=np.clip(frequency - half, 0.0, 1.0),
        high=np.clip(frequency + half, 0.0, 1.0),
        level=level,
        error=error,
        histogram=UNIT.histogram(score, data.each, HISTOGRAM_BINS),
        kind=shown.kind,
        label=shown.label,
        bandwidth=bandwidth,
    )


#: Different scores up to which the curve is computed at each; more are gathered in so many cells of equal mass, which
#: changes the index of 5000 rows by less than 2e-4 (tests/metrics/test_named_measures.py).
MOST_CELLS = 200
#: Where the scores near a point are too few for a polynomial, this share of their mass makes it a mean.
_RIDGE = 1e-11


@lru_cache(maxsize=2)
def _local_regression(scores: bytes, span: float, degree: int) -> Callable[[bytes, bytes], FloatArray]:
    """The curve at scores in ascending order, for any mass and any sum of outcomes at each.

    Arrays come as bytes, so that all quantiles of the distances share one curve.
    """
    score = np.frombuffer(scores)
    offset, size = score[None, :] - score[:, None], degree + 1
    order = np.argsort(np.abs(offset), axis=1, kind="stable")
    nearest = np.take_along_axis(np.abs(offset), order, axis=1)
    place = np.arange(size)

    @lru_cache(maxsize=1)
    def curve(masses: bytes, sums: bytes) -> FloatArray:
        mass, hits = np.frombuffer(masses), np.frombuffer(sums)
        # Of n observations the nearest floor(n span) count, as in R.
        wanted = max(np.floor(mass.sum() * span + 1e-5), min(1.0, mass.sum()))
        reached = np.cumsum(mass[order], axis=1)
        last = np.minimum((reached < wanted * (1 - 1e-12)).sum(axis=1), len(mass) - 1)
        h = np.maximum(nearest[np.arange(len(mass)), last], 1e-300)[:, None]
        # Scores beyond h have no weight; where most rows have one score, h is zero and only that score counts.
        u = np.clip(offset / h, -1.0, 1.0)
        near = 1.0 - np.abs(u * u * u)
        weight = near * near * near
        moments, targets = np.empty((len(mass), 2 * size - 1)), np.empty((len(mass), size))
        for power in range(2 * size - 1):
            moments[:, power] = weight @ mass
            if power < size:
                targets[:, power] = weight @ hits
            weight *= u
        normal = moments[:, place[:, None] + place[None, :]]
        normal[:, place[1:], place[1:]] += _RIDGE * moments[:, :1]
        return np.asarray(np.linalg.solve(normal, targets[:, :, None])[:, 0, 0])

    return curve


def _prepare_index(view: View, each: AnyFloatArray, span: float, degree: int, quantile: float | None) -> Statistic:
    ordered = sort_view(view)
    if len(ordered.starts) > MOST_CELLS:
        sorted_cell = np.unique(quantile_index(ordered.starts, MOST_CELLS, each[ordered.order]), return_inverse=True)[1]
    else:
        sorted_cell = np.repeat(np.arange(len(ordered.starts)), np.diff(np.append(ordered.starts, len(each))))
    cell = np.empty(len(each), dtype=np.intp)
    cell[ordered.order] = sorted_cell
    n_cells = int(sorted_cell[-1]) + 1
    score = sum_by(cell, each * view.score, n_cells) / sum_by(cell, each, n_cells)
    curve = _local_regression(score.tobytes(), span, degree)

    def index(counts: AnyFloatArray) -> float:
        mass, hits = sum_by(cell, counts, n_cells), sum_by(cell, counts * view.hit, n_cells)
        error = np.abs(curve(mass.tobytes(), hits.tobytes()) - score)
        if quantile is None:
            return float(mass @ error / mass.sum())
        order = np.argsort(error)
        reached = np.cumsum(mass[order])
        return float(error[order[np.searchsorted(reached, quantile * reached[-1] * (1 - 1e-12))]])

    return index


@scalar(upper=1.0, plug_in_bias=True)
def integrated_calibration_index(
    data: Sample,
    *,
    kind: Kind = "auto",
    quantile: float | None = None,
    span: float = 0.75,
    degree: Literal[0, 1, 2] = 2,
) -> Statistic:
    """Integrated calibration index (ICI): mean distance between predictions and a smooth curve of the outcomes.

    `quantile=0.5`, `0.9` and `1` give E50, E90 and Emax (Austin and Steyerberg 2019; Harrell's `val.prob` calls the
    mean Eavg and smooths with `degree=1`). The curve follows chance as well as miscalibration, so the index of
    calibrated predictions is not zero; where few rows lie, at the ends, it says little, and Emax is read there.

    Parameters
    ----------
    quantile : float, optional
        A quantile of the distances instead of their mean: the smallest that this share of observations does not exceed.
    span : float, default=0.75
        Share of the observations that a point of the curve rests on.
    degree : {0, 1, 2}, default=2
        Degree of the local polynomials; R's `loess` has 2, `lowess` 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = rng.random(2000) < p**2
    >>> round(integrated_calibration_index(y, p), 2), round(integrated_calibration_index(y, p, quantile=0.9), 2)
    (0.17, 0.26)
    """
    if not 0 < span <= 1:
        raise ValueError(f"span must lie in (0, 1], got {span!r}")
    if degree not in (0, 1, 2):
        raise ValueError(f"degree must be 0, 1 or 2, got {degree!r}")
    if quantile is not None and not 0 < quantile <= 1:
        raise ValueError(f"quantile must lie in (0, 1], got {quantile!r}")
    return view_statistic(data, kind, lambda view: _prepare_index(view, data.each, span, degree, quantile))
