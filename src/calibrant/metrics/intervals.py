"""Bootstrap confidence intervals for every scalar metric, and many metrics at once.

Every observation, or every group, is weighed at random (the Bayesian bootstrap). A sample of few rows may lack what
matters most, such as the one positive in a hundred that costs as much as all others: resamples hold half an observation
of what was not seen, too (`Sample.unseen`). Means use percentile intervals, stretched like Student's where observations
or groups are few.

Distances such as ECE are too large in a sample and larger still in a resample of it. The excess is about the same on
the scale of squares (`b = E θ*² - θ² ≈ E θ² - τ²`, exactly so for sums of squares): their lower end is the percentile
with the excess of sample and resample taken off, `√(q_low² - 2b)`, or 0 if that is negative. The upper end,
`θ + q_high - q_50`, leaves the sample's own excess in, which is on the safe side. Replicates of binned and smooth
errors come from normal moves of their cells (`scalars.moved_values`), which also move a cell of one row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.confidence import check_level, student_stretch
from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.samples import check_sample
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import SCALARS, Scalar, Statistic, Summed, find_scalar, moved_values
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, Label

IntervalKind = Literal["auto", "percentile", "basic", "corrected"]
KINDS = ("percentile", "basic", "corrected")
#: Independent observations that an interval needs.
FEWEST_UNITS = 2
DEFAULT_METRICS = ("log_loss", "brier", "accuracy", "auroc", "ece", "smooth_ece", "kuiper")


def bootstrap(
    statistics: Sequence[Statistic] | Callable[[AnyFloatArray], ArrayLike],
    data: Sample,
    *,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    unseen: Callable[[np.random.Generator], AnyFloatArray] = lambda rng: np.empty(0),
) -> AnyFloatArray:
    """Replicates of several statistics, or of one function that returns many, on the same resamples, one row for each.

    `unseen` draws counts of rows that the statistics were prepared with beyond those of the sample (`Sample.unseen`).
    """
    _check_resamples(n_resamples)
    rng = generator(random_state)
    values = statistics if callable(statistics) else lambda drawn: [statistic(drawn) for statistic in statistics]
    return np.array(
        [values(np.concatenate([data.resampled_counts(rng), unseen(rng)])) for _ in range(n_resamples)],
        dtype=np.float64,
    )


def bootstrap_with_unseen(
    prepare: Callable[[Sample], Sequence[Statistic] | Callable[[AnyFloatArray], ArrayLike]],
    data: Sample,
    *,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    outcomes: Sequence[AnyFloatArray] | None = None,
) -> AnyFloatArray:
    """Replicates of what `prepare` makes of a sample, on resamples that hold outcomes that may not have been seen."""
    rows, unseen = data.unseen(outcomes)
    whole = Sample.joined([data, rows])
    if data.rows is not None and rows.rows is not None:
        whole = replace(whole, rows=np.concatenate([data.rows, rows.rows]))
    return bootstrap(prepare(whole), data, n_resamples=n_resamples, random_state=random_state, unseen=unseen)


def _check_resamples(n_resamples: int) -> None:
    if n_resamples < 2:
        raise ValueError(f"n_resamples must be at least 2, got {n_resamples}")


def interval(
    value: float,
    replicates: AnyFloatArray,
    *,
    level: float,
    kind: str = "percentile",
    lower: float = -np.inf,
    upper: float = np.inf,
    units: float = np.inf,
) -> Estimate:
    """Interval from bootstrap replicates, cut to the possible range; the value always lies inside.

    With few independent observations (`units`) it is stretched as Student's t stretches intervals of means.
    """
    check_level(level)
    if kind not in KINDS:
        raise ValueError(f"interval_kind must be one of {', '.join(KINDS)}, got {kind!r}")
    known = replicates[~np.isnan(replicates)]
    if np.isnan(value) or not len(known):
        return Estimate(value, float("nan"), float("nan"), level)
    # A further draw is below the k-th smallest of B with probability k / (B + 1), by which these quantiles go.
    low, high = (float(q) for q in np.quantile(known, [(1 - level) / 2, (1 + level) / 2], method="weibull"))
    if kind == "basic":
        low, high = 2 * value - high, 2 * value - low
    elif kind == "corrected":
        excess = max(float(np.mean(known**2)) - value**2, 0.0)
        low = float(np.sqrt(max(low**2 - 2 * excess, 0.0)))
        high = value + high - float(np.median(known))
    stretch = student_stretch(level, units)
    low, high = value - stretch * (value - low), value + stretch * (high - value)
    low, high = min(max(low, lower), value), max(min(high, upper), value)
    return Estimate(value, low, high, level)


def too_few(units: float) -> bool:
    """Whether there are too few independent observations for an interval, about which a warning is given."""
    if units >= FEWEST_UNITS:
        return False
    warnings.warn(
        f"no interval: the rows amount to {units:.3g} independent observations (rows with their counts, or groups), "
        f"and an interval needs at least {FEWEST_UNITS}",
        CalibrationWarning,
        stacklevel=3,
    )
    return True


@limited
@describe_parameters
def confidence_interval(
    metric: str | Callable[..., float],
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    interval_kind: IntervalKind = "auto",
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
    **options: object,
) -> Estimate:
    """Value of a scalar metric with a bootstrap confidence interval.

    Parameters
    ----------
    metric : str or callable
        Name or function of a metric of this package, or any `f(y_true, y_prob, sample_weight=...)` that returns a
        number.
    interval_kind : {"auto", "percentile", "basic", "corrected"}, default="auto"
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
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    entry = find_scalar(metric)
    if entry is None:
        foreign = _foreign(cast("Callable[..., float]", metric), data, y_true, y_prob, options)
        found = bootstrap([foreign], data, n_resamples=n_resamples, random_state=random_state)
        kind = "percentile" if interval_kind == "auto" else interval_kind
        return interval(foreign(data.each), found[:, 0], level=level, kind=kind, units=data.units)
    return estimates([(entry, options)], data, level, n_resamples, random_state, interval_kind)[0]


def estimates(
    metrics: Sequence[tuple[Scalar, Mapping[str, object]]],
    data: Sample,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    kind: str = "auto",
) -> list[Estimate]:
    """Metrics with their options, each with an interval, all from the same resamples."""
    check_level(level)
    _check_resamples(n_resamples)
    statistics = [entry.prepare(data, **options) for entry, options in metrics]
    values = [statistic(data.each) for statistic in statistics]
    if too_few(data.units):
        return [Estimate(value, float("nan"), float("nan"), level) for value in values]
    drawn: dict[str, Any] = {"n_resamples": n_resamples, "random_state": random_state}
    rows, unseen = data.unseen()
    found: dict[int, AnyFloatArray] = {}
    for i, ((entry, options), statistic) in enumerate(zip(metrics, statistics)):
        if entry.plug_in_bias and isinstance(statistic, Summed):
            found[i] = _moved(
                statistic, entry.prepare(rows, **options), data, unseen, generator(random_state), n_resamples
            )
    seen = [i for i, (entry, _) in enumerate(metrics) if entry.refits]
    if seen:
        found.update(zip(seen, bootstrap([statistics[i] for i in seen], data, **drawn).T))
    rest = [i for i in range(len(metrics)) if i not in found]
    if rest:

        def prepare(sample: Sample) -> list[Statistic]:
            return [metrics[i][0].prepare(sample, **metrics[i][1]) for i in rest]

        found.update(zip(rest, bootstrap_with_unseen(prepare, data, **drawn).T))
    return [
        interval(
            value,
            found[i],
            level=level,
            kind=("corrected" if entry.plug_in_bias else "percentile") if kind == "auto" else kind,
            lower=entry.lower,
            upper=entry.upper,
            units=entry.units(data),
        )
        for i, ((entry, _), value) in enumerate(zip(metrics, values))
    ]


def _moved(
    statistic: Summed,
    beyond: Statistic,
    data: Sample,
    unseen: Callable[[np.random.Generator], AnyFloatArray],
    rng: np.random.Generator,
    n_resamples: int,
) -> AnyFloatArray:
    """Replicates of a distance from its sums, and from those of unseen rows, for which `beyond` was prepared."""
    sums, spread = statistic.sums(data.each), statistic.named_spread(data)
    return moved_values(statistic.form, sums, spread, rng, n_resamples, lambda: cast(Summed, beyond).sums(unseen(rng)))


def _foreign(
    metric: Callable[..., float], data: Sample, y_true: ArrayLike, y_prob: ArrayLike, options: Mapping[str, object]
) -> Statistic:
    """A function of the user's as a function of counts, which it takes as `sample_weight`."""
    rows = slice(None) if data.rows is None else data.rows
    y, proba = np.asarray(y_true)[rows], as_matrix(y_prob)[0][rows]

    return lambda counts: float(metric(y, proba, sample_weight=counts, **options))


def list_metrics() -> dict[str, str]:
    """Names of the scalar metrics, each with a line about it.

    Examples
    --------
    >>> from calibrant.metrics import list_metrics
    >>> list_metrics()["log_loss"]
    'Mean negative log-probability of the observed class.'
    """
    return {name: SCALARS[name].description for name in sorted(SCALARS)}
