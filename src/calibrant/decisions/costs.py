"""Costs of actions as they may be given, a matrix or a dictionary by names, with errors that name the place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.steps.actions import CostTable, costs_of_rows
from calibrant.steps.step import LARGE
from calibrant.text_table import list_names
from calibrant.typing import Label


def distinct_names(names: Any, what: str) -> list[Label]:
    listed = np.asarray(names).tolist() if isinstance(names, np.ndarray) else list(names)
    if len(set(listed)) != len(listed):
        again = next(name for name in listed if listed.count(name) > 1)
        raise ValueError(f"{what} names {again!r} twice")
    return listed


def costs_of_matrix(costs: Any, actions: Sequence[Label] | None, classes: list[Label] | None) -> CostTable:
    matrix = list(costs) if isinstance(costs, Iterable) and not isinstance(costs, str) else []
    rows = [list(row) if np.ndim(row) == 1 else None for row in matrix]
    widths = {None if row is None else len(row) for row in rows}
    if len(widths) != 1 or None in widths or len(rows) < 2 or widths == {1}:
        raise ValueError("costs must be a matrix with a row for each action, at least two, and a column for each class")
    k = len(rows[0] or [])
    if classes is not None and len(classes) != k:
        raise ValueError(f"costs have {k} columns, and there are {len(classes)} classes: {list_names(classes)}")
    names = None if actions is None else distinct_names(actions, "actions")
    if names is not None and len(names) != len(rows):
        raise ValueError(f"costs have {len(rows)} rows, and there are {len(names)} actions: {list_names(names)}")
    if names is None and classes is not None and len(rows) == k:
        names = list(classes)
    return costs_of_rows([row or [] for row in rows], names, classes)


def costs_of_dict(
    costs: Mapping[Hashable, object], actions: Sequence[Label] | None, classes: list[Label] | None
) -> CostTable:
    if actions is not None:
        unknown = [name for name in actions if name not in costs]
        if unknown or len(list(actions)) != len(costs):
            raise ValueError(f"actions must be those of the costs: {list_names(list(costs))}")
        costs = {name: costs[name] for name in actions}
    if len(costs) < 2:
        raise ValueError(f"costs need at least two actions, got {list_names(list(costs))}")
    if classes is None:
        named = {name for row in costs.values() if isinstance(row, Mapping) for name in row}
        # An action is a class, too, if it is one that other actions have a cost for.
        classes = sorted(named)
        if len(classes) < 2:
            raise ValueError("costs name fewer than two classes: pass classes=[...]")
    rows = []
    for action, row in costs.items():
        if not isinstance(row, Mapping):
            rows.append([row] * len(classes))
            continue
        unknown = [name for name in row if name not in classes]
        if unknown:
            raise ValueError(
                f"the action {action!r} has a cost for {unknown[0]!r}; the classes are {list_names(classes)}"
            )
        # Nothing is lost by the action that belongs to a class, and by the only class that is left out.
        lacking = [name for name in classes if name not in row and name != action]
        if len(lacking) > 1 or (lacking and action in classes):
            raise ValueError(f"the action {action!r} has no cost for {list_names(lacking)}")
        rows.append([row.get(name, 0) for name in classes])
    return costs_of_rows(rows, list(costs), classes)


def check_costs(parsed: CostTable) -> None:
    for a, j in zip(*np.nonzero(~(np.abs(parsed.numbers) <= LARGE))):
        raise ValueError(f"the cost of {_place(parsed, a, j)} is not a finite number, or above {LARGE:g}")
    for a, j in zip(*np.nonzero(parsed.numbers < 0)):
        raise ValueError(
            f"the cost of {_place(parsed, a, j)} is {parsed.numbers[a, j]:g}: costs must not be negative. Decisions "
            f"depend on differences within a class only, so add {-parsed.numbers[:, j].min():g} to all its costs."
        )


def _place(parsed: CostTable, a: int, j: int) -> str:
    action = f"action {a}" if parsed.actions is None else f"the action {parsed.actions[a]!r}"
    name = f"class {j}" if parsed.classes is None else f"the class {parsed.classes[j]!r}"
    return f"{action} in {name}"
