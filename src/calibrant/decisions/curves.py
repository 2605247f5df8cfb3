"""Curves over thresholds: net benefit of acting, and risk of the rows that are answered.

Net benefit (Vickers and Elkin 2006) at a threshold `t` counts each true positive once and each false positive
`t / (1 - t)` times, what a person loses by an unneeded action who would act from a probability of `t` on:

    net benefit = TP / n - FP / n · t / (1 - t)

Acting on everybody and on nobody are the lines that a model must beat. The risk-coverage curve answers the most certain
rows first, and shows the mean loss of what has been answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrant.confidence import check_level
from calibrant.decisions.rule import DecisionRule
from calibrant.decisions.value import CostedSample, with_intervals
from calibrant.metrics.result_types import Estimate, Tabular
from calibrant.metrics.scalars import public
from calibrant.metrics.views import class_view, column_of
from calibrant.numerals import where
from calibrant.random_numbers import generator
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, Label

#: Thresholds at which net benefit is given unless others are asked for: every percent, as decision curves are drawn.
THRESHOLDS = np.arange(1, 100) / 100
#: Net benefits closer than this are the same: acting on all rows sums in another order than acting on everybody.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class DecisionCurve(Tabular):
    """Net benefit at several thresholds, with a pointwise band.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
        Probabilities from which somebody acts, ascending.
    net_benefit, low, high : ndarray of shape (m,)
        Net benefit of acting from the threshold on, and the ends of its interval.
    treat_all : ndarray of shape (m,)
        Net benefit of acting on everybody; that of acting on nobody is zero.
    label : object
        The class whose probability is used.
    level : float
        Confidence level of the band.
    """

    threshold: FloatArray
    net_benefit: FloatArray
    low: FloatArray
    high: FloatArray
    treat_all: FloatArray
    label: Label
    level: float

    @property
    def useful(self) -> str:
        """The thresholds at which acting on the probabilities is better than acting on everybody and on nobody."""
        better = self.net_benefit > np.maximum(self.treat_all, 0.0) + _ROUNDING
        return where(self.threshold.tolist(), better.tolist(), "from {} to {}") if better.any() else "at none of them"

    def __repr__(self) -> str:
        return (
            f"Net benefit of acting on {self.label!r} at {len(self.threshold)} thresholds: higher than acting on "
            f"everybody and on nobody {self.useful}."
        )


@public
def decision_curve(
    data: Sample,
    *,
    thresholds: ArrayLike | None = None,
    pos_label: Label = None,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | np.random.Generator | None = 0,
) -> DecisionCurve:
    """Net benefit of acting where the probability of a class is at least a threshold.

    Parameters
    ----------
    thresholds : array-like of numbers between 0 and 1, default=None
        By default 1 %, 2 %, ... 99 %.
    pos_label : object, default=None
        The class that calls for the action; by default the second of two. With more classes it must be named, and is
        taken against all others.

    References
    ----------
    Vickers and Elkin. Decision curve analysis: a novel method for evaluating prediction models. Medical Decision
    Making 26 (2006).

    Examples
    --------
    >>> curve = decision_curve([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8], thresholds=[0.25, 0.5])
    >>> curve.net_benefit.round(3).tolist(), curve.treat_all.round(3).tolist()
    ([0.417, 0.25], [0.333, 0.0])
    """
    if pos_label is None and data.n_classes > 2:
        raise ValueError(f"pos_label is needed for {data.n_classes} classes: which class calls for the action?")
    at = np.unique(np.asarray(THRESHOLDS if thresholds is None else thresholds, dtype=np.float64))
    wrong = at[~((at > 0) & (at < 1))]
    if len(wrong) or at.ndim != 1 or not len(at):
        raise ValueError(f"thresholds must lie between 0 and 1, got {wrong[:1].tolist() or at.tolist()}")
    check_level(level)
    positive = 1 if pos_label is None else column_of(data, pos_label)

    def prepare(sample: Sample) -> Callable[[AnyFloatArray], FloatArray]:
        view = class_view(sample, positive)
        reached = np.searchsorted(at, view.score, side="right")  # the number of thresholds up to the score

        def benefit(counts: AnyFloatArray) -> FloatArray:
            true, false = (
                np.bincount(reached, counts * part, minlength=len(at) + 1)[::-1].cumsum()[::-1][1:]
                for part in (view.hit, 1.0 - view.hit)
            )
            return np.asarray((true - false * at / (1.0 - at)) / counts.sum())

        return benefit

    def alarms() -> FloatArray:
        return _unseen_alarms(at, data, n_resamples, random_state)

    found = with_intervals(prepare, data, level, n_resamples, random_state, added=alarms)
    value, low, high = (np.array([getattr(one, name) for one in found]) for name in ("value", "low", "high"))
    share = data.class_counts[positive] / data.total
    return DecisionCurve(at, value, low, high, share - (1 - share) * at / (1 - at), data.names[positive], level)


def _unseen_alarms(
    at: FloatArray, data: Sample, n_resamples: int, random_state: int | np.random.Generator | None
) -> FloatArray:
    """Net benefit of alarms that a small sample may lack: half an observation at each threshold, as right as it says.

    Without it nothing would be uncertain where no row reaches a threshold.
    """
    size, rng = (n_resamples, len(at)), generator(random_state)
    right, wrong = rng.standard_gamma(at / 2, size), rng.standard_gamma((1 - at) / 2, size)
    return np.asarray((right - wrong * at / (1.0 - at)) / np.sqrt(data.total * data.units))


@dataclass(frozen=True, repr=False)
class RiskCoverage(Tabular):
    """The mean loss of the rows that are answered, over the share of rows that are.

    Attributes
    ----------
    coverage, risk : ndarray of shape (m,)
        Share of observations that are answered, ascending to one, and their mean loss.
    confidence : ndarray of shape (m,)
        What a row must have at least to be among them: its largest probability, or minus the expected cost of its best
        action.
    area : Estimate
        Mean of the risk over all coverages, with its interval: smaller is better.
    """

    coverage: FloatArray
    risk: FloatArray
    confidence: FloatArray
    area: Estimate

    def __repr__(self) -> str:
        half = float(self.risk[np.searchsorted(self.coverage, 0.5)])
        return f"Mean loss {half:.4g} on the most certain half, {self.risk[-1]:.4g} on all rows; area {self.area}."

    def at_risk(self, risk: float) -> float:
        """The largest share that can be answered with a mean loss of at most `risk`; zero if there is none.

        Examples
        --------
        >>> from calibrant.decisions import risk_coverage
        >>> risk_coverage([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.7]).at_risk(0.1)
        0.75
        """
        kept = self.coverage[self.risk <= risk]
        return float(kept[-1]) if len(kept) else 0.0


@public
def risk_coverage(
    data: Sample,
    rule: DecisionRule | None = None,
    *,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | np.random.Generator | None = 0,
) -> RiskCoverage:
    """The risk-coverage curve of answering only where a model is certain enough.

    Rows are answered in the order of their certainty, equally certain ones together.

    Parameters
    ----------
    rule : DecisionRule, default=None
        Costs of the answers, which make the loss and the order of rows; without, every wrong class costs 1.

    References
    ----------
    El-Yaniv and Wiener. On the foundations of noise-free selective classification. JMLR 11 (2010).

    Examples
    --------
    >>> curve = risk_coverage([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.7])
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.5, 0.75, 1.0], [0.0, 0.0, 0.25])
    """
    k = data.n_classes
    costed = CostedSample(data, DecisionRule(1.0 - np.eye(k)) if rule is None else rule, None, data.n_rows)

    def in_order(sample: Sample) -> tuple[FloatArray, AnyIntArray, FloatArray]:
        """Certainties, the surest first, which of them each row has, and what each row costs."""
        expected = costed.table.expected(sample.proba, {}).min(axis=1)
        certainty = 1.0 - expected if rule is None else -expected
        distinct, step = np.unique(-certainty, return_inverse=True)
        return -distinct, step, costed.row_costs(sample)

    def risks(counts: AnyFloatArray, step: AnyIntArray, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
        weight, lost = (np.bincount(step, part).cumsum() for part in (counts, counts * costs))
        with np.errstate(invalid="ignore"):
            return weight / weight[-1], np.where(weight > 0, lost / weight, 0.0)

    def prepare(sample: Sample) -> Callable[[AnyFloatArray], list[float]]:
        _, step, costs = in_order(sample)

        def area(counts: AnyFloatArray) -> list[float]:
            coverage, risk = risks(counts, step, costs)
            return [float(np.diff(coverage, prepend=0.0) @ risk)]

        return area

    confidence, step, costs = in_order(costed.data)
    coverage, risk = risks(costed.data.each, step, costs)
    costly, *others = costed.rare(costed.data)
    # The area changes by `-log coverage` times what a row costs: the more, the earlier it is answered.
    unseen = [costly * -np.log(coverage[step] * (1 - 1e-12))[:, None], *others]
    most = float(costed.table.numbers.max())
    (area,) = with_intervals(prepare, costed.data, level, n_resamples, random_state, unseen, lower=0.0, upper=most)
    return RiskCoverage(coverage, risk, confidence, area)
