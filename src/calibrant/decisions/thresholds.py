"""Thresholds under a constraint instead of costs: enough precision, enough recall, no more alarms than can be handled.

Rows with a probability of at least the threshold raise an alarm. Each constraint leaves a range of thresholds; of these
the one with the most true alarms is chosen, or, for a given recall, the one with the fewest false ones.

What a threshold did on the rows that it was chosen on is too good. A proven one passed a test on its way: thresholds
are tried in an order that does not look at labels, each by the exact lower bound of a share (Clopper and Pearson), and
the last one before a failure is taken (fixed-sequence testing, as in "learn then test").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from calibrant.confidence import check_level
from calibrant.decisions.value import with_intervals
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import public
from calibrant.metrics.views import class_view, column_of
from calibrant.numerals import amount, percent
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, Label

#: With fewer alarms a precision is said to rest on few: the ends of its interval are some 30 points apart.
_FEW_ALARMS = 30
#: Each threshold that is tested raises so many times as many alarms as the one before: at most 5% of the alarms that
#: could be proven are lost between two.
_NEXT = 1.05
#: Numbers of alarms, each twice the one before, at which the test of a precision starts: the last is 128 times the
#: least that can prove it.
_STARTS = 8


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, with its results on the rows it was chosen on.

    Attributes
    ----------
    threshold : float
        Alarms are raised where the probability is at least this; infinite if no alarm is allowed.
    precision, recall, alarms : Estimate
        Share of alarms that are right, share of the class that is found, and share of rows with an alarm. On rows that
        the threshold was not chosen on precision and recall are a little lower.
    label : object
        The class that raises alarms.
    n_alarms : float
        The number of observations with an alarm, which the precision rests on.
    at_least : float
        Lower bound of the precision at this very threshold, with confidence `level`; it does not know that the
        threshold was chosen.
    proven : str
        The constraint that a proof was asked for, "precision" or "recall", if one was: it holds on new rows like these
        with confidence `level`.
    """

    threshold: float
    precision: Estimate
    recall: Estimate
    alarms: Estimate
    label: Label
    n_alarms: float = float("nan")
    at_least: float = float("nan")
    proven: str = ""

    def __str__(self) -> str:
        if np.isinf(self.threshold) and self.proven:
            return f"No threshold is proven to keep the {self.proven}: ask for less, or give more rows."
        if np.isinf(self.threshold):
            return "No threshold meets the constraint: raise no alarm, or ask for less."
        found = (
            f"Raise an alarm at a probability of {percent(self.threshold)} or more: {percent(self.alarms.value)} of "
            f"rows, {percent(self.precision.value)} of them {self.label!r}; {percent(self.recall.value)} of all "
            f"{self.label!r} are found."
        )
        if self.proven:
            return f"{found} The {self.proven} asked for holds on new rows like these with {self.level} confidence."
        if self.n_alarms >= _FEW_ALARMS:
            return found
        rests = amount(self.n_alarms, "alarm")
        low = percent(self.at_least)
        return f"{found} The precision rests on {rests}: with {self.level} confidence it is at least {low}."

    @property
    def level(self) -> str:
        """The confidence level, as a percentage."""
        return f"{self.precision.level:.0%}"


@public
def choose_threshold(
    data: Sample,
    *,
    precision: float | None = None,
    recall: float | None = None,
    alarms: float | None = None,
    per: float | None = None,
    proven: bool = False,
    pos_label: Label = None,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | np.random.Generator | None = 0,
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
    proven : bool, default=False
        Choose among thresholds that keep the precision or recall on new rows like these with confidence `level`,
        although they were chosen on these rows. That takes more rows, and allows for groups as if their rows were
        alike.
    pos_label : object, default=None
        The class that raises alarms; by default the second of two.

    References
    ----------
    Angelopoulos et al. Learn then test: calibrating predictive algorithms to achieve risk control. Annals of Applied
    Statistics 19 (2025).

    Examples
    --------
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
        raise ValueError("alarms and per go together: alarms=50, per=2000 means 50 alarms in 2000 rows")
    for name in ("precision", "recall"):
        value = given[name]
        if value is not None and not 0 < value <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    if alarms is not None and per is not None and not 0 <= alarms <= per:
        raise ValueError(f"alarms must lie between 0 and per, got {alarms} of {per}")
    if proven and alarms is not None:
        raise ValueError("proven is for precision and recall: the number of alarms does not depend on labels")
    check_level(level)
    if pos_label is None and data.n_classes > 2:
        raise ValueError(f"pos_label is needed for {data.n_classes} classes: which class raises alarms?")
    column = 1 if pos_label is None else column_of(data, pos_label)
    if data.class_counts[column] == 0:
        raise ValueError(f"no row has the label {data.names[column]!r}: there is nothing to find")
    every = _Thresholds(data, column)
    found, raised = every.found, every.raised
    if proven:
        chosen = every.proven(precision, recall, 1.0 - level)
    elif precision is not None:
        chosen = _last(found / raised >= precision)
    elif recall is not None:
        # Sums of fractional counts may fall short of all by rounding.
        chosen = int(np.argmax(found >= recall * found[-1] * (1 - 1e-12)))
    else:
        chosen = _last(raised <= float(alarms or 0.0) / float(per or 1.0) * data.total * (1 + 1e-12))
    threshold, number, at_least = np.inf, 0.0, float("nan")
    if chosen >= 0:
        threshold, number = float(every.score[chosen]), float(raised[chosen])
        at_least = float(every.lower_bounds(np.array([chosen]), 1 - level)[0])
    right, caught, share = _shares(data, column, threshold, level, n_resamples, random_state)
    held = named[0] if proven else ""
    return ChosenThreshold(threshold, right, caught, share, data.names[column], number, at_least, held)


def _last(allowed: NDArray[np.bool_]) -> int:
    """The last place that is allowed, -1 if none is."""
    places = np.flatnonzero(allowed)
    return int(places[-1]) if len(places) else -1


class _Thresholds:
    """Every threshold (`score`), descending, with the true alarms (`found`) and all alarms (`raised`) from it on."""

    def __init__(self, data: Sample, column: int) -> None:
        self.data, self.view = data, class_view(data, column)
        score, place = np.unique(-self.view.score, return_inverse=True)
        self.score, self.raised = -score, np.bincount(place, data.each).cumsum()
        self.found = np.bincount(place, data.each * self.view.hit).cumsum()

    def proven(self, precision: float | None, recall: float | None, alpha: float) -> int:
        """The place of the last threshold that passed its test; -1 if none did."""
        raised = self.raised
        steps = raised[-1] / _NEXT ** np.arange(np.log(raised[-1] / raised[0]) / np.log(_NEXT) + 1)
        tried = np.unique(np.searchsorted(raised, steps * (1 - 1e-12)))
        if 1.0 in (precision, recall):  # no number of rows proves that all are right
            return -1
        if recall is not None:  # from many alarms to few
            first = 1 + _last(self.lower_bounds(tried, alpha, of_class=True) < recall)
            return int(tried[first]) if first < len(tried) else -1
        assert precision is not None
        # The fewest alarms are proven by nothing but success, so that the test starts at more than one place, with a
        # share of the error each.
        least = np.log(alpha / _STARTS) / np.log(precision)
        starts = np.unique(np.searchsorted(raised[tried], least * 2.0 ** np.arange(_STARTS)))
        starts = starts[starts < len(tried)]
        passed = self.lower_bounds(tried, alpha / max(len(starts), 1)) >= precision
        best = -1
        for start in starts:
            run = int(np.argmin(np.append(passed[start:], False)))
            best = max(best, int(start) + run - 1) if run else best
        return int(tried[best]) if best >= 0 else -1

    def lower_bounds(self, places: AnyIntArray, alpha: float, *, of_class: bool = False) -> FloatArray:
        """Exact lower bounds of the precision at some thresholds, or of the recall (`of_class`), by place.

        Rows of a group count as if they were alike: there are as many observations as groups of equal size would be.
        """
        bounds = np.zeros(len(places))
        for number, place in enumerate(places):
            rows = self.view.hit > 0 if of_class else self.view.score >= self.score[place]
            total = self.found[-1] if of_class else self.raised[place]
            worth = self.data.take(rows).units / total if self.data.groups is not None else 1.0
            right, wrong = worth * self.found[place], worth * max(total - self.found[place], 0.0)
            bounds[number] = betaincinv(right, wrong + 1.0, alpha) if right > 0 else 0.0
        return bounds


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

    return with_intervals(prepare, data, level, n_resamples, random_state, lower=0.0, upper=1.0)
