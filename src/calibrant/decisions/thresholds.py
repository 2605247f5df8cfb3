"""Thresholds under a constraint instead of costs: enough precision, enough recall, no more alarms than can be handled.

Rows with a probability of at least the threshold raise an alarm. Each constraint leaves a range of thresholds; of these
the one with the most true alarms is chosen, or, for a given recall, the one with the fewest false ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.intervals import Estimate, bootstrap_with_unseen, interval, too_few
from calibrant.metrics.tabular import check_level
from calibrant.metrics.views import class_view, column_of
from calibrant.numerals import percent
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold with what it did on the rows that it was chosen on.

    Attributes
    ----------
    threshold : float
        Alarms are raised where the probability is at least this; infinite if no alarm is allowed.
    precision, recall, alarms : Estimate
        Share of alarms that are right, share of the class that is found, and share of rows with an alarm. On rows that
        the threshold was not chosen on precision and recall are a little lower.
    label : object
        The class that raises alarms.
    """

    threshold: float
    precision: Estimate
    recall: Estimate
    alarms: Estimate
    label: Any

    def __str__(self) -> str:
        if np.isinf(self.threshold):
            return "No threshold meets the constraint: raise no alarm, or ask for less."
        return (
            f"Raise an alarm from a probability of {percent(self.threshold)} on: {percent(self.alarms.value)} of rows, "
            f"of which {percent(self.precision.value)} are {self.label!r}; "
            f"{percent(self.recall.value)} of all {self.label!r} are found."
        )


@limited
@describe_parameters
def choose_threshold(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    precision: float | None = None,
    recall: float | None = None,
    alarms: float | None = None,
    per: float | None = None,
    pos_label: Any = None,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Any] | None = None,
) -> ChosenThreshold:
    """The threshold that meets one constraint and finds as much as it allows.

    Parameters
    ----------
    precision : float between 0 and 1, default=None
        At least this share of the alarms must be right.
    recall : float between 0 and 1, default=None
        At least this share of the class must be found.
    alarms : float, default=None
        At most so many alarms in `per` rows: 50 alarms a day where 2000 rows come in a day are ``alarms=50,
        per=2000``. A budget is the number of alarms that it pays for.
    per : float, default=None
        The number of rows that `alarms` is said of.
    pos_label : object, default=None
        The class that raises alarms; by default the second of two.

    Returns
    -------
    ChosenThreshold

    Examples
    --------
    >>> from calibrant.decisions import choose_threshold
    >>> y, p = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.9]
    >>> choose_threshold(y, p, recall=0.6).threshold
    0.7
    >>> choose_threshold(y, p, precision=0.7).threshold
    0.3
    >>> choose_threshold(y, p, alarms=1, per=6).threshold
    0.9
    """
    given = {"precision": precision, "recall": recall, "alarms": alarms}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(f"give one of precision, recall and alarms, got {' and '.join(named) or 'none'}")
    if (alarms is None) != (per is None):
        raise ValueError("alarms and per go together: alarms=50, per=2000 are 50 alarms in 2000 rows")
    for name in ("precision", "recall"):
        value = given[name]
        if value is not None and not 0 < value <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    if alarms is not None and per is not None and not 0 <= alarms <= per:
        raise ValueError(f"alarms must lie between 0 and per, got {alarms} of {per}")
    check_level(level)
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    if pos_label is None and data.n_classes > 2:
        raise ValueError(f"pos_label is needed for {data.n_classes} classes: which one raises alarms?")
    column = 1 if pos_label is None else column_of(data, pos_label)
    if data.class_counts[column] == 0:
        raise ValueError(f"no row has the label {data.names[column]!r}: there is nothing to find")
    score, found, raised = _cumulated(data, column)
    if precision is not None:
        allowed = np.flatnonzero(found / raised >= precision)
        chosen = allowed[-1] if len(allowed) else -1
    elif recall is not None:
        # Sums of fractional counts may fall short of all by rounding.
        chosen = int(np.flatnonzero(found >= recall * found[-1] * (1 - 1e-12))[0])
    else:
        allowed = np.flatnonzero(raised <= float(alarms or 0.0) / float(per or 1.0) * data.total * (1 + 1e-12))
        chosen = allowed[-1] if len(allowed) else -1
    threshold = float(score[chosen]) if chosen >= 0 else np.inf
    found_precision, found_recall, share = _shares(data, column, threshold, level, n_resamples, random_state)
    return ChosenThreshold(threshold, found_precision, found_recall, share, data.names[column])


def _cumulated(data: Sample, column: int) -> tuple[AnyFloatArray, AnyFloatArray, AnyFloatArray]:
    """Every threshold, descending, with the true alarms and all alarms from it on."""
    view = class_view(data, column)
    score, place = np.unique(-view.score, return_inverse=True)
    found, raised = (np.bincount(place, data.each * part).cumsum() for part in (view.hit, np.ones(data.n_rows)))
    return -score, found, raised


def _shares(
    data: Sample,
    column: int,
    threshold: float,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
) -> list[Estimate]:
    """Precision, recall and the share of alarms at a threshold, each with its interval."""

    def prepare(sample: Sample) -> Any:
        view = class_view(sample, column)
        raised = view.score >= threshold

        def shares(counts: AnyFloatArray) -> list[float]:
            true, alarms, hits = counts @ (raised * view.hit), counts @ raised, counts @ view.hit
            return [true / alarms if alarms else np.nan, true / hits if hits else np.nan, alarms / counts.sum()]

        return shares

    values = prepare(data)(data.each)
    if too_few(data.units):
        return [Estimate(float(value), float("nan"), float("nan"), level) for value in values]
    drawn = bootstrap_with_unseen(prepare, data, n_resamples=n_resamples, random_state=random_state)
    return [
        interval(float(value), replicates, level=level, units=data.units, lower=0.0, upper=1.0)
        for value, replicates in zip(values, drawn.T)
    ]
