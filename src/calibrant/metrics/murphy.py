"""Murphy diagrams: the mean elementary score at every threshold, and whether predictions dominate others.

The elementary score of a threshold `θ` is what somebody loses who acts where `p > θ`: `θ` for an action without the
event, `1 - θ` for an event without the action (Ehm, Gneiting, Jordan and Krüger 2016). Every proper score is a mixture
of them, and the Brier score is twice the area under the diagram. Predictions whose diagram is nowhere above that of
others dominate them: they are better by every proper score. Between neighbouring predictions the diagram is a straight
line, so that dominance is decided exactly, at their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrant.confidence import check_level, student_stretch
from calibrant.docs import describe_parameters
from calibrant.inputs.samples import check_sample
from calibrant.metrics.intervals import bootstrap_with_unseen, too_few
from calibrant.metrics.result_types import Tabular
from calibrant.metrics.views import View, class_view, column_of
from calibrant.numerals import percent, where
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray, Label

#: Where the diagram is drawn unless told: at whole percentages.
THRESHOLDS = np.arange(1, 100) / 100
#: Rows on which two predictions decide differently may not have been seen: so many more of them are allowed for.
_UNSEEN = 2.0
#: Differences of scores that rounding explains.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class MurphyDiagram(Tabular):
    """Mean elementary scores of predictions and of others at several thresholds.

    Attributes
    ----------
    threshold, score, other : ndarray of shape (m,)
        Thresholds, and the mean elementary scores of the predictions and of the others.
    difference, low, high : ndarray of shape (m,)
        The first less the second, and a band that holds the true differences at all thresholds at once.
    dominance : {"first", "second", "equal", "neither"}
        Which predictions are nowhere worse on these rows, at any threshold at all.
    worse : float
        Share of all thresholds at which the predictions are worse on these rows.
    against : str
        What the others are, in words.
    level : float
        Confidence level of the band.

    Examples
    --------
    >>> from calibrant.metrics import murphy_diagram
    >>> found = murphy_diagram([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9], thresholds=[0.25, 0.5])
    >>> found.score, found.dominance
    (array([0.0625, 0.    ]), 'first')
    """

    threshold: FloatArray
    score: FloatArray
    other: FloatArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    dominance: str
    worse: float
    against: str
    level: float

    def __repr__(self) -> str:
        said = {
            "first": f"The predictions dominate {self.against}: better or equal on these rows at every threshold",
            "second": f"{self.against.capitalize()} dominate: the predictions are nowhere better on these rows",
            "equal": f"The predictions and {self.against} have the same scores",
            "neither": f"Neither the predictions nor {self.against} dominate: on these rows the predictions are worse "
            f"at {percent(self.worse)} of all thresholds",
        }[self.dominance]
        return f"{said}; {beyond_chance(self)}."


def beyond_chance(found: MurphyDiagram) -> str:
    """At which thresholds of the band the predictions are better or worse beyond chance."""
    sure = [(word, holds) for word, holds in (("better", found.high < 0), ("worse", found.low > 0)) if holds.any()]
    parts = [f"{word} {where(found.threshold.tolist(), holds.tolist())}" for word, holds in sure]
    return f"beyond chance they are {' and '.join(parts)}" if parts else "no difference is beyond chance"


def _views(data: Sample, label: Label) -> list[View]:
    """The second of two classes, the class with this label, or all of many against the rest."""
    if label is not None:
        return [class_view(data, column_of(data, label))]
    return [class_view(data, column) for column in ([1] if data.n_classes == 2 else range(data.n_classes))]


def _errors(views: Sequence[View], at: FloatArray, counts: AnyFloatArray) -> FloatArray:
    """Shares of events without an action, `1[y = 1, p ≤ θ]`, and of actions without an event, `1[y = 0, p > θ]`."""
    found = np.zeros((2, len(at)))
    for view in views:
        place = np.searchsorted(at, view.score, side="left")
        hit, miss = (np.bincount(place, counts * part, len(at) + 1) for part in (view.hit, 1.0 - view.hit))
        found += np.cumsum(hit)[:-1], float(miss.sum()) - np.cumsum(miss)[:-1]
    return found / counts.sum()


def _scores(views: Sequence[View], at: FloatArray, counts: AnyFloatArray) -> FloatArray:
    missed, needless = _errors(views, at, counts)
    return np.asarray((1.0 - at) * missed + at * needless)


def _dominance(first: list[View], second: list[View], counts: AnyFloatArray) -> tuple[str, float]:
    """Which predictions dominate, and the share of thresholds at which the first are worse."""
    # Below the smallest score everybody acts, beyond the largest nobody does: there is no difference.
    at = np.unique(np.concatenate([view.score for view in [*first, *second]]))
    end = np.append(at[1:], at[-1])
    missed, needless = _errors(first, at, counts) - _errors(second, at, counts)
    ends = np.array([(1.0 - place) * missed + place * needless for place in (at, end)])
    better, worse = ends.min() < -_ROUNDING, ends.max() > _ROUNDING
    word = "neither" if better and worse else "first" if better else "second" if worse else "equal"
    above = np.maximum(ends - _ROUNDING, 0.0).sum(axis=0) / np.maximum(np.abs(ends).sum(axis=0), _ROUNDING)
    return word, float((end - at) @ above)


@limited
@describe_parameters
def murphy_diagram(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    other: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    pos_label: Label = None,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> MurphyDiagram:
    """Murphy diagram: are predictions better than others for everybody, whatever their costs?

    For more than two classes the scores of all classes against the rest are added. A dominance on these rows is no
    proof of one on others: the band tells what is beyond chance, at all thresholds at once.

    Parameters
    ----------
    other : array-like of shape (n, k) or (n,), default=None
        Other predictions for the same rows; by default the class frequencies of these rows, the same for every row.
    thresholds : array-like of numbers between 0 and 1, default=None
        By default 1 %, 2 %, ... 99 %.

    Returns
    -------
    MurphyDiagram

    References
    ----------
    Ehm, Gneiting, Jordan and Krüger. Of quantiles and expectiles: consistent scoring functions, Choquet
    representations and forecast rankings. Journal of the Royal Statistical Society B 78 (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import murphy_diagram
    >>> y, p = np.repeat([0, 1], 50), np.repeat([0.2, 0.4, 0.6, 0.8], 25)
    >>> print(murphy_diagram(y, p))
    The predictions dominate the class frequencies: better or equal on these rows at every threshold; beyond chance \
they are better between 20.0% and 79.0%.
    """
    check_level(level)
    given: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes, "groups": groups, "blocks": blocks}
    data = check_sample(y_true, y_prob, **given)
    constant = np.tile(data.class_counts / data.total, (data.n_rows, 1))
    second = data.with_values(constant, logs=False) if other is None else check_sample(y_true, other, **given)
    if second.values.shape != data.values.shape:
        raise ValueError(f"y_prob has {data.n_classes} classes and other {second.n_classes}")
    at = np.unique(np.asarray(THRESHOLDS if thresholds is None else thresholds, dtype=np.float64))
    if not len(at) or not np.all((at > 0) & (at < 1)):
        raise ValueError("thresholds must lie between 0 and 1")
    views = _views(data, pos_label), _views(second, pos_label)
    score, beside = (_scores(part, at, data.each) for part in views)
    proba, difference, half = np.asarray(second.proba), score - beside, np.full(len(at), np.nan)

    def prepare(sample: Sample) -> Callable[[AnyFloatArray], FloatArray]:
        pair = _views(sample, pos_label), _views(sample.with_values(proba[sample.rows], logs=False), pos_label)
        return lambda counts: _scores(pair[0], at, counts) - _scores(pair[1], at, counts)

    if not too_few(data.units):
        numbered = replace(data, rows=np.arange(data.n_rows))
        drawn = bootstrap_with_unseen(prepare, numbered, n_resamples=n_resamples, random_state=random_state)
        spread = drawn.std(axis=0)
        largest = np.max(np.abs(drawn - drawn.mean(axis=0)) / np.maximum(spread, 1e-300), axis=1)
        factor = max(float(np.quantile(largest, level, method="weibull")), float(ndtri((1 + level) / 2)))
        unseen = _UNSEEN**0.5 * np.maximum(at, 1.0 - at) / data.units
        half = factor * student_stretch(level, data.units) * np.hypot(spread, unseen)
    against = "the class frequencies" if other is None else "the other predictions"
    dominance, worse = _dominance(*views, data.each)
    band = difference - half, difference + half
    return MurphyDiagram(at, score, beside, difference, band[0], band[1], dominance, worse, against, level)
