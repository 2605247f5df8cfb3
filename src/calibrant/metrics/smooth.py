"""Smooth ECE, the calibration error of kernel-smoothed outcomes with an automatic bandwidth, and their curve.

Smear the differences `hit_i - s_i` over [0, 1] by a Gaussian of width σ reflected at both ends and integrate the
absolute value: `smECE_σ = ∫ |(1/n) Σ_i (hit_i - s_i) K_σ(s_i, t)| dt`. It falls as σ grows; the measure is its fixed
point `smECE_σ = σ` (Błasiok and Nakkiran 2023). Reflected smoothing multiplies the k-th cosine coefficient by
`exp(-(πkσ)²/2)`, so each σ costs one cosine transform of a fine grid.

The reliability curve is `f(t) = t + Σ_i c_i (hit_i - s_i) K_σ(s_i, t) / Σ_i c_i K_σ(s_i, t)`, with this bandwidth or
with that of Silverman's rule if it is larger. Smoothing the differences instead of the outcomes leaves the curve of
calibrated predictions on the diagonal. The interval at `t` is that of a weighted mean, with the variance
`Σ c_i K_i² (hit_i - f(s_i))² / (Σ c_i K_i)²`; with groups, squares of their sums are summed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import ndtri

from calibrant.bins import sum_by
from calibrant.metrics.axis import UNIT
from calibrant.metrics.curve import HISTOGRAM_BINS, ReliabilityCurve
from calibrant.metrics.scalars import Statistic, public, scalar
from calibrant.metrics.sums import Summed, cell_spread
from calibrant.metrics.tabular import check_level
from calibrant.metrics.views import Kind, View, shown_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

GRID_CELLS = 1 << 14
SMALLEST_BANDWIDTH = 1e-6
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
        self._left = np.minimum(place.astype(np.intp), n_cells - 2)
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


class SmoothError:
    """Smooth ECE from the number of observations, followed by `Σ c (hit - score)` over the cells of the grid."""

    def value(self, sums: FloatArray) -> float:
        return smooth_error(sums[1:] / sums[0])

    def moved(self, sums: FloatArray, by: FloatArray) -> FloatArray:
        return np.append(sums[0], sums[1:] + by)


def _prepare_view(view: View) -> Statistic:
    grid = Grid(view.score)
    difference = view.hit - view.score

    def sums(counts: AnyFloatArray) -> FloatArray:
        return np.append(counts.sum(), grid.sums(counts * difference))

    return Summed(SmoothError(), sums, lambda data: cell_spread(data, difference, grid.sums))


@scalar(upper=1.0, plug_in_bias=True, of_sums=True)
def smooth_ece(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Smooth expected calibration error, which needs no bins and no bandwidth.

    Examples
    --------
    >>> from calibrant.metrics import smooth_ece
    >>> round(smooth_ece([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    >>> round(smooth_ece([0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]), 3)
    0.25
    """
    return view_statistic(data, kind, _prepare_view)


def reflected_kernel(score: AnyFloatArray, at: AnyFloatArray, bandwidth: float) -> FloatArray:
    """Gaussian kernel on [0, 1], reflected at both ends: one row for each place, one column for each score.

    Examples
    --------
    >>> at = (np.arange(1000) + 0.5) / 1000
    >>> float(reflected_kernel(np.array([0.01]), at, 0.2).mean().round(6))
    1.0
    """
    reach = 1 + int(np.ceil(4 * bandwidth))
    total = np.zeros((len(at), len(score)))
    for shift in range(-reach, reach + 1):
        for image in (score, -score):
            total += np.exp(-0.5 * ((at[:, None] - image - 2.0 * shift) / bandwidth) ** 2)
    return total / (bandwidth * np.sqrt(2 * np.pi))


@public
def smooth_curve(data: Sample, *, kind: Kind = "auto", pos_label: Any = None, level: float = 0.95) -> ReliabilityCurve:
    """Kernel-smoothed reliability curve with intervals, where at least 20 rows carry it.

    The bandwidth is that of smooth ECE, or that of Silverman's rule if it is larger.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label"}, default="auto"
        Which scores: the second class's of two, or the predicted class's. "auto" is binary for two classes and
        top-label for more.
    pos_label : object, optional
        Judge this class against the rest instead.

    References
    ----------
    J. Błasiok and P. Nakkiran. Smooth ECE: principled reliability diagrams via kernel smoothing. ICLR 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import smooth_curve
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
