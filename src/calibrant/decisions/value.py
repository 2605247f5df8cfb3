"""What decisions cost on labelled rows: before against after calibration, and beside the best threshold in hindsight.

The cost of a row is `c_aj` for the action `a` that was taken and the class `j` that was observed; the cost of a sample
is the mean over its observations. Two sets of predictions are compared row by row, so that the interval of the
difference knows that both were asked about the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from calibrant.metrics.scalars import Statistic, summed_mean
from calibrant.numerals import count, percent
from calibrant.sample import Sample
from calibrant.threads import limited
from calibrant.typing import AnyFloatArray, AnyIntArray, FloatArray, IntArray

Amounts = Mapping[str, ArrayLike] | None


def classes_of(classes: Sequence[Any] | None, rule: DecisionRule) -> Sequence[Any] | None:
    """The label of each column: as given, else in the order of the rule."""
    return rule.classes if classes is None else classes


class CostedSample:
    """Rows with the costs of a rule: what each row costs with given predictions.

    The rows of `data` know which rows of the input they are, so that amounts can be found for any of them.
    """

    def __init__(self, data: Sample, rule: DecisionRule, amounts: Amounts, n_given: int) -> None:
        self.data = data if data.rows is not None else replace(data, rows=np.arange(data.n_rows))
        self.rule = rule.matched(data.names)
        self._amounts = self.rule.check_amounts(amounts, n_given)

    def actions(self, proba: AnyFloatArray, rows: AnyIntArray) -> IntArray:
        """The number of the cheapest action for probabilities of these rows of the input."""
        return self.rule.cheapest(self._costs(proba, rows))

    def observed(self, sample: Sample, chosen: IntArray) -> FloatArray:
        """What actions given by number cost in the classes that were observed."""
        seen = np.zeros(sample.proba.shape)
        seen[np.arange(sample.n_rows), sample.y] = 1.0
        return self._costs(seen, self.rows_of(sample))[np.arange(sample.n_rows), chosen]

    def row_costs(self, sample: Sample) -> FloatArray:
        """What each row cost."""
        return self.observed(sample, self.actions(sample.proba, self.rows_of(sample)))

    def lost(self, sample: Sample, chosen: IntArray) -> FloatArray:
        """What actions given by number would cost in each class, (n, k)."""
        every = range(self.data.n_classes)
        return np.stack([self.observed(replace(sample, y=np.full(sample.n_rows, j)), chosen) for j in every], 1)

    def rare(self, sample: Sample, chosen: IntArray) -> list[FloatArray]:
        """Weights of outcomes that a small sample may lack: what costs something, what costs nothing, what costs most.

        Costs are weighed by their size; without the costliest ones by themselves intervals hold the true cost in 84 %
        of samples of 500 rows instead of 95 % (`benchmarks/levels_decisions.py`).
        """
        lost = self.lost(sample, chosen)
        return [sample.proba * part for part in (lost, lost == 0.0, lost * (lost >= lost.max() / 2))]

    def rows_of(self, sample: Sample) -> AnyIntArray:
        """The rows of the input that the rows of a sample are."""
        assert sample.rows is not None
        return sample.rows

    def _costs(self, proba: AnyFloatArray, rows: AnyIntArray) -> FloatArray:
        return self.rule.cost_of_rows(proba, {name: values[rows] for name, values in self._amounts.items()})


def means(
    rows_of: Callable[[Sample], Sequence[FloatArray]],
    data: Sample,
    level: float,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
    unseen: Sequence[FloatArray],
    lower: Sequence[float],
) -> list[Estimate]:
    """Means of what each row contributes, with intervals from the same resamples, which hold unseen outcomes, too.

    `lower` has the least value that each can have.
    """
    check_level(level)
    values = [float(data.each @ rows) / data.total for rows in rows_of(data)]
    if too_few(data.units):
        return [Estimate(value, float("nan"), float("nan"), level) for value in values]

    def prepare(sample: Sample) -> list[Statistic]:
        return [summed_mean(rows).__call__ for rows in rows_of(sample)]

    drawn = bootstrap_with_unseen(prepare, data, n_resamples=n_resamples, random_state=random_state, outcomes=unseen)
    return [
        interval(value, column, level=level, units=data.units, lower=least)
        for value, column, least in zip(values, drawn.T, lower)
    ]


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
    classes: Sequence[Any] | None = None,
) -> Estimate:
    """Mean cost of the decisions of a rule, with its interval.

    Parameters
    ----------
    rule : DecisionRule
        What is done at which probabilities.
    amounts : mapping of str to array-like of shape (n,), default=None
        The amounts of each row that the costs name.

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
    data = check_sample(y_true, y_prob, sample_weight, classes_of(classes, rule), groups=groups, blocks=blocks)
    costed = CostedSample(data, rule, amounts, len(as_matrix(y_prob)[0]))
    data = costed.data
    unseen = costed.rare(data, costed.actions(data.proba, costed.rows_of(data)))
    return means(lambda sample: [costed.row_costs(sample)], data, level, n_resamples, random_state, unseen, [0.0])[0]


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
            return f"{share}; {cost}. There are too few observations to tell whether that is chance."
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
    classes: Sequence[Any] | None = None,
) -> DecisionComparison:
    """What one set of predictions saves in comparison with another: before and after calibration, or two models.

    Parameters
    ----------
    y_prob_before, y_prob_after : array-like of shape (n, k), (n, 1) or (n,)
        Two sets of predictions of the same rows. The rows must be others than those that calibration was fitted to.
    rule : DecisionRule
        What is done at which probabilities.
    amounts : mapping of str to array-like of shape (n,), default=None
        The amounts of each row that the costs name.

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
    named = classes_of(classes, rule)
    before = check_sample(y_true, y_prob_before, sample_weight, named, **together)
    after = check_sample(y_true, y_prob_after, sample_weight, named, **together)
    if before.proba.shape != after.proba.shape:
        raise ValueError(
            f"the two sets of predictions have shapes {before.proba.shape} and {after.proba.shape}: they must be of "
            "the same rows and classes"
        )
    costed = CostedSample(before, rule, amounts, len(as_matrix(y_prob_before)[0]))
    data = costed.data
    given = costed.rows_of(data)
    # Rows of a resample find the other predictions by the row of the input that they are.
    place = np.zeros(int(given.max()) + 1, dtype=np.int64)
    place[given] = np.arange(data.n_rows)

    def rows_of(sample: Sample) -> list[FloatArray]:
        rows = costed.rows_of(sample)
        first = costed.row_costs(sample)
        second = costed.observed(sample, costed.actions(after.proba[place[rows]], rows))
        return [first, second, first - second]

    actions = [costed.actions(predictions.proba, given) for predictions in (before, after)]
    lost = [costed.lost(data, chosen) for chosen in actions]
    # Where few actions change, what they save in one row says little of what they lose in another.
    unseen = [data.proba * part for part in (*lost, np.maximum(lost[0] - lost[1], 0), np.maximum(lost[1] - lost[0], 0))]
    first, second, saved = means(rows_of, data, level, n_resamples, random_state, unseen, [0.0, 0.0, -np.inf])
    changed = float(before.each @ (actions[0] != actions[1]))
    return DecisionComparison(first, second, saved, changed, before.total)


@dataclass(frozen=True)
class BestThreshold:
    """The threshold that would have cost least on labelled rows, and what the rule's own threshold cost more.

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


@limited
@describe_parameters
def best_threshold(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    rule: DecisionRule,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
) -> BestThreshold:
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
    >>> from calibrant.decisions import best_threshold
    >>> best_threshold([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8], DecisionRule(false_positive=1, false_negative=20))
    BestThreshold(threshold=0.3, cost=0.25, regret=0.25)
    """
    data = check_sample(y_true, y_prob, sample_weight, classes_of(classes, rule))
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
    own = float(data.each @ costs[matched.cheapest(matched.cost_of_rows(data.proba, {})), data.y]) / data.total
    return BestThreshold(np.inf if best == 0 else float(score[order][ends[best - 1]]), found, max(own - found, 0.0))
