"""Calibration and refinement: how much of a proper loss a recalibration could take away.

A proper loss of `p` splits into the loss of the best recalibrated prediction `g(p)` (refinement: what the scores
know) and the rest (calibration: what is lost because they are not probabilities). With `ĝ` fitted on other folds, the
estimates are `mean ℓ(ĝ(p), y)` and `mean ℓ(p, y) - mean ℓ(ĝ(p), y)`. A calibrator too weak to correct everything, or
fitted to few rows, understates the calibration part, which may then be negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.intervals import Estimate, bootstrap, interval
from calibrant.metrics.losses import row_losses
from calibrant.metrics.recalibration import recalibrate
from calibrant.metrics.scalars import Statistic, mean_statistic, scalar
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

Loss = Literal["log_loss", "brier"]


class Decomposition(NamedTuple):
    """A loss and its two parts; floats, or `Estimate` objects when intervals were asked for.

    Examples
    --------
    >>> from calibrant.metrics import decompose
    >>> parts = decompose([0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25)  # an event of every second row
    >>> abs(parts.total - parts.calibration - parts.refinement) < 1e-12
    True
    """

    total: float | Estimate
    calibration: float | Estimate
    refinement: float | Estimate


@limited
@describe_parameters
def decompose(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    loss: Loss = "log_loss",
    *,
    method: Any = None,
    cv: Any = 5,
    level: float | None = None,
    n_resamples: int = 1000,
    random_state: int | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Any] | None = None,
) -> Decomposition:
    """Split log loss or Brier score into calibration and refinement by cross-validated recalibration.

    Parameters
    ----------
    level : float, optional
        Confidence level of bootstrap intervals for the three numbers. The recalibrations are not repeated on the
        resamples: the intervals are those of the test rows, given the fitted maps.

    Returns
    -------
    Decomposition
        Named tuple of `total`, `calibration` and `refinement`; the parts add up to the total.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import decompose
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> close = decompose(y, 0.25 + p / 2, "brier")
    >>> 0.015 < close.calibration < 0.026  # (p - 0.25 - p/2)² is 1/48 on average
    True
    """
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    before = row_losses(data, loss)
    after = row_losses(recalibrate(data, method, cv, random_state), loss)
    rows = (before, before - after, after)
    statistics = [mean_statistic(row) for row in rows]
    values = [statistic(data.each) for statistic in statistics]
    if level is None:
        return Decomposition(*values)
    return Decomposition(*_intervals(statistics, data, level, n_resamples, random_state))


@scalar(lower=-np.inf, grouped=True)
def calibration_loss(
    data: Sample, *, loss: Loss = "log_loss", method: Any = None, cv: Any = 5, random_state: int | None = 0
) -> Statistic:
    """Part of a loss that cross-validated recalibration takes away: the `calibration` of `decompose`.

    Examples
    --------
    >>> from calibrant.metrics import calibration_loss
    >>> y, p = [0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25  # an event of every second row
    >>> calibration_loss(y, p) > 0.2
    True
    """
    after = recalibrate(data, method, cv, random_state)
    return mean_statistic(row_losses(data, loss) - row_losses(after, loss))


@scalar(grouped=True)
def refinement_loss(
    data: Sample, *, loss: Loss = "log_loss", method: Any = None, cv: Any = 5, random_state: int | None = 0
) -> Statistic:
    """Part of a loss that cross-validated recalibration leaves: the `refinement` of `decompose`.

    Examples
    --------
    >>> from calibrant.metrics import refinement_loss
    >>> y, p = [0, 1, 0, 1] * 25, [0.1, 0.2, 0.2, 0.1] * 25  # an event of every second row
    >>> round(refinement_loss(y, p), 1)
    0.7
    """
    return mean_statistic(row_losses(recalibrate(data, method, cv, random_state), loss))


@limited
@describe_parameters
def post_hoc_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    loss: Loss = "log_loss",
    *,
    relative: bool = False,
    level: float | None = None,
    n_resamples: int = 1000,
    random_state: int | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Any] | None = None,
) -> float | Estimate:
    """How much lower a loss is after calibration than before, on the same rows; positive is better.

    Both predictions are judged on the same rows, and an interval comes from resampling the rows' differences, which is
    far tighter than comparing two separate intervals. It serves to compare any two methods.

    Parameters
    ----------
    before, after : array-like of shape (n, k) or (n,)
        Probabilities without and with calibration; the calibrator must not have seen these rows.
    relative : bool, default=False
        Divide by the loss before.
    level : float, default=None
        Confidence level of a bootstrap interval, if one is wanted.

    Returns
    -------
    float or Estimate

    Examples
    --------
    >>> from calibrant.metrics import post_hoc_improvement
    >>> round(post_hoc_improvement([0, 1, 1], [0.1, 0.1, 0.9], [0.2, 0.4, 0.8], "brier"), 3)
    0.13
    """
    first = check_sample(y_true, before, sample_weight, classes, groups=groups, blocks=blocks)
    second = check_sample(y_true, after, sample_weight, classes)
    if first.proba.shape != second.proba.shape:
        raise ValueError(f"before has {first.n_classes} classes and after {second.n_classes}")
    was, now = row_losses(first, loss), row_losses(second, loss)
    statistic = _improvement(was, now, relative)
    value = statistic(first.each)
    if level is None:
        return value
    return _intervals([statistic], first, level, n_resamples, random_state)[0]


def _intervals(
    statistics: Sequence[Statistic], data: Sample, level: float, n_resamples: int, random_state: int | None
) -> list[Estimate]:
    found = bootstrap(statistics, data, n_resamples=n_resamples, random_state=random_state)
    return [
        interval(statistic(data.each), replicates, level=level, units=data.units)
        for statistic, replicates in zip(statistics, found.T)
    ]


def _improvement(was: AnyFloatArray, now: AnyFloatArray, relative: bool) -> Statistic:
    gain, base = mean_statistic(was - now), mean_statistic(was)
    return (lambda counts: gain(counts) / base(counts)) if relative else gain
