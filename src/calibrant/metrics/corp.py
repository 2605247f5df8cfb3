"""CORP reliability: the isotonic regression of outcomes on scores, with a band, and the parts of a score it gives.

The recalibrated probability `f̂` is the non-decreasing function of the score that fits the outcomes best (pool adjacent
violators), so nothing has to be chosen: no bins, no bandwidth. A proper score `S` of the predictions then splits
exactly into `S = MCB - DSC + UNC` with `MCB = S(s) - S(f̂)` (miscalibration), `DSC = S(r) - S(f̂)` (discrimination) and
`UNC = S(r)` (uncertainty), `r` being the overall frequency; both MCB and DSC are never negative (Dimitriadis, Gneiting
and Jordan, PNAS 2021).

The band is made of curves of drawn outcomes. Drawn from the scores themselves they show where the curve of calibrated
predictions would lie (`band="consistency"`, around the diagonal); drawn from `f̂`, how far the curve itself can be
trusted (`band="confidence"`, around the curve).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import xlogy

from calibrant.bins import sum_by
from calibrant.calibrators.binary.binning import Grouped, group_scores
from calibrant.calibrators.binary.isotonic import isotonic_steps
from calibrant.confidence import check_level
from calibrant.metrics.result_types import (
    HISTOGRAM_BINS,
    ReliabilityCurve,
    ScoreAxis,
    ScoreParts,
    fitting_axis,
    well_inside,
)
from calibrant.metrics.scalars import public
from calibrant.metrics.views import Kind, Shown, View, class_view, shown_view
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray, FloatArray, Label

Band = Literal["consistency", "confidence"]

#: Distinct scores up to which outcomes are drawn score by score for the band; of more, neighbours are merged.
BAND_SCORES = 4000
#: Places at which the band is given.
BAND_POINTS = 200


def view_scores(score: AnyFloatArray, positive: AnyFloatArray, weight: AnyFloatArray) -> tuple[float, float]:
    """Mean Brier score and log loss of grouped scores with `positive` of `weight` events each."""
    negative, total = weight - positive, float(weight.sum())
    brier = float(positive @ (1 - score) ** 2 + negative @ score**2) / total
    yes, no = np.maximum(score, LOSS_FLOOR), np.maximum(1 - score, LOSS_FLOOR)
    return brier, -float(np.sum(xlogy(positive, yes)) + np.sum(xlogy(negative, no))) / total


def _parts(grouped: Grouped, fitted: AnyFloatArray) -> dict[str, ScoreParts]:
    share = np.full(len(fitted), grouped.positive.sum() / grouped.weight.sum())
    of_each = zip(*(view_scores(s, grouped.positive, grouped.weight) for s in (grouped.score, fitted, share)))
    return {
        name: ScoreParts(given, given - best, nothing - best, nothing)
        for name, (given, best, nothing) in zip(("brier", "log_loss"), of_each)
    }


def _merged(grouped: Grouped, fitted: AnyFloatArray) -> tuple[FloatArray, Grouped, FloatArray]:
    """At most `BAND_SCORES` cells of neighbouring scores: the first score of each, what they hold, and their fit."""
    starts = np.linspace(0, len(fitted), min(len(fitted), BAND_SCORES), endpoint=False).astype(np.intp)
    weight = np.add.reduceat(grouped.weight, starts)
    score = np.add.reduceat(grouped.weight * grouped.score, starts) / weight
    positive = np.add.reduceat(grouped.positive, starts)
    cells = Grouped(score, weight, positive)
    return grouped.score[starts], cells, np.add.reduceat(grouped.weight * fitted, starts) / weight


def _band(
    data: Sample,
    view: View,
    grouped: Grouped,
    fitted: AnyFloatArray,
    band: str,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    if not n_resamples:
        return np.empty(0), np.empty(0), np.empty(0)
    starts, cells, fitted = _merged(grouped, fitted)
    chance = np.clip(cells.score if band == "consistency" else fitted, 0.0, 1.0)
    # Weights are counts; a fraction is drawn as the next whole number of rows that share it.
    trials = np.ceil(cells.weight - 1e-9)
    share = cells.weight / trials
    # The band needs points where the scores are dense and across their whole range, except for a few rows at the ends.
    first, last = np.flatnonzero(well_inside(cells.weight))[[0, -1]]
    dense = np.linspace(first, last, BAND_POINTS // 2)
    across = np.searchsorted(cells.score, np.linspace(cells.score[first], cells.score[last], BAND_POINTS // 2))
    at = np.unique(np.concatenate([dense.astype(np.intp), across]))
    rng = generator(random_state)
    curves = np.empty((n_resamples, len(at)))
    # Rows of a group may depend on each other in any way: their residuals keep or change sign together.
    cell = np.searchsorted(starts, view.score, side="right") - 1
    residual = data.each * (view.hit - fitted[cell])
    for row in range(n_resamples):
        if data.groups is None:
            drawn = rng.binomial(trials.astype(np.int64), chance) * share
        else:
            drawn = chance * cells.weight + sum_by(cell, residual * data.draw_signs(rng), len(trials))
        curves[row] = isotonic_steps(Grouped(cells.score, cells.weight, drawn))[0][at]
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return cells.score[at], low, high


def _curve(
    data: Sample,
    shown: Shown,
    level: float,
    band: str,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    axis: ScoreAxis | None = None,
) -> ReliabilityCurve:
    check_level(level)
    if band not in ("consistency", "confidence"):
        raise ValueError(f"band must be 'consistency' or 'confidence', got {band!r}")
    if n_resamples < 0:
        raise ValueError(f"n_resamples must not be negative, got {n_resamples}")
    view = shown.view
    grouped = group_scores(view.score.astype(np.float64), view.hit.astype(np.int64), data.each)
    fitted, starts = isotonic_steps(grouped)
    weight = np.add.reduceat(grouped.weight, starts)
    at, low, high = _band(data, view, grouped, fitted, band, level, n_resamples, random_state)
    parts = _parts(grouped, fitted)
    if axis is None:
        axis = fitting_axis(grouped.score, fitted, grouped.weight)
    return ReliabilityCurve(
        maker="corp",
        lower=grouped.score[starts],
        upper=grouped.score[np.append(starts[1:], len(fitted)) - 1],
        score=np.add.reduceat(grouped.weight * grouped.score, starts) / weight,
        frequency=fitted[starts],
        weight=weight,
        at=at,
        low=low,
        high=high,
        level=level,
        error=parts["brier"].miscalibration,
        histogram=axis.histogram(view.score, data.each, HISTOGRAM_BINS),
        kind=shown.kind,
        label=shown.label,
        around="curve" if band == "confidence" else "diagonal",
        axis=axis,
        parts=parts,
    )


@public
def corp_curve(
    data: Sample,
    *,
    kind: Kind = "auto",
    pos_label: Label = None,
    level: float = 0.95,
    band: Band = "consistency",
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = 0,
    axis: ScoreAxis | None = None,
) -> ReliabilityCurve:
    """Isotonic reliability curve with a band, and the parts of Brier score and log loss.

    Parameters
    ----------
    band : {"consistency", "confidence"}, default="consistency"
        Where the curve of calibrated predictions would lie, or how far this curve can be trusted.
    n_resamples : int, default=200
        Number of times outcomes are drawn for the band; 0 leaves it out.
    axis : ScoreAxis, optional
        Range of probabilities to show, such as that of a curve beside which this one will stand, or
        ``ScoreAxis(0.001, 0.999, log_odds=True)``; by default it ends where the rows do.

    Returns
    -------
    ReliabilityCurve
        With the steps of the curve, the band (`at`, `low`, `high`) and the `parts` of "brier" and "log_loss", each a
        named tuple of `score`, `miscalibration`, `discrimination` and `uncertainty`.

    References
    ----------
    T. Dimitriadis, T. Gneiting and A. I. Jordan. Stable reliability diagrams for probabilistic classifiers.
    PNAS 118(8), 2021.

    Examples
    --------
    >>> curve = corp_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    >>> curve.lower.tolist(), curve.upper.tolist(), curve.frequency.tolist()
    ([0.1, 0.4, 0.9], [0.1, 0.6, 0.9], [0.0, 0.5, 1.0])
    >>> [round(part, 3) for part in curve.parts["brier"]]
    [0.185, 0.06, 0.125, 0.25]
    """
    return _curve(data, shown_view(data, kind, pos_label), level, band, n_resamples, random_state, axis)


@public
def classwise_corp_curves(
    data: Sample,
    *,
    level: float = 0.95,
    band: Band = "consistency",
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = 0,
) -> dict[Any, ReliabilityCurve]:
    """Isotonic reliability curve of every class against the rest, by label.

    Parameters
    ----------
    band : {"consistency", "confidence"}, default="consistency"
        Where the curve of calibrated predictions would lie, or how far this curve can be trusted.
    n_resamples : int, default=200
        Number of times outcomes are drawn for the band; 0 leaves it out.

    Examples
    --------
    >>> curves = classwise_corp_curves(["a", "b", "c"], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    >>> list(curves), curves["a"].frequency.tolist()
    (['a', 'b', 'c'], [0.0, 1.0])
    """
    shown = (Shown(class_view(data, i), "class-wise", label) for i, label in enumerate(data.names))
    return {one.label: _curve(data, one, level, band, n_resamples, random_state) for one in shown}
