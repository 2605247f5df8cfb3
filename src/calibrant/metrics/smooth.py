"""Smooth ECE: the calibration error of kernel-smoothed outcomes, with an automatic bandwidth.

Smear the differences `hit_i - s_i` over [0, 1] by a Gaussian of width σ reflected at both ends and integrate the
absolute value: `smECE_σ = ∫ |(1/n) Σ_i (hit_i - s_i) K_σ(s_i, t)| dt`. It falls as σ grows; the measure is its fixed
point `smECE_σ = σ` (Błasiok and Nakkiran 2023). Reflected smoothing multiplies the k-th cosine coefficient by
`exp(-(πkσ)²/2)`, so each σ costs one cosine transform of a fine grid.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from calibrant.bins import sum_by
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.sums import Summed, cell_spread
from calibrant.metrics.views import Kind, View, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

GRID_CELLS = 1 << 14
SMALLEST_BANDWIDTH = 1e-6
POINTS_PER_BANDWIDTH = 64


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
