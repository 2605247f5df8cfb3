"""Kernel-smoothed reliability curve, the companion of smooth ECE.

`f(t) = t + Σ_i c_i (hit_i - s_i) K_σ(s_i, t) / Σ_i c_i K_σ(s_i, t)` with the Gaussian kernel reflected at 0 and 1 and
the bandwidth `σ` that smooth ECE finds (Błasiok and Nakkiran 2023). Smoothing the differences instead of the outcomes
leaves the curve of calibrated predictions on the diagonal. The interval at `t` is that of a weighted mean, with the
variance `Σ c_i K_i² (hit_i - f(s_i))² / (Σ c_i K_i)²`; with groups, squares of their sums are summed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from calibrant.metrics.axis import UNIT
from calibrant.metrics.curve import HISTOGRAM_BINS, ReliabilityCurve
from calibrant.metrics.scalars import public
from calibrant.metrics.smooth import Grid, smooth_error
from calibrant.metrics.tabular import check_level
from calibrant.metrics.views import Kind, shown_view
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, FloatArray

#: Places at which the curve is given.
POINTS = 201
#: The curve ends where fewer rows than this are near.
FEWEST_ROWS = 3.0
#: A narrower kernel would draw single rows.
SMALLEST_BANDWIDTH = 1e-3


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
def smooth_curve(data: Sample, *, kind: Kind = "auto", label: Any = None, level: float = 0.95) -> ReliabilityCurve:
    """Kernel-smoothed reliability curve with intervals; the bandwidth is that of smooth ECE.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label"}, default="auto"
        Which scores: the second class's of two, or the predicted class's. "auto" is binary for two classes and
        top-label for more.
    label : object, optional
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
    shown = shown_view(data, kind, label)
    score, hit = (np.asarray(part, dtype=np.float64) for part in shown.view)
    excess = data.each * (hit - score)
    error = smooth_error(Grid(score).sums(excess) / data.total)
    bandwidth = max(error, SMALLEST_BANDWIDTH)
    # Cells a sixteenth of the kernel wide: finer ones change nothing that can be seen.
    grid = Grid(score, int(2 ** np.ceil(np.log2(16 / min(bandwidth, 0.5)))))
    middle = (np.arange(grid.n_cells) + 0.5) / grid.n_cells
    at = np.linspace(0, 1, POINTS)
    at = at[(at >= score.min() - bandwidth / 2) & (at <= score.max() + bandwidth / 2)]
    at = at if len(at) > 1 else np.array([score.min(), score.max()])
    kernel = reflected_kernel(middle, at, bandwidth)
    mass = kernel @ grid.sums(data.each)
    rows = mass * bandwidth * np.sqrt(2 * np.pi)
    near = rows >= min(FEWEST_ROWS, data.total / 2)
    at, kernel, mass, rows = at[near], kernel[near], mass[near], rows[near]
    frequency = at + kernel @ grid.sums(excess) / mass
    residual = hit - np.interp(score, at, frequency)
    if data.groups is None:
        variance = kernel**2 @ grid.sums(data.each * residual**2)
    else:
        cell = np.minimum((score * grid.n_cells).astype(np.intp), grid.n_cells - 1)
        variance = np.array([np.sum(data.group_sums(row[cell] * data.each * residual) ** 2) for row in kernel])
    spread = np.sqrt(variance) / mass * float(ndtri((1 + level) / 2))
    return ReliabilityCurve(
        maker="kernel",
        lower=at,
        upper=at,
        score=at,
        frequency=np.clip(frequency, 0.0, 1.0),
        weight=rows,
        at=at,
        low=np.clip(frequency - spread, 0.0, 1.0),
        high=np.clip(frequency + spread, 0.0, 1.0),
        level=level,
        error=error,
        histogram=UNIT.histogram(score, data.each, HISTOGRAM_BINS),
        kind=shown.kind,
        label=shown.label,
        bandwidth=bandwidth,
    )
