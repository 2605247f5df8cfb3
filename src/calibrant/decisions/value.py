"""What decisions cost on labelled rows: before against after calibration, and beside the best threshold in hindsight.

The cost of a row is `c_aj` for the action `a` that was taken and the class `j` that was observed; the cost of a sample
is the mean over its observations. Two sets of predictions are compared row by row, so that the interval of the
difference knows that both were asked about the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.confidence import check_level
from calibrant.decisions.rule import DecisionRule
from calibrant.docs import describe_parameters
from calibrant.inputs.predictions import as_matrix
from calibrant.inputs.samples import check_sample
from calibrant.metrics.intervals import bootstrap_with_unseen, interval, too_few
from calibrant.metrics.result_types import Estimate
from calibrant.metrics.scalars import public
from calibrant.numerals import count, percent
from calibrant.sample import Sample
from calibrant.steps.actions import cheapest
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, FloatArray, IntArray, Label

Amounts = Mapping[str, ArrayLike] | None


class CostedSample:
    """Rows with the costs of a rule: what each row costs with given predictions.

    The rows of `data` know which rows of the input they are, so that amounts can be found for any of them.
    """

    def __init__(self, data: Sample, rule: DecisionRule, amounts: Amounts, n_given: int) -> None:
        self.data = data if data.rows is not None else replace(data, rows=np.arange(data.n_rows))
        self.table = rule.matched(data.names).table
        self._amounts = self.table.check_amounts(amounts, n_given)

    def actions(self, sample: Sample) -> IntArray:
        """The number of the cheapest action for each row."""
        amounts = {name: values[sample.rows] for name, values in self._amounts.items()}
        return cheapest(self.table.expected(sample.proba, amounts))

    def lost(self, sample: Sample, chosen: IntArray) -> FloatArray:
        """What actions given by number would cost in each class, (n, k)."""
        costs = self.table.numbers[chosen]
        for name, places in self.table.amounts.items():
            costs = costs + self._amounts[name][sample.rows][:, None] * places[chosen]
        return costs

    def row_costs(self, sample: Sample) -> FloatArray:
        """What each row cost, by the cheapest actions, in the class that was observed."""
        return self.lost(sample, self.actions(sample))[np.arange(sample.n_rows), sample.y]

    def rare(self, sample: Sample) -> list[FloatArray]:
        """Weights of outcomes that a small sample may lack: what costs something, what costs nothing, what costs most.

        Costs are weighed by their size; without the costliest ones by themselves intervals hold the true cost in 84 %
        of samples of 500 rows instead of 95 % (`benchmarks/levels_decisions.py`).
        """
        lost = self.lost(sample, self.actions(sample))
        return [sample.proba * part for part in (lost, lost == 0.0, lost * (lost >= lost.max() / 2))]


def with_intervals(
    prepare: Callable[[Sample], Callable[[AnyFloatArray], Sequence[float] | FloatArray]],
    data: Sample,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    unseen: Sequence[FloatArray] | None = None,
    *,
    added: Callable[[], FloatArray | float] = lambda: 0.0,
    lower: Sequence[float] | float = -np.inf,
    upper: float = np.inf,
) -> list[Estimate]:
    """Statistics with intervals from the same resamples, which hold outcomes that may not have been seen.

    `prepare` makes of a sample what gives their values for counts of its rows; `lower` and `upper` bound them, and
    `added` makes what each resample (n_resamples, m) has in addition.
    """
    check_level(level)
    values = np.array(prepare(data)(data.each), dtype=np.float64)
    if too_few(data.units):
        return [Estimate(value, float("nan"), float("nan"), level) for value in values.tolist()]
    drawn = bootstrap_with_unseen(prepare, data, n_resamples=n_resamples, random_state=random_state, outcomes=unseen)
    drawn += added()
    return [
        interval(value, column, level=level, units=data.units, lower=least, upper=upper)
        for value, column, least in zip(values.tolist(), drawn.T, np.broadcast_to(lower, len(values)).tolist())
    ]


def mean_costs(
    costs: Callable[[Sample], Sequence[FloatArray]],
) -> Callable[[Sample], Callable[[AnyFloatArray], list[float]]]:
    """For `with_intervals`: means of what each row costs."""

    def prepare(sample: Sample) -> Callable[[AnyFloatArray], list[float]]:
        rows = costs(sample)
        return lambda counts: [counts @ row / counts.sum() for row in rows]

    return prepare


@limited
@describe_parameters
def decision_cost(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    rule: DecisionRule,
    *,
    amounts: Amounts = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> Estimate:
    """Mean cost of the decisions of a rule, with its interval.

    Returns
    -------
    Estimate
        Cost per observation.

    Examples
    --------
    >>> from calibrant import DecisionRule
    >>> from calibrant.decisions import decision_cost
    >>> rule = DecisionRule(false_positive=1, false_negative=20)
    >>> decision_cost([0, 0, 1, 1], [0.01, 0.2, 0.03, 0.9], rule).value  # one false alarm, one miss
    5.25
    """
    data = check_sample(
        y_true, y_prob, sample_weight, rule.classes if classes is None else classes, groups=groups, blocks=blocks
    )
    costed = CostedSample(data, rule, amounts, len(as_matrix(y_prob)[0]))
    costs = mean_costs(lambda sample: [costed.row_costs(sample)])
    unseen = costed.rare(costed.data)
    return with_intervals(costs, costed.data, level, n_resamples, random_state, unseen, lower=0.0)[0]


@dataclass(frozen=True)
class DecisionComparison:
    """What the decisions of two sets of predictions cost on the same rows.

    Attributes
    ----------
    before, after, saved : Estimate
        Cost per observation of each, and `before - after` with the interval of the paired difference.
    changed : float
        Number of observations whose action differs.
    total : float
        Number of observations.
    """

    before: Estimate
    after: Estimate
    saved: Estimate
    changed: float
    total: float

    def __str__(self) -> str:
        share = f"{count(self.changed)} of {count(self.total)} decisions change ({percent(self.changed / self.total)})"
        if self.changed == 0:
            return "No decision changes, so nothing is saved or lost."
        cost = f"the cost per decision goes from {self.before.value:.4g} to {self.after.value:.4g}"
        if np.isnan(self.saved.low):
            return f"{share}; {cost}. There are too few observations to tell whether this is chance."
        ends = f"{self.saved.level:.0%} interval of the saving {self.saved.low:.4g} to {self.saved.high:.4g}"
        proven = self.saved.low > 0 or self.saved.high < 0
        verdict = "" if proven else " That may be chance."
        return f"{share}; {cost} ({ends}).{verdict}"


@limited
@describe_parameters
def compare_decisions(
    y_true: ArrayLike,
    y_prob_before: ArrayLike,
    y_prob_after: ArrayLike,
    rule: DecisionRule,
    *,
    amounts: Amounts = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
) -> DecisionComparison:
    """What one set of predictions saves in comparison with another: before and after calibration, or two models.

    Parameters
    ----------
    y_prob_before, y_prob_after : array-like of shape (n, k), (n, 1) or (n,)
        Two sets of predictions of the same rows. The rows must be others than those that calibration was fitted to.

    Returns
    -------
    DecisionComparison

    Examples
    --------
    >>> from calibrant import DecisionRule
    >>> from calibrant.decisions import compare_decisions
    >>> rule = DecisionRule(false_positive=1, false_negative=20)
    >>> found = compare_decisions([0, 0, 1, 0], [0.3, 0.2, 0.4, 0.1], [0.02, 0.01, 0.3, 0.01], rule)
    >>> found.before.value, found.after.value, found.changed
    (0.75, 0.0, 3.0)
    """
    together: dict[str, Any] = {"groups": groups, "blocks": blocks}
    named = rule.classes if classes is None else classes
    before = check_sample(y_true, y_prob_before, sample_weight, named, **together)
    after = check_sample(y_true, y_prob_after, sample_weight, named, **together)
    if before.proba.shape != after.proba.shape:
        raise ValueError(
            f"the two sets of predictions have shapes {before.proba.shape} and {after.proba.shape}: they must have the "
            "same rows and classes"
        )
    costed = CostedSample(before, rule, amounts, len(as_matrix(y_prob_before)[0]))
    data = costed.data
    # Rows of a resample find the other predictions by the row of the input that they are.
    place = np.zeros(int(data.rows.max()) + 1, dtype=np.int64)  # type: ignore[union-attr]
    place[data.rows] = np.arange(data.n_rows)

    def costs(sample: Sample) -> list[FloatArray]:
        other = sample.with_values(after.proba[place[sample.rows]], logs=False)
        pair = [costed.row_costs(sample), costed.row_costs(other)]
        return [*pair, pair[0] - pair[1]]

    actions = [costed.actions(data), costed.actions(data.with_values(after.proba, logs=False))]
    lost = [costed.lost(data, chosen) for chosen in actions]
    # Where few actions change, what they save in one row says little of what they lose in another.
    unseen = [data.proba * part for part in (*lost, np.maximum(lost[0] - lost[1], 0), np.maximum(lost[1] - lost[0], 0))]
    prepare, lower = mean_costs(costs), [0.0, 0.0, -np.inf]
    first, second, saved = with_intervals(prepare, data, level, n_resamples, random_state, unseen, lower=lower)
    changed = float(before.each @ (actions[0] != actions[1]))
    return DecisionComparison(first, second, saved, changed, before.total)


@dataclass(frozen=True)
class BestThreshold:
    """The threshold that would have cost least on labelled rows, and how much more the rule's own threshold cost.

    Attributes
    ----------
    threshold : float
        Rows with a probability of the second class of at least this much get the second action; infinite if none does.
    cost, regret : float
        Cost per observation in hindsight, and how much more the rule's own threshold cost.
    """

    threshold: float
    cost: float
    regret: float


@partial(public, grouped=False)
def best_threshold(data: Sample, rule: DecisionRule) -> BestThreshold:
    """The best threshold in hindsight of two classes and two actions, and the regret of the rule's own.

    Calibrated probabilities have little regret: what is left is chance. It is a value of these rows, which a threshold
    chosen on them does not keep on others.

    Parameters
    ----------
    rule : DecisionRule
        Costs of two actions in two classes.

    Examples
    --------
    >>> from calibrant import DecisionRule
    >>> best_threshold([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8], DecisionRule(false_positive=1, false_negative=20))
    BestThreshold(threshold=0.3, cost=0.25, regret=0.25)
    """
    matched = rule.matched(data.names)
    # Asks for two classes, two actions and no amounts, and says so.
    matched.threshold  # noqa: B018
    costs, score = matched.costs, data.proba[:, 1].astype(np.float64)
    order = np.argsort(-score, kind="stable")
    saved = data.each * (costs[0, data.y] - costs[1, data.y])
    ends = np.flatnonzero(np.append(np.diff(-score[order]) > 0, True))
    gained: AnyFloatArray = np.append(0.0, np.cumsum(saved[order])[ends])
    best = int(np.argmax(gained))
    found = (float(data.each @ costs[0, data.y]) - float(gained[best])) / data.total
    own = float(data.each @ costs[cheapest(matched.table.expected(data.proba, {})), data.y]) / data.total
    return BestThreshold(np.inf if best == 0 else float(score[order][ends[best - 1]]), found, max(own - found, 0.0))
