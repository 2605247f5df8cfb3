"""A stored calibrator applied to a table in a file, chunk by chunk, or given all of its rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.deployment.monitoring.periods import periods_of
from calibrant.deployment.segments.columns import inputs_of
from calibrant.files.tables.cells import NumberStyle, segment_texts
from calibrant.files.tables.row_checks import TableRows
from calibrant.files.tables.table import TableError
from calibrant.files.tables.table_rows import RowReader, read_all
from calibrant.files.tables.writers import open_writer
from calibrant.inputs.class_columns import NamedColumns
from calibrant.inputs.probability_columns import ProbabilityColumns
from calibrant.inputs.segments import SeenLevels
from calibrant.inputs.words import CalibrationWarning, RequestError
from calibrant.optional import require
from calibrant.steps.actions import cheapest, column_cells
from calibrant.typing import AnyArray, Label

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from calibrant.decisions.rule import DecisionRule

#: What the column of actions, and that of what they are expected to cost, are called.
ACTION, EXPECTED = "action", "expected_cost"


@dataclass(frozen=True)
class Applied:
    """Rows written, calibrated columns and the class of each (of a single one: both classes, its own last).

    Where a rule decided, `actions` are how many rows got each action, and `cost` what they are expected to cost.
    """

    rows: int
    columns: tuple[str, ...]
    classes: tuple[Label, ...]
    actions: dict[Hashable, int] = field(default_factory=dict)
    cost: float = 0.0


def calibrator_columns(calibrator: BaseEstimator, reader: RowReader) -> tuple[ProbabilityColumns, list[int]]:
    """Columns of the table that the calibrator takes, and which of its outputs replaces each.

    The columns are those it was fitted to, by name, unless others are asked for or it knows none. A single column of
    another name, or both columns instead of it, are found as in a fit; both are taken where there are both.
    """
    classes = np.asarray(calibrator.classes_).tolist()
    order = getattr(calibrator, "_column_order", None)
    # Output j, for classes_[j], is made from input order[j].
    place = list(range(len(classes))) if order is None else np.argsort(np.asarray(order)).tolist()
    fitted = getattr(calibrator, "feature_names_in_", None)
    names = () if fitted is None or reader.layout.probs else tuple(str(name) for name in fitted)
    single = len(names) == 1 and names[0] in reader.table.columns
    if single and not reader.layout.scores and (both := reader.pair_with(names[0], classes)) is not None:
        names = tuple(both.names[both.classes.index(label)] for label in classes)
        return ProbabilityColumns(names, tuple(classes), style=both.style), [0, 1]
    if len(names) > 1 or single:
        reader.table.require(names, "probs")
        place = place if len(names) > 1 else place[1:]  # a single column is that of the second class
        return ProbabilityColumns(names, tuple(classes), style=reader.style(names)), place
    found = reader.find(classes)
    if len(found.names) == 1 and getattr(calibrator, "takes_scores", False):
        return found, [1]  # scores concern both classes, whatever they are called
    if len(found.names) == 1:
        # The one column is that of the class it is named after, the second unless it says otherwise.
        return found, [classes.index(found.classes[1])]
    if len(found.names) != len(classes):
        raise RequestError(
            f"the calibrator was fitted to {len(classes)} classes; {len(found.names)} probability columns were found "
            f"in {reader.table.name}",
            "probs",
        )
    names = tuple(found.names[found.classes.index(classes[output])] for output in place)
    return ProbabilityColumns(names, tuple(classes), style=found.style), place


def apply(
    calibrator: BaseEstimator,
    reader: RowReader,
    output: str | Path,
    *,
    suffix: str = "",
    level: float | None = None,
    rule: DecisionRule | None = None,
    force: bool = False,
    progress: Callable[[Iterator[TableRows]], Iterator[TableRows]] = iter,
) -> Applied:
    """Write the table with calibrated probabilities, in the style of its numbers; say what was done.

    With a `suffix` the columns stay, and calibrated ones are added with this at the end of their names; a `level` adds
    intervals of that level. With a `rule`, the predictions stay as they are unless there is a suffix, and the action
    and its expected cost are added instead.
    """
    _take_segments(calibrator, reader)
    if rule is not None and rule.amounts:
        reader.table.require(rule.amounts, "amounts")
        reader.layout = replace(reader.layout, amounts=tuple(rule.amounts))
    columns, place = calibrator_columns(calibrator, reader)
    added = [name + suffix for name in columns.names if suffix]
    if level is not None:
        added += [name + suffix + end for name in columns.names for end in _ENDS]
    taken = [name for name in added + ([] if rule is None else [ACTION, EXPECTED]) if name in reader.table.columns]
    if taken:
        raise RequestError(f"the column {taken[0]!r} exists already", *(["suffix"] if taken[0] in added else []))
    if hasattr(calibrator, "renormalize"):
        calibrator.renormalize = reader.layout.renormalize
    if columns.style.whole == 100:
        reader.notes.append(("the calibrated columns hold percentages as well",))
    written, seen = 0, SeenLevels(inputs_of(getattr(calibrator, "segment_columns_", {})))
    tally, cost = Counter[int](), 0.0
    names = np.array([] if rule is None else column_cells(rule.actions), dtype=object)
    with open_writer(output, reader.table, force=force, suffix=suffix) as writer:
        for rows in progress(reader.read(columns, everything=True)):
            new = {}
            if len(rows.values):
                p, ends = _calibrated(calibrator, rows, place, level)
                if rule is None or suffix:
                    new = {name + suffix: p[:, number] for name, number in zip(columns.names, place)}
                for end, text in enumerate(_ENDS if ends is not None else ()):
                    new |= {name + suffix + text: ends[:, j, end] for name, j in zip(columns.names, place)}
                decided: dict[str, Any] = {}
                if rule is not None:
                    amounts = {} if rows.amounts is None else dict(zip(rule.amounts, rows.amounts.T))
                    expected = rule.table.expected(p, amounts)
                    chosen = cheapest(expected)
                    decided = {ACTION: names[chosen], EXPECTED: expected.min(axis=1)}
                    tally, cost = tally + Counter(chosen.tolist()), cost + float(decided[EXPECTED].sum())
                writer.write(_with_columns(rows, new, decided, columns.style, as_text=writer.text))
            written += len(rows.values)
            if rows.segments is not None and len(rows.values):
                seen.add(_frame(calibrator, rows.segments))
        if not written:
            raise TableError(f"{reader.table.name} has no usable rows")
    reader.notes += [(note,) for note in seen.notes()]
    classes = [np.asarray(calibrator.classes_).tolist()[j] for j in place]
    actions = {} if rule is None else {name: tally[number] for number, name in enumerate(rule.actions)}
    shown = columns.classes if len(columns.names) == 1 else tuple(classes)
    return Applied(written, columns.names, shown, actions, cost)


def _take_segments(calibrator: object, reader: RowReader) -> None:
    """Let the reader read the columns of segments that the calibrator was fitted with, if there are any."""
    segments = tuple(getattr(calibrator, "segment_columns_", ()))
    if segments:
        reader.table.require(segments)
        reader.layout = replace(reader.layout, segments=segments)


def _frame(calibrator: BaseEstimator, cells: AnyArray) -> dict[str, AnyArray]:
    """Cells of segments as the calibrator takes them."""
    return dict(zip(calibrator.segment_columns_, cells.T))


def _as_fitted(calibrator: object, values: AnyArray, place: list[int]) -> Any:
    """Predictions in the form that the calibrator expects."""
    if place == [0]:  # a single column of the first class: that of the second is expected
        return -values if getattr(calibrator, "takes_logits", False) else 1.0 - np.minimum(values, 1.0)
    fitted = list(getattr(calibrator, "feature_names_in_", []))
    return NamedColumns(fitted, values) if len(fitted) == values.shape[1] else values


def read_predictions(
    calibrator: object, reader: RowReader, period: str | None = None
) -> list[tuple[str | None, TableRows]]:
    """All usable rows of a table as a fitted calibrator takes them, parted by the period of their dates, in its order.

    Without a period all rows are one part, which has no name. `segments` are the columns that the calibrator needs
    beside predictions, or the texts of the one that was asked for.
    """
    _take_segments(calibrator, reader)
    columns, place = calibrator_columns(calibrator, reader)
    rows = read_all(reader, columns=columns)
    if period is None or rows.dates is None:
        return [(None, _as_taken(calibrator, rows, place))]
    names = periods_of(rows.dates, period)
    return [(name, _as_taken(calibrator, rows.take(names == name), place)) for name in sorted(set(names))]


def _as_taken(calibrator: object, rows: TableRows, place: list[int]) -> TableRows:
    """Rows of a table in the form that the calibrator takes."""
    segments: Any = rows.segments
    if segments is not None:
        own = bool(getattr(calibrator, "segment_columns_", ()))
        segments = _frame(calibrator, segments) if own else segment_texts(segments)
    return replace(rows, values=_as_fitted(calibrator, rows.values, place), segments=segments)


#: What the names of the ends of an interval end with.
_ENDS = ("_low", "_high")


def _calibrated(calibrator: BaseEstimator, rows: TableRows, place: list[int], level: float | None) -> tuple[Any, Any]:
    """Calibrated probabilities of a chunk, and their intervals if a level is given."""
    beside = {} if rows.segments is None else {"segments": _frame(calibrator, rows.segments)}
    given = _as_fitted(calibrator, rows.values, place)
    with warnings.catch_warnings():  # unknown levels are counted over all chunks
        warnings.simplefilter("ignore", CalibrationWarning)
        p = calibrator.predict_proba(given, **beside)
    return p, None if level is None else calibrator.predict_interval(given, level)


def _with_columns(
    rows: TableRows, new: Mapping[str, AnyArray], others: Mapping[str, Any], style: NumberStyle, *, as_text: bool
) -> Any:
    """The record batch with `new` columns of probabilities, which are written as those of the file, and `others`."""
    pa = require("pyarrow", extra="cli")
    data = rows.data
    cells = dict(zip(data.schema.names, data.columns))
    fields = {item.name: item for item in data.schema}
    for name, values in {**new, **others}.items():
        column = pa.array(np.ascontiguousarray(values * style.whole) if name in new else values.tolist())
        column = style.text(column) if name in new and as_text and style.is_special else column
        cells[name], fields[name] = column, pa.field(name, column.type)
    return pa.RecordBatch.from_arrays(
        list(cells.values()), schema=pa.schema(list(fields.values()), metadata=data.schema.metadata)
    )
