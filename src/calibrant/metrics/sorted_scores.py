"""Metrics of rows sorted by score: calibration errors without bins or bandwidths, and how well scores rank.

Follow the cumulated difference `D(t) = (1/n) Σ_{s_i ≤ t} (hit_i - s_i)`, which stays near zero when scores are
calibrated. Kolmogorov-Smirnov is its largest distance from zero, Kuiper its range, so that an excess over any interval
of scores counts wherever it lies. The averaged two-bin error is the mean of `D(t)² + (D(1) - D(t))²` over thresholds.

AUROC of one class is the probability that a random row of the class is scored above a random other row, ties counting
half. With `M_i` the weight of all rows scored below row `i` plus half of those scored equally (itself included), and
`P` and `N` the weights of the class and of the rest, it is `(Σ_{i in class} w_i M_i - P²/2) / (P N)`: among themselves,
the rows of the class contribute `P²/2` in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from calibrant.bins import sum_by
from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.views import Kind, View, class_view, sort_view, view_statistic
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray

#: Products of up to three sums above this are ordinary numbers.
_TINY = 1e-100


def excursion(view: View, *, kuiper: bool) -> Callable[[AnyFloatArray], float]:
    """Range of the path of cumulated residuals (Kuiper), or its largest distance from zero (Kolmogorov-Smirnov)."""
    ordered = sort_view(view)

    def of_residuals(residuals: AnyFloatArray) -> float:
        # Between equal scores the order is arbitrary: the path is read only where a run of equals ends.
        path = np.cumsum(residuals[ordered.order])[ordered.ends]
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
    >>> round(kolmogorov_smirnov([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 3)
    0.175
    """
    return view_statistic(data, kind, partial(_prepare, kuiper=False))


@scalar(upper=1.0, plug_in_bias=True)
def kuiper(data: Sample, *, kind: Kind = "auto") -> Statistic:
    """Kuiper calibration error: range of the cumulated difference of outcomes and scores.

    Examples
    --------
    >>> round(kuiper([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 3)
    0.2
    """
    return view_statistic(data, kind, partial(_prepare, kuiper=True))


def _in_range(counts: AnyFloatArray) -> AnyFloatArray:
    """Counts whose products do not vanish: tiny ones are scaled by a power of two, which changes no digit."""
    total = float(counts.sum())
    return counts if total > _TINY else np.ldexp(counts, -int(np.frexp(total)[1]))


def _prepare_two_bins(view: View) -> Statistic:
    ordered = sort_view(view)
    # Thresholds up to the lowest score have all rows on one side, those above the highest on the other.
    width = np.diff(np.concatenate([[0.0], ordered.score[ordered.starts], [1.0]]))
    excess = (view.hit - view.score)[ordered.order]

    def error(counts: AnyFloatArray) -> float:
        counts = _in_range(counts)
        below = np.append(0.0, np.cumsum(counts[ordered.order] * excess)[ordered.ends])
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
    >>> round(two_bin_calibration_error([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9]), 5)
    0.02
    """
    return view_statistic(data, "class-wise" if kind == "auto" and data.n_classes > 2 else kind, _prepare_two_bins)


Average = Literal["macro", "weighted"]


def _prepare_one(view: View) -> Statistic:
    ordered = sort_view(view)
    n_rows = len(ordered.score)
    positive = np.flatnonzero(ordered.hit)
    # The run of equal scores in which each positive row stands: where it starts, and where the next one starts.
    run = np.searchsorted(ordered.starts, positive, side="right") - 1
    start, stop = ordered.starts[run], np.append(ordered.starts, n_rows)[run + 1]
    rows = ordered.order[positive]

    def area(counts: AnyFloatArray) -> float:
        counts = _in_range(counts)
        below = np.zeros(n_rows + 1)
        np.cumsum(counts[ordered.order], out=below[1:])
        own = counts[rows]
        total = float(own.sum())
        pairs = total * (float(below[-1]) - total)
        if pairs <= 0:
            return float("nan")
        return float((own @ (below[start] + below[stop]) - total**2) / 2 / pairs)

    return area


def _over_classes(data: Sample, average: str, prepare: Callable[[View], Statistic]) -> Statistic:
    """Mean over the classes that have a value, those that occur in some rows and not in others."""
    if average not in ("macro", "weighted"):
        raise ValueError(f"average must be 'macro' or 'weighted', got {average!r}")
    columns = [1] if data.n_classes == 2 else range(data.n_classes)
    parts = [prepare(class_view(data, column)) for column in columns]

    def mean(counts: AnyFloatArray) -> float:
        values = np.array([part(counts) for part in parts])
        if average == "macro" or len(values) == 1:
            share = np.ones(len(values))
        else:
            share = sum_by(data.y, counts, data.n_classes)
        known = np.isfinite(values)
        return float(values[known] @ share[known] / share[known].sum()) if known.any() else float("nan")

    return mean


@scalar(upper=1.0, by_class=True)
def auroc(data: Sample, *, average: Average = "macro") -> Statistic:
    """Area under the ROC curve, one-vs-rest averaged over classes.

    Classes that do not occur have no curve and are left out of the average; with a single class observed the result
    is NaN.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return _over_classes(data, average, _prepare_one)


@scalar(lower=-1.0, upper=1.0, by_class=True)
def gini(data: Sample, *, average: Average = "macro") -> Statistic:
    """Gini coefficient of the ranking, `2 AUROC - 1`: 0 for uninformative scores, 1 for a perfect ranking.

    It is the accuracy ratio of credit risk. It says nothing about calibration: any increasing map of the scores
    leaves it unchanged, and its value depends on how varied the rows are, so compare it only on the same portfolio.

    Examples
    --------
    >>> gini([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.5
    """
    area = _over_classes(data, average, _prepare_one)
    return lambda counts: 2.0 * area(counts) - 1.0


def _prepare_separation(view: View) -> Statistic:
    ordered = sort_view(view)

    def separation(counts: AnyFloatArray) -> float:
        own = counts[ordered.order]
        hit, miss = np.cumsum(own * ordered.hit), np.cumsum(own * (1.0 - ordered.hit))
        if hit[-1] <= 0 or miss[-1] <= 0:
            return float("nan")
        return float(np.abs(hit / hit[-1] - miss / miss[-1])[ordered.ends].max())

    return separation


@scalar(upper=1.0, plug_in_bias=True, by_class=True)
def ks_separation(data: Sample, *, average: Average = "macro") -> Statistic:
    """Kolmogorov-Smirnov separation: largest difference between the score distributions of a class and of the rest.

    The "KS" of scorecards (`scipy.stats.ks_2samp`), a measure of ranking; `kolmogorov_smirnov` is one of calibration.
    It looks at a single cut-off, the best one for these rows, and is therefore too large in small samples.

    Examples
    --------
    >>> ks_separation([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.5
    """
    return _over_classes(data, average, _prepare_separation)
