"""The costs of actions in classes, and the cheapest action: what a decision rule does to probabilities.

An action `a` has the expected cost ``Σ_j p_j c_aj``, plus costs that depend on amounts of the row. The cheapest
action is taken; of equally cheap ones, the first. It needs NumPy alone, so that a stored map can decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.steps.step import LARGE, require
from calibrant.typing import AnyFloatArray, FloatArray, IntArray, Label

#: Expected costs whose ratio is closer to one are equal. Costs are not negative, so that their sums are exact to a few
#: last digits, far less than this: programs that add in another order decide a tie in the same way.
TIE = 1e-9


@dataclass(frozen=True)
class CostTable:
    """Costs (actions, classes) as they were understood: numbers, and for each amount of a row where it stands."""

    numbers: FloatArray
    amounts: dict[str, FloatArray]
    actions: list[Label] | None
    classes: list[Any] | None
    #: Whether the costs were given as those of false positives and false negatives.
    pair: bool = False

    @property
    def names(self) -> list[Any]:
        """Names of the actions; numbers where they have none."""
        return list(range(len(self.numbers))) if self.actions is None else self.actions

    def expected(self, proba: AnyFloatArray, amounts: Mapping[str, FloatArray]) -> FloatArray:
        """What each action is expected to cost, (n, actions)."""
        total: FloatArray = proba @ self.numbers.T
        for name, places in self.amounts.items():
            total += amounts[name][:, None] * (proba @ places.T)
        return total

    def check_amounts(self, amounts: Mapping[str, ArrayLike] | None, n: int) -> dict[str, FloatArray]:
        """The amounts that the costs name, one number for each of `n` rows."""
        found = {}
        for name in self.amounts:
            if amounts is None or name not in amounts:
                raise ValueError(
                    f"the costs name the amount {name!r}, which was not given: pass amounts={{{name!r}: ...}} "
                    "with a number for each row"
                )
            values = np.asarray(amounts[name], dtype=np.float64)
            if values.shape != (n,):
                raise ValueError(f"the amount {name!r} has shape {values.shape}, there are {n} rows")
            wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
            if len(wrong):
                raise ValueError(
                    f"the amount {name!r} is {values[wrong[0]]} in row {wrong[0]}: amounts are finite and not negative"
                )
            found[name] = values
        return found

    def ordered(self, order: Sequence[int], classes: list[Label]) -> CostTable:
        """The same costs with their columns in another order, of classes with these names."""
        square = self.actions is None and self.numbers.shape[0] == self.numbers.shape[1]
        amounts = {name: places[:, order] for name, places in self.amounts.items()}
        return replace(
            self,
            numbers=self.numbers[:, order],
            amounts=amounts,
            actions=classes if square else self.actions,
            classes=classes,
            pair=False,
        )

    def rows(self) -> list[list[Any]]:
        """The costs as they were given: numbers, and names of amounts."""
        rows: list[list[object]] = self.numbers.tolist()
        for name, places in self.amounts.items():
            for a, j in zip(*np.nonzero(places)):
                rows[a][j] = name
        return rows

    def to_json(self) -> dict[str, Any]:
        """The costs and the names of actions in terms of JSON."""
        names = [name if isinstance(name, (bool, int, float, str)) else str(name) for name in self.names]
        return {"costs": self.rows(), "actions": names}

    @classmethod
    def from_json(cls, value: Any, classes: list[Label]) -> CostTable:
        """The costs that `to_json` wrote; everything is checked, since a file may come from anyone."""
        require(isinstance(value, dict) and set(value) == {"costs", "actions"}, "a rule should hold costs and actions")
        costs, actions = value["costs"], value["actions"]
        require(isinstance(costs, list) and len(costs) > 1, "costs should have a row for each of at least two actions")
        for row in costs:
            require(isinstance(row, list) and len(row) == len(classes), "costs should have a column for each class")
            right = [type(cost) is str or (type(cost) in (int, float) and 0 <= cost <= LARGE) for cost in row]
            require(all(right), f"costs should be numbers from 0 to {LARGE:g}, or names of amounts")
        named = isinstance(actions, list) and all(isinstance(name, (str, int, float)) for name in actions)
        require(
            named and len(set(actions)) == len(costs) == len(actions), "actions should be one name per row of costs"
        )
        return costs_of_rows(costs, actions, classes)


def column_cells(names: list[Label]) -> list[Any]:
    """Names of actions as cells of one column of a table: all of them texts if one of them is a text."""
    return [str(name) for name in names] if any(isinstance(name, str) for name in names) else names


def costs_of_rows(rows: list[list[Any]], actions: list[Label] | None, classes: list[Label] | None) -> CostTable:
    """Costs from rows of numbers and names of amounts; what is neither becomes NaN."""
    numbers = np.zeros((len(rows), len(rows[0])))
    amounts: dict[str, FloatArray] = {}
    for a, row in enumerate(rows):
        for j, cost in enumerate(row):
            if isinstance(cost, str):
                amounts.setdefault(cost, np.zeros(numbers.shape))[a, j] = 1.0
                continue
            try:
                numbers[a, j] = float(cost)
            except (TypeError, ValueError):
                numbers[a, j] = np.nan
    return CostTable(numbers, amounts, actions, classes)


def cheapest(costs: FloatArray) -> IntArray:
    """The number of the cheapest action for expected costs (n, actions); of equally cheap ones the first."""
    least = costs.min(axis=1, keepdims=True)
    return np.asarray((costs <= least * (1.0 + TIE)).argmax(axis=1))
