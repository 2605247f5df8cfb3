"""Calibration errors without bins or bandwidths: Kolmogorov-Smirnov and Kuiper.

Sort the rows by score and follow the cumulated difference `D(t) = (1/n) Σ_{s_i ≤ t} (hit_i - s_i)`, which stays near
zero when scores are calibrated. Kolmogorov-Smirnov is its largest distance from zero, Kuiper its range, so that an
excess over any interval of scores counts wherever it lies.
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
