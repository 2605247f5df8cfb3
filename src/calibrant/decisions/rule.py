"""From probabilities to actions: the action with the lowest expected cost.

A rule has a cost `c_aj` for every action `a` and every class `j`. With probabilities `p` an action is expected to cost
`Σ_j p_j c_aj`, and the rule takes the cheapest one. For two classes and two actions that is a threshold,

    t = (c_10 - c_00) / (c_10 - c_00 + c_01 - c_11),

1/21 where a miss costs 20 and a false alarm 1. Probabilities must be calibrated for this to be the best choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.decisions.costs import check_costs, costs_of_dict, costs_of_matrix, distinct_names
from calibrant.docs import describe_parameters
from calibrant.inputs.class_columns import check_second_class, columns_of_classes
from calibrant.inputs.predictions import as_matrix, rounding_of, to_probabilities
from calibrant.inputs.words import METRIC
from calibrant.numerals import percent
from calibrant.steps.actions import CostTable, cheapest
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, AnyFloatArray, FloatArray, IntArray, Label


class ActionRange(NamedTuple):
    """The probabilities of the second class for which an action is the cheapest."""

    action: Any
    low: float
    high: float


class DecisionRule:
    """The action with the lowest expected cost, from the costs of every action in every class.

    Parameters
    ----------
    costs : array-like of shape (actions, classes), or dict, default=None
        A matrix, or a dictionary ``{action: {class: cost}}``; ``{action: cost}`` is an action that costs the same
        whatever the class is, such as asking a person. A cost may be the name of an amount that each row has, such as
        ``"amount"``, which `decide` is then given. In a dictionary the cost of an action in the class of the same name
        is zero if it is not given.
    actions : sequence, default=None
        Names of the actions, in the order of the rows of a matrix; by default the classes, if there are as many.
    classes : sequence, default=None
        Names of the classes, in the order of the columns of the probabilities. By default those of a dictionary in
        sorted order, as scikit-learn orders classes; a matrix needs no names.
    false_positive, false_negative : float or str, default=None
        Instead of `costs`, for two classes: the costs of choosing the second class where the first one is observed, and
        of choosing the first one where the second is observed. Classes that are texts must be named with `classes`, the
        negative one first.

    Examples
    --------
    >>> from calibrant import DecisionRule
    >>> rule = DecisionRule(false_positive=1, false_negative=20)
    >>> rule.threshold == 1 / 21
    True
    >>> rule.decide([0.04, 0.05])
    array([0, 1])
    >>> triage = DecisionRule({"send home": {"ill": 100}, "admit": {"healthy": 30, "ill": 0}, "call a doctor": 8},
    ...                       classes=["healthy", "ill"])
    >>> print(triage)
    Choose 'send home' where the probability of 'ill' is below 8.0%, 'call a doctor' from there to 73.3%, 'admit' above.
    >>> triage.decide([[0.95, 0.05], [0.7, 0.3], [0.1, 0.9]]).tolist()
    ['send home', 'call a doctor', 'admit']
    """

    def __init__(
        self,
        costs: Any = None,
        *,
        actions: Sequence[Label] | None = None,
        classes: Sequence[Label] | None = None,
        false_positive: float | str | None = None,
        false_negative: float | str | None = None,
    ) -> None:
        pair = (false_positive, false_negative)
        if (costs is None) == (pair == (None, None)):
            raise ValueError("give either costs, or false_positive and false_negative for two classes")
        if costs is None:
            if None in pair:
                missing = "false_positive" if false_positive is None else "false_negative"
                raise ValueError(f"{missing} is missing: a rule for two classes needs both costs")
            costs = [[0, false_negative], [false_positive, 0]]
        names = None if classes is None else distinct_names(classes, "classes")
        parsed = (
            costs_of_dict(costs, actions, names)
            if isinstance(costs, Mapping)
            else costs_of_matrix(costs, actions, names)
        )
        check_costs(parsed)
        self._parsed = replace(parsed, pair=pair != (None, None))

    @classmethod
    def abstention(cls, cost: float, classes: Sequence[Label], *, action: Label = "abstain") -> DecisionRule:
        """A rule for any number of classes: a wrong class costs 1, no answer costs `cost`.

        It answers where the largest probability is above ``1 - cost`` (Chow's rule).

        Examples
        --------
        >>> from calibrant import DecisionRule
        >>> DecisionRule.abstention(0.2, ["a", "b", "c"]).decide([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2]]).tolist()
        ['a', 'abstain']
        """
        k = len(classes)
        return cls(np.vstack([1.0 - np.eye(k), np.full(k, cost)]), actions=[*classes, action], classes=classes)

    @property
    def actions(self) -> list[Any]:
        """Names of the actions; numbers where they have none."""
        return self._parsed.names

    @property
    def classes(self) -> list[Any] | None:
        """Names of the classes in the order of the probabilities; `None` where they have none."""
        return self._parsed.classes

    @property
    def costs(self) -> FloatArray:
        """The costs (actions, classes), without the amounts that rows have of their own."""
        return self._parsed.numbers.copy()

    @property
    def table(self) -> CostTable:
        """The costs with their names, as a stored map holds them."""
        return self._parsed

    @property
    def amounts(self) -> list[str]:
        """Names of the amounts that each row must have."""
        return list(self._parsed.amounts)

    @property
    def threshold(self) -> float:
        """Probability of the second class above which the second action is taken, for two classes and two actions.

        Zero if the second action is never the dearer one, infinite if it is never the cheaper one.
        """
        self._need_two("a threshold")
        if len(self.actions) != 2:
            raise ValueError(f"the rule has {len(self.actions)} actions; `ranges` shows where each is taken")
        numbers = self._parsed.numbers
        wasted, missed = numbers[1, 0] - numbers[0, 0], numbers[0, 1] - numbers[1, 1]
        if wasted < 0 and missed < 0:
            raise ValueError(
                f"{self.actions[1]!r} is the cheaper action for low probabilities of the second class, so there is no "
                "threshold above which it is taken: swap the actions, or see `ranges`"
            )
        if missed <= 0 <= wasted:
            return np.inf
        if wasted <= 0:
            return 0.0
        return float(wasted / (wasted + missed))

    @property
    def ranges(self) -> list[ActionRange]:
        """For two classes: the actions that are taken, from low to high probabilities of the second class."""
        self._need_two("ranges of probabilities")
        start, slope = self._parsed.numbers[:, 0], np.diff(self._parsed.numbers, axis=1)[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = (start[:, None] - start) / (slope - slope[:, None])
        inner = crossings[np.isfinite(crossings) & (crossings > 0) & (crossings < 1)]
        ends = np.unique(np.concatenate([[0.0], inner, [1.0]]))
        found: list[ActionRange] = []
        for low, high in pairwise(ends):
            action = self.actions[int(np.argmin(start + slope * (low + high) / 2))]
            if found and found[-1].action == action:
                found[-1] = found[-1]._replace(high=float(high))
            else:
                found.append(ActionRange(action, float(low), float(high)))
        return found

    @describe_parameters
    def expected_cost(self, y_prob: ArrayLike, amounts: Mapping[str, ArrayLike] | None = None) -> FloatArray:
        """What each action is expected to cost.

        Parameters
        ----------
        y_prob : array-like of shape (n, k), (n, 1) or (n,)
            Calibrated probabilities.

        Returns
        -------
        costs : ndarray of shape (n, actions)
        """
        array, columns = as_matrix(y_prob, METRIC)
        proba = to_probabilities(array, rounding=rounding_of(y_prob), words=METRIC)
        if columns is not None and self.classes is not None:
            proba = self._by_name(proba, columns)
        if proba.shape[1] != self._parsed.numbers.shape[1]:
            raise ValueError(
                f"the rule has costs for {self._parsed.numbers.shape[1]} classes, y_prob has {proba.shape[1]}"
            )
        return self._parsed.expected(proba, self._parsed.check_amounts(amounts, len(proba)))

    def _by_name(self, proba: AnyFloatArray, columns: Sequence[Label]) -> AnyFloatArray:
        """Probabilities of a data frame in the order of the classes, if its columns are named after them."""
        classes = np.array(self.classes, dtype=object)
        if len(columns) == 1:
            check_second_class(columns[0], classes.tolist(), METRIC)
            return proba
        order = columns_of_classes(classes, columns)
        return proba if order is None else proba[:, order]

    @describe_parameters
    def decide(self, y_prob: ArrayLike, amounts: Mapping[str, ArrayLike] | None = None) -> AnyArray:
        """The cheapest action for each row; of equally cheap ones (to nine digits) the first.

        Parameters
        ----------
        y_prob : array-like of shape (n, k), (n, 1) or (n,)
            Calibrated probabilities.

        Returns
        -------
        actions : ndarray of shape (n,)

        Examples
        --------
        >>> from calibrant import DecisionRule
        >>> rule = DecisionRule(false_positive=5, false_negative="amount")
        >>> rule.decide([0.1, 0.1], {"amount": [20, 200]})
        array([0, 1])
        """
        return self.named(cheapest(self.expected_cost(y_prob, amounts)))

    def named(self, chosen: IntArray | NDArray[np.intp]) -> AnyArray:
        """Names of actions given by number."""
        names = self.actions
        array = np.array(names)
        if array.ndim != 1 or array.dtype.kind not in "OUSbiuf" or array.tolist() != names:
            array = np.empty(len(names), dtype=object)
            array[:] = names
        return array[chosen]

    def matched(self, classes: Sequence[Label] | AnyArray) -> DecisionRule:
        """The same rule with its columns in the order of `classes`; an error if these are other classes."""
        wanted = distinct_names(classes, "classes")
        if self.classes is None:
            if self._parsed.pair and any(isinstance(name, str) for name in wanted):
                raise ValueError(
                    f"which of {list_names(wanted)} is the positive class? Name the classes in the rule, the negative "
                    f"class first: DecisionRule(..., classes={wanted})"
                )
            if len(wanted) != self._parsed.numbers.shape[1]:
                raise ValueError(
                    f"the rule has costs for {self._parsed.numbers.shape[1]} classes, there are {len(wanted)}: "
                    f"{list_names(wanted)}"
                )
            order = list(range(len(wanted)))
        else:
            unknown = [name for name in self.classes if name not in wanted]
            lacking = [name for name in wanted if name not in self.classes]
            if unknown or lacking:
                said = f"has costs for {list_names(unknown)}" if unknown else f"has no costs for {list_names(lacking)}"
                raise ValueError(f"the rule {said}, but the classes are {list_names(wanted)}")
            order = [self.classes.index(name) for name in wanted]
        made = object.__new__(DecisionRule)
        made._parsed = self._parsed.ordered(order, wanted)
        return made

    def __repr__(self) -> str:
        return f"DecisionRule({self.to_dict()['costs']}, actions={self.actions}, classes={self.classes})"

    def describe(self) -> str:
        """What the rule does, in a sentence."""
        if (cost := self._abstains()) is not None:
            return (
                f"Choose the most probable class where its probability is at least {percent(1.0 - cost)}, "
                f"{self.actions[-1]!r} below."
            )
        if self.amounts or self._parsed.numbers.shape[1] != 2:
            needed = f", given {list_names(self.amounts)} of each row" if self.amounts else ""
            text = f"Choose the action with the lowest expected cost{needed}."
            if self.classes is None or self.actions != self.classes or len(self.classes) != 2:
                return text
            (_, missed), (raised, _) = self._parsed.rows()
            first, second = self.classes
            sizes = [cost if isinstance(cost, str) else f"{cost:g}" for cost in (raised, missed)]
            return (
                f"{text} {second!r} costs {sizes[0]} where {first!r} is true, {first!r} costs {sizes[1]} where "
                f"{second!r} is."
            )
        second = "the second class" if self.classes is None else repr(self.classes[1])
        ranges = self.ranges
        if len(ranges) == 1:
            return f"Always choose {ranges[0].action!r}: it is the cheapest whatever the probability of {second} is."
        first, *between, last = ranges
        middle = "".join(f", {one.action!r} from there to {percent(one.high)}" for one in between)
        text = (
            f"Choose {first.action!r} where the probability of {second} is below {percent(first.high)}"
            f"{middle}, {last.action!r} above."
        )
        unused = [action for action in self.actions if action not in {one.action for one in ranges}]
        return text + (f" Never the cheapest: {list_names(unused)}." if unused else "")

    __str__ = describe

    def _abstains(self) -> float | None:
        """The cost of the last action of many classes, if a wrong class costs 1 and no answer always the same."""
        (n, k), numbers = self._parsed.numbers.shape, self._parsed.numbers
        answers = n == k + 1 > 3 and not self.amounts and self.actions[:k] == self.classes
        alike = answers and np.array_equal(numbers[:k], 1.0 - np.eye(k)) and np.ptp(numbers[k]) == 0.0
        return float(numbers[k, 0]) if alike and numbers[k, 0] < 1.0 - 1.0 / k else None

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain values, which `DecisionRule(**values)` takes."""
        return {"costs": self._parsed.rows(), "actions": self._parsed.actions, "classes": self.classes}

    def _need_two(self, what: str) -> None:
        if self._parsed.numbers.shape[1] != 2:
            raise ValueError(f"{what} is for two classes; the rule has costs for {self._parsed.numbers.shape[1]}")
        if self.amounts:
            raise ValueError(f"{what} would differ from row to row: the costs name {list_names(self.amounts)}")
