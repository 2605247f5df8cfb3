"""Calibration errors without bins or bandwidths: Kolmogorov-Smirnov, Kuiper and averaged two-bin.

Sort the rows by score and follow the cumulated difference `D(t) = (1/n) Σ_{s_i ≤ t} (hit_i - s_i)`, which stays near
zero when scores are calibrated. Kolmogorov-Smirnov is its largest distance from zero, Kuiper its range, so that an
excess over any interval of scores counts wherever it lies. The averaged two-bin error is the mean over all thresholds
`t` of the squared differences on both sides of it, `D(t)² + (D(1) - D(t))²`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.views import Kind, View, sort_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray


def excursion(view: View, *, kuiper: bool) -> Callable[[AnyFloatArray], float]:
    """Range of the path of cumulated residuals (Kuiper), or its largest distance from zero (Kolmogorov-Smirnov)."""
    ordered = sort_view(view)
    # Between equal scores the order is arbitrary: the path is read only where a run of equals ends.
    ends = np.append(ordered.starts[1:], len(ordered.score)) - 1

    def of_residuals(residuals: AnyFloatArray) -> float:
        path = np.cumsum(residuals[ordered.order])[ends]
        high, low = max(float(path.max()), 0.0), min(float(path.min()), 0.0)
        return high - low if kuiper else max(high, -low)

    return of_residuals


def _prepare(view: View, *, kuiper: bool) -> Statistic:
    of_residuals, excess = excursion(view, kuiper=kuiper), view.hit - view.score
    return lambda counts: of_residuals(counts * excess) / float(counts.sum())


@scalar(upper=1.0, plug_in_bias=True)
def kolmogorov_smirnov(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Kolmogorov-Smirnov calibration error: largest cumulated difference of outcomes and scores.

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov
    >>> round(kolmogorov_smirnov([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 3)
    0.175
    """
    return view_statistic(data, kind, lambda view: _prepare(view, kuiper=False))


@scalar(upper=1.0, plug_in_bias=True)
def kuiper(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Kuiper calibration error: range of the cumulated difference of outcomes and scores.

    Examples
    --------
    >>> from calibrant.metrics import kuiper
    >>> round(kuiper([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 3)
    0.2
    """
    return view_statistic(data, kind, lambda view: _prepare(view, kuiper=True))


def _prepare_two_bins(view: View) -> Statistic:
    ordered = sort_view(view)
    ends = np.append(ordered.starts[1:], len(ordered.score)) - 1
    # Thresholds up to the lowest score have all rows on one side, those above the highest on the other.
    width = np.diff(np.concatenate([[0.0], ordered.score[ordered.starts], [1.0]]))
    excess = (view.hit - view.score)[ordered.order]

    def error(counts: AnyFloatArray) -> float:
        below = np.append(0.0, np.cumsum(counts[ordered.order] * excess)[ends])
        return float(width @ (below**2 + (below[-1] - below) ** 2)) / float(counts.sum()) ** 2

    return error


@scalar(upper=1.0, plug_in_bias=True)
def two_bin_calibration_error(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Averaged two-bin calibration error: squared differences on both sides of a threshold, over all thresholds.

    `∫ ((1/n) Σ_{s<t} (hit - s))² + ((1/n) Σ_{s≥t} (hit - s))² dt` (Hartline, Hu and Wu 2025, arXiv 2508.13100). It is
    truthful: its mean over samples is smallest for the true probabilities, so no forecaster gains by reporting others;
    ECE, smooth ECE and Kuiper reward such lies in small samples. It is a square, and `Σ p (1 - p) / n²` in the mean for
    calibrated predictions, never zero: compare it on the same rows only.

    Parameters
    ----------
    kind : {"auto", "binary", "top-label", "class-wise"}, default="auto"
        Which scores are judged. "auto" is binary for two classes and class-wise for more (Lu et al. 2025, arXiv
        2510.06388); the predicted class's scores would not be truthful.

    Examples
    --------
    >>> from calibrant.metrics import two_bin_calibration_error
    >>> round(two_bin_calibration_error([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 5)
    0.02
    """
    return view_statistic(data, "class-wise" if kind == "auto" and data.n_classes > 2 else kind, _prepare_two_bins)
