"""Costs and grades as the command line takes them, and the backtests of batches by grade.

Costs are ``fp=1,fn=20``, ``action:class=cost`` by names, or a file with a matrix; grades are a number of them, or a
table of a scale.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.decisions.rule import DecisionRule
from calibrant.deployment.inputs import batch
from calibrant.deployment.monitoring.periods import in_words
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import TableRows
from calibrant.grades import GradeBacktest, MasterScale
from calibrant.inputs.words import RequestError
from calibrant.numerals import count
from calibrant.text_table import list_names
from calibrant.typing import Label

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_FORMS = "fp=1,fn=20 for two classes, action:class=cost,action=cost by names, or a JSON or CSV file"


def rule_of(calibrator: BaseEstimator, given: str, positive: str | None = None) -> DecisionRule:
    """The rule that `given` says, for the classes of a fitted calibrator.

    `given` is ``fp=1,fn=20``; or costs by names, such as ``home:ill=100,admit:healthy=30,doctor=8``, where a cost
    without a class is that of an action whatever happens; or the name of a file. A single action without a class, such
    as ``ask=0.2``, is added to one action per class, where the wrong class costs 1. A cost that is not a number is read
    as the name of a column. `positive` is the class that ``fp`` and ``fn`` refer to, if it is not the second one.
    """
    classes = np.asarray(calibrator.classes_).tolist()
    labels = {str(label): label for label in classes}
    pairs = None if Path(given).suffix.lower() in (".json", ".csv") else [_item(item) for item in given.split(",")]
    if positive is not None and (positive not in labels or len(classes) != 2):
        raise RequestError(f"the positive class must be one of two classes; there are {list_names(classes)}")
    try:
        if pairs is None:
            return _from_file(Path(given), labels).matched(classes)
        keys = [(action, name) for action, name, _ in pairs]
        if ("fp", None) in keys or ("fn", None) in keys:
            if sorted(keys) != [("fn", None), ("fp", None)]:
                raise ValueError("fp and fn go together, and with no other cost: fp=1,fn=20")
            costs = {action: cost for action, _, cost in pairs}
            first, second = _mistakes(calibrator, classes, positive)
            rule = DecisionRule([[0, costs[second]], [costs[first], 0]], classes=classes)
        elif len(pairs) == 1 and keys[0][1] is None:
            rule = DecisionRule.abstention(pairs[0][2], classes, action=pairs[0][0])
        else:
            table: dict[Any, Any] = {}
            for action, name, cost in pairs:
                if name is None:
                    table[action] = cost
                elif isinstance(table.setdefault(action, {}), dict):
                    table[action][name] = cost
            rule = _by_names(table, labels)
        return rule.matched(classes)
    except ValueError as error:
        raise RequestError(f"the costs {given!r:.80}: {error}") from error


def _item(text: str) -> tuple[str, str | None, Any]:
    """Action, class and cost."""
    place, sign, cost = text.rpartition("=")
    action, colon, name = place.partition(":")
    if not sign or not action.strip() or not cost.strip() or (colon and not name.strip()):
        raise RequestError(f"{text!r:.60} is not a cost: give {_FORMS}")
    return action.strip(), name.strip() if colon else None, _cost(cost)


def _cost(text: Any) -> Any:
    """A number, or the name of a column."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return text.strip() if isinstance(text, str) else text


def _mistakes(calibrator: BaseEstimator, classes: Sequence[Label], positive: str | None) -> tuple[str, str]:
    """Which mistake it is to choose the second class, and which to choose the first one."""
    if len(classes) != 2:
        raise ValueError(f"fp and fn are for two classes, and there are {len(classes)}: give costs by names")
    told = calibrator.n_features_in_ == 1 or not any(isinstance(label, str) for label in classes)
    if positive is None and not told:
        raise ValueError(f"which of {list_names(classes)} is the positive class? Name it with --positive")
    return ("fp", "fn") if positive in (None, str(classes[1])) else ("fn", "fp")


def _by_names(table: Mapping[Hashable, object], labels: Mapping[str, Label]) -> DecisionRule:
    """A rule from costs by the texts of actions and classes."""
    named = {
        labels.get(str(action), action): {labels.get(str(name), name): _cost(cost) for name, cost in row.items()}
        if isinstance(row, dict)
        else _cost(row)
        for action, row in table.items()
    }
    return DecisionRule(named, classes=list(labels.values()))


def _from_file(path: Path, labels: Mapping[str, Label]) -> DecisionRule:
    """A rule from JSON, ``{action: {class: cost}}``, or CSV, a line for each action and a column for each class."""
    if not path.exists():
        raise RequestError(f"there is no file {path} with costs")
    if path.suffix.lower() == ".json":
        table = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(table, dict):
            raise ValueError('the file should hold an object such as {"check": {"honest": 1}, "pay": {"fraud": 20}}')
        return _by_names(table, labels)
    with path.open(encoding="utf-8-sig", newline="") as file:
        head, *lines = [line for line in csv.reader(file) if line] or [[]]
    if any(len(line) != len(head) for line in lines) or not lines:
        raise ValueError("the file should have the names of the classes in its first line, and a line for each action")
    return _by_names({line[0]: dict(zip(head[1:], line[1:])) for line in lines}, labels)


def scale_of(given: str) -> MasterScale | int:
    """A number of grades, or the scale in a table, of which only `upper`, the upper ends of grades, is needed."""
    if given.isdecimal() and int(given) > 0:
        return int(given)
    columns: dict[str, list[object]] = {}
    for part in open_table(given).batches():
        for name, values in part.data.to_pydict().items():
            columns.setdefault(name, []).extend(values)
    try:
        return MasterScale.from_dict(columns)
    except (ValueError, TypeError) as error:
        raise RequestError(f"{given}: {error}") from error


def given_scale(given: str, calibrator: BaseEstimator) -> MasterScale:
    """The scale in a table, for a calibrator of two classes."""
    scale = scale_of(given)
    if isinstance(scale, int):
        raise RequestError("batches are compared by one scale: give a table with the upper end of each grade")
    if len(calibrator.classes_) != 2:
        raise RequestError(f"grades are for two classes, and the calibrator has {len(calibrator.classes_)}")
    return scale


def backtest_batches(
    calibrator: object, scale: MasterScale, batches: Sequence[tuple[str | None, TableRows]]
) -> dict[str, GradeBacktest]:
    """Backtests of the labelled rows of each batch, with calibrated probabilities."""
    found = {}
    for number, (name, rows) in enumerate(batches, 1):
        if rows.labels is not None:
            given: dict[str, Any] = {"sample_weight": rows.weight, "groups": rows.groups}
            data = batch(calibrator, rows.values, rows.labels, rows.segments, **given)
            data = data.take(np.flatnonzero(data.y >= 0))
            if data.n_rows:
                words = f"batch {number}" if name is None else in_words(name)
                kept: dict[str, Any] = {"sample_weight": data.counts, "groups": data.groups}
                found[words] = scale.backtest(data.y, data.proba, classes=[0, 1], **kept)
    return found


def periods_by_grade(found: dict[str, GradeBacktest]) -> list[list[str]]:
    """Rows of text, a batch in each: the cases of each grade, and lights that are not green."""
    first = next(iter(found.values()))
    table = [["observed / expected", *first.grades]]
    for name, one in found.items():
        cells = [
            f"{count(d)} / {count(e)} {'' if light == 'green' else light}".rstrip() if n else ""
            for n, d, e, light in zip(one.observations, one.observed, one.expected, one.light)
        ]
        table.append([name, *cells])
    return table
