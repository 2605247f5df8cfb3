"""Bootstrap confidence intervals for every scalar metric, and many metrics at once.

Rows are drawn with replacement; a drawn row counts as often as it was drawn. Means use percentile intervals. Distances
such as ECE are too large in a sample and larger still in a resample of it. The excess is about the same on the scale
of squares (`b = E θ*² - θ² ≈ E θ² - τ²`, exactly so for sums of squares): their lower end is the percentile with the
excess of sample and resample taken off, `√(q_low² - 2b)`, or 0 if that is negative. The upper end, `θ + q_high - q_50`,
leaves the sample's own excess in, which is on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix
from calibrant.metrics.inputs import check_level, check_predictions
from calibrant.metrics.random import generator
from calibrant.metrics.scalars import SCALARS, Scalar, Statistic, find_scalar
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray

Method = Literal["auto", "percentile", "basic", "corrected"]
METHODS = ("percentile", "basic", "corrected")
DEFAULT_METRICS = ("log_loss", "brier", "accuracy", "auroc", "ece", "smooth_ece", "kuiper")


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import confidence_interval
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p**2).astype(int)  # predicted too often
    >>> found = confidence_interval("brier", y, p)
    >>> bool(found.low < found.value < found.high), found.level
    (True, 0.95)
    """

    value: float
    low: float
    high: float
    level: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def resample_weights(weight: AnyFloatArray | None, n_rows: int, rng: np.random.Generator) -> AnyFloatArray:
    """Weights of a resample: how often each row was drawn, times its own weight."""
    counts = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(np.float64)
    if weight is None:
        return counts
    drawn = counts * weight
    # All weight may sit on rows that were not drawn; such a resample says nothing, draw again.
    return drawn if drawn.any() else resample_weights(weight, n_rows, rng)


def bootstrap(
    statistics: Sequence[Statistic],
    weight: AnyFloatArray | None,
    n_rows: int,
    *,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
) -> AnyFloatArray:
    """Replicates of several statistics on the same resamples, one row per resample."""
    if n_resamples < 2:
        raise ValueError(f"n_resamples must be at least 2, got {n_resamples}")
    rng = generator(random_state)
    replicates = np.empty((n_resamples, len(statistics)))
    for row in range(n_resamples):
        drawn = resample_weights(weight, n_rows, rng)
        replicates[row] = [statistic(drawn) for statistic in statistics]
    return replicates


def interval(
    value: float,
    replicates: AnyFloatArray,
    *,
    level: float,
    method: str = "percentile",
    lower: float = -np.inf,
    upper: float = np.inf,
) -> Estimate:
    """Interval from bootstrap replicates, cut to the possible range; the value always lies inside."""
    check_level(level)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return Estimate(value, float("nan"), float("nan"), level)
    low, high = (float(q) for q in np.quantile(known, [(1 - level) / 2, (1 + level) / 2]))
    if method == "basic":
        low, high = 2 * value - high, 2 * value - low
    elif method == "corrected":
        excess = max(float(np.mean(known**2)) - value**2, 0.0)
        low = float(np.sqrt(max(low**2 - 2 * excess, 0.0)))
        high = value + high - float(np.median(known))
    low, high = min(max(low, lower), value), max(min(high, upper), value)
    return Estimate(value, low, high, level)


def resolve_method(method: str, entry: Scalar | None) -> str:
    """The kind of interval that "auto" stands for."""
    if method == "auto":
        return "corrected" if entry is not None and entry.plug_in_bias else "percentile"
    return method


@limited
@describe_parameters
def confidence_interval(
    metric: str | Callable[..., float],
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    method: Method = "auto",
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    **options: Any,
) -> Estimate:
    """Value of a scalar metric with a bootstrap confidence interval.

    Parameters
    ----------
    metric : str or callable
        Name or function of a metric of this package, or any `f(y_true, y_prob)` that returns a number (and takes
        `sample_weight=` when weights are given).
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights. Rows are resampled, each carrying its weight.
    method : {"auto", "percentile", "basic", "corrected"}, default="auto"
        Percentiles of the replicates, those reflected about the estimate ("basic"), or corrected for the bias of
        distances. "auto" is "corrected" for calibration errors, which are biased upwards, and "percentile" otherwise.
        Near zero the corrected interval is cautious: whether there is any error at all is what `calibration_test`
        tells.
    **options
        Passed to the metric.

    Returns
    -------
    Estimate
        With attributes `value`, `low`, `high` and `level`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import confidence_interval
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = (rng.random(500) < p).astype(int)
    >>> estimate = confidence_interval("brier", y, p)
    >>> estimate.low < estimate.value < estimate.high
    True
    """
    entry = find_scalar(metric)
    resolved = resolve_method(method, entry)
    if entry is None:
        if not callable(metric):
            raise TypeError(f"metric must be a name or a function, got {metric!r}")
        n_rows, statistic = _prepare_foreign(metric, y_true, y_prob, sample_weight, options)
        weight, bounds = None, (-np.inf, np.inf)
    else:
        data = check_predictions(y_true, y_prob, sample_weight, classes)
        statistic = entry.prepare(data, **options)
        n_rows, weight, bounds = data.n_rows, data.weight, (entry.lower, entry.upper)
    replicates = bootstrap([statistic], weight, n_rows, n_resamples=n_resamples, random_state=random_state)[:, 0]
    return interval(statistic(weight), replicates, level=level, method=resolved, lower=bounds[0], upper=bounds[1])


def _prepare_foreign(
    metric: Callable[..., float],
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None,
    options: Mapping[str, Any],
) -> tuple[int, Statistic]:
    """A function of the user's: rows are repeated as often as they were drawn, and weights handed on if given."""
    y, proba = np.asarray(y_true), as_matrix(y_prob)[0]
    given = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)

    def statistic(counts: AnyFloatArray | None) -> float:
        drawn = slice(None) if counts is None else np.repeat(np.arange(len(y)), counts.astype(np.intp))
        extra = {} if given is None else {"sample_weight": given[drawn]}
        return float(metric(y[drawn], proba[drawn], **extra, **options))

    return len(y), statistic


def list_metrics() -> dict[str, str]:
    """Names of the scalar metrics, each with a line about it.

    Examples
    --------
    >>> from calibrant.metrics import list_metrics
    >>> list_metrics()["log_loss"]
    'Mean negative log-probability of the observed class.'
    """
    return {name: SCALARS[name].description for name in sorted(SCALARS)}
