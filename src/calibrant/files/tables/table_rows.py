"""Rows of predictions from tables, chunk by chunk: numbers, labels, weights, segments and groups, each row checked.

A row that cannot be used is named by its number and said what is wrong with it, or left out and counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.cells import (
    group_codes,
    label_codes,
    located,
    missing_cells,
    read_labels,
    segment_texts,
    to_cells,
    to_dates,
    to_text,
)
from calibrant.files.tables.numeric import Numbers, NumberStyle, measured, several_numbers, to_numbers
from calibrant.files.tables.table import Batch, Table, TableError
from calibrant.inputs.class_columns import columns_of_votes, pairs, vote_labels
from calibrant.inputs.named_columns import NamedColumns
from calibrant.inputs.probability_columns import ProbabilityColumns, find_columns, named_columns
from calibrant.inputs.reservoir import Reservoir
from calibrant.inputs.rows import (
    LEAST_ROWS,
    are_percentages,
    complete,
    examine,
    find_fault,
    may_be_probabilities,
    saturate,
    whole_of_probabilities,
)
from calibrant.inputs.samples import better_order
from calibrant.inputs.soft_labels import repeated_rows
from calibrant.inputs.weights import LARGEST_TOTAL
from calibrant.inputs.words import RequestError, UnknownLabelError
from calibrant.optional import require
from calibrant.sample import Sample
from calibrant.text_table import list_names

#: A column with more different values than this is not one of class labels.
MOST_LABELS = 10_000
#: What there is for each row.
_PARTS = ("values", "codes", "weight", "segments", "groups", "votes", "dates", "amounts")


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what, and how its numbers are meant."""

    label: str | None = None
    probs: tuple[str, ...] = ()
    weight: str | None = None
    classes: tuple[str, ...] | None = None
    logits: bool = False
    #: Numbers of any scale, which are then read as logits are.
    scores: bool = False
    #: The probabilities of the file that a calibrator was fitted to were percentages.
    percentages: bool = False
    renormalize: bool = False
    decimal: str | None = None
    segments: tuple[str, ...] = ()
    #: Columns of votes, one per class, instead of a label; patterns become names when a table is read.
    votes: tuple[str, ...] = ()
    #: The column of the groups, whose rows may depend on each other; instead, so many consecutive rows belong together.
    groups: str | None = None
    blocks: int | None = None
    #: The column of dates, by which rows are told apart in time.
    date: str | None = None
    #: Columns of amounts that costs name.
    amounts: tuple[str, ...] = ()
    #: Rows without a label are kept, with the code -1.
    partly_labelled: bool = False

    @property
    def grouped(self) -> bool:
        """Whether rows may depend on each other."""
        return self.groups is not None or self.blocks not in (None, 1)

    @property
    def reserved(self) -> list[str]:
        """Columns that are not probabilities."""
        names = (self.label, self.weight, self.groups, self.date, *self.segments, *self.votes, *self.amounts)
        return [name for name in names if name is not None]

    @property
    def rules(self) -> dict[str, bool]:
        """What a row must be, as the input contract asks."""
        return {"logits": self.any_numbers, "renormalize": self.renormalize}

    @property
    def any_numbers(self) -> bool:
        """Whether predictions are logits or scores."""
        return self.logits or self.scores


@dataclass(frozen=True)
class RowChunk:
    """Usable rows of one chunk.

    `values` are the predictions as they stand in the file, `codes` the positions of the labels among the classes,
    `kept` tells which rows of `batch` these are (None: all). Instead of labels there may be `votes`, (n, k).
    """

    batch: Batch
    values: NDArray[Any]
    codes: NDArray[np.int64] | None
    weight: NDArray[np.float64] | None
    kept: NDArray[np.bool_] | None
    #: Cells of the columns of segments as texts or floating-point numbers, (n, c).
    segments: NDArray[Any] | None = None
    #: A number that is equal for rows of one group, in all chunks.
    groups: NDArray[np.int64] | None = None
    votes: NDArray[np.float64] | None = None
    dates: NDArray[np.datetime64] | None = None
    #: What the columns of amounts hold, (n, c).
    amounts: NDArray[np.float64] | None = None

    def usable(self, kept: NDArray[np.bool_]) -> RowChunk:
        """The rows that a mask keeps."""
        return replace(self, kept=kept, **_taken(self, kept))

    @property
    def source(self) -> NDArray[np.int64]:
        """The number of each row in the table."""
        return self.batch.rows if self.kept is None else self.batch.rows[self.kept]


def _taken(rows: RowChunk | HeldRows, kept: NDArray[np.bool_]) -> dict[str, Any]:
    """All that there is for the rows that a mask keeps."""
    held = {name: getattr(rows, name) for name in _PARTS}
    return {name: value if value is None else value[kept] for name, value in held.items()}


@dataclass
class Skipped:
    """Rows left out so far, with the first of them."""

    count: int = 0
    first: str = ""

    def add(self, count: int, first: str) -> None:
        """Count more rows."""
        self.first = self.first or first
        self.count += count


@dataclass
class RowReader:
    """Reads the rows of a table that `layout` describes.

    Parameters
    ----------
    table : Table
    layout : Layout
    skip_errors : bool, default=False
        Leave out rows that cannot be used, instead of raising an error.
    """

    table: Table
    layout: Layout
    skip_errors: bool = False
    skipped: Skipped = field(default_factory=Skipped)
    #: What was assumed about the table, each with hints as those of errors.
    notes: list[tuple[str, ...]] = field(default_factory=list)
    #: The classes of a table that this one stands beside: columns are taken in their order, if these are the same.
    beside: tuple[Any, ...] = ()
    _first_cells: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = set(replace(self.layout, votes=()).reserved)
        free = [name for name in self.table.columns if name not in taken]
        votes = named_columns(self.layout.votes, self.table.columns, free)
        self.layout = replace(self.layout, votes=tuple(votes))

    def find(self, labels: Sequence[Any] | None = None) -> ProbabilityColumns:
        """The probability columns and the labels they stand for; `labels` are those known beforehand."""
        self.table.require(self.layout.reserved)
        known = labels is not None
        if labels is None:
            labels = self._labels_seen()
        try:
            found = find_columns(
                self.table.columns,
                labels,
                peek=self._peek,
                probs=self.layout.probs,
                classes=self.layout.classes,
                reserved=self.layout.reserved,
                as_probabilities=not self.layout.any_numbers,
            )
        except UnknownLabelError as error:
            if known or self.layout.label is None:
                raise
            raise located(error, self.table, self.layout.label) from error
        if len(found.names) > 1 and set(found.classes) == set(self.beside):
            names = tuple(found.names[found.classes.index(label)] for label in self.beside)
            found = replace(found, names=names, classes=self.beside)
        found = replace(found, style=self.style(found.names))
        if self.layout.votes:
            found = replace(found, votes=columns_of_votes(self.layout.votes, self._vote_labels(), found.classes))
        if found.by_order:
            self._check_order(found, known=known)
        return found

    def pair_with(self, name: str, classes: Sequence[Any]) -> ProbabilityColumns | None:
        """The columns of both classes, if this one is among them and they sum to one; `None` if it stands alone."""
        alone = RowReader(self.table, self.layout, skip_errors=True)
        try:
            found = alone.find(classes)
        except RequestError:
            return None
        values = alone._peek(found.names)
        if len(found.names) != 2 or name not in found.names or values is None or not whole_of_probabilities(values):
            return None
        self.notes += alone.notes
        return found

    def style(self, names: Sequence[str]) -> NumberStyle:
        """How the probabilities in these columns are written; what is not obvious is noted."""
        style, values = self._measured(names)
        if style.decimal == "," and self.layout.decimal is None:
            self.notes.append(("numbers are read with decimal commas, as in 0,25", "decimal"))
        if style.whole == 100:
            earlier = self.layout.percentages and not style.percent_sign and not are_percentages(100 * values)
            why = ", as in the file that the calibrator was fitted to" if earlier else ""
            self.notes.append((f"the probabilities are percentages{why}: 100 is read as 1",))
        if not self.layout.logits or values is None:
            return style
        whole = whole_of_probabilities(values)
        if whole:
            raise RequestError(
                f"the numbers in {list_names(names, 5)} sum to {whole:g} in every row: they are probabilities, not "
                "logits",
                "not_logits",
            )
        if len(values) >= LEAST_ROWS and saturate(values):
            raise RequestError(
                f"as logits, the numbers in {list_names(names, 5)} are so large that nearly every row would be "
                "certain: they are scores of another scale",
                "scores",
            )
        if may_be_probabilities(values):
            self.notes.append(
                (f"{names[0]!r} holds no negative number: perhaps these are probabilities", "maybe_not_logits")
            )
        return style

    def _check_order(self, columns: ProbabilityColumns, *, known: bool) -> None:
        """Say that names do not tell the classes; refuse if the data support another order than the `known` one."""
        said = pairs(columns.names, columns.classes)
        batch = next(self.table.batches([*columns.names, *self.layout.reserved], skip_errors=True), None)
        order = "in the order of the columns of votes" if columns.votes else "in sorted order"
        better = None
        if batch is not None and not self.layout.scores:  # scores may speak for a class or against it
            rows = RowReader(self.table, self.layout, skip_errors=True)._checked(batch, columns)
            if rows.codes is not None or rows.votes is not None:
                data, _ = as_sample(rows, self.layout)
                better = better_order(data)
        if better is not None:
            raise RequestError(
                f"the names of the probability columns do not tell their classes, and labels {order} do not fit "
                f"the data: {said} is far worse than "
                f"{pairs(columns.names, [columns.classes[j] for j in better])}",
                "classes" if len(columns.names) > 1 else "two_classes",
            )
        if known:
            self.notes.append((f"the columns were taken in the order of the calibrator's classes: {said}",))
        else:
            hint = "order" if len(columns.names) > 1 else "order_of_two"
            self.notes.append((f"the classes were taken {order}: {said}", hint))

    def _labels_seen(self) -> list[Any]:
        if self.layout.votes:
            return _typed(list(self.layout.classes or self._vote_labels()), text_only=True, in_order=True)
        seen: dict[Any, None] = {}
        assert self.layout.label is not None
        for batch in self.table.batches([self.layout.label], skip_errors=self.skip_errors):
            seen.update(dict.fromkeys(read_labels(batch.data.column(0))))
            if len(seen) > MOST_LABELS:
                raise RequestError(
                    f"the column {self.layout.label!r} has more than {MOST_LABELS} different values; is it the label?"
                )
        if not seen:
            raise TableError(f"{self.table.name}: no row has a label in the column {self.layout.label!r}")
        texts = [label for label in seen if isinstance(label, str)]
        if 0 < len(texts) < len(seen):
            number = next(label for label in seen if not isinstance(label, str))
            raise TableError(
                f"{self.table.name}: the column {self.layout.label!r} holds the text {texts[0]!r} in one place and "
                f"the number {number!r} in another; write all labels in the same way"
            )
        return _typed(list(seen), text_only=self.table.format == "csv")

    def _vote_labels(self) -> list[str]:
        votes = set(self.layout.votes)
        return vote_labels(self.layout.votes, [name for name in self.table.columns if name not in votes])

    def _sample(self, names: Sequence[str], rows: int = 1000) -> list[Any]:
        """The first cells of columns."""
        unread = [name for name in names if name not in self._first_cells]
        if unread:
            batch = next(self.table.batches(unread, skip_errors=True), None)
            if batch is None:
                return []
            self._first_cells.update({name: batch.data.column(name).slice(0, rows) for name in unread})
        return [self._first_cells[name] for name in names]

    def _peek(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        return self._measured(names)[1]

    def _measured(self, names: Sequence[str]) -> tuple[NumberStyle, Any]:
        """How the first cells of columns are written, and their numbers as fractions, or None."""
        layout = self.layout
        return measured(self._sample(names), layout.decimal, logits=layout.any_numbers, percentages=layout.percentages)

    def read(self, columns: ProbabilityColumns, *, everything: bool = False) -> Iterator[RowChunk]:
        """Usable rows, chunk by chunk; `everything` keeps all columns in the batches."""
        needed = list(dict.fromkeys([*columns.names, *self.layout.reserved]))
        self.skipped = Skipped()
        bad_lines, total, first_row, fractions = 0, 0.0, 0, 0
        for batch in self.table.batches(None if everything else needed, skip_errors=self.skip_errors):
            rows = self._checked(batch, columns, first_row)
            first_row += len(batch)
            for row, reason in self.table.skipped[bad_lines:]:
                self.skipped.add(1, f"{self.table.row_name(row)}: {reason}")
            bad_lines = len(self.table.skipped)
            fractions += 0 if rows.weight is None else int((rows.weight != np.floor(rows.weight)).sum())
            if rows.weight is not None or rows.votes is not None:
                with np.errstate(over="ignore"):
                    votes = 1.0 if rows.votes is None else rows.votes.sum(axis=1)
                    total += float(np.sum(votes if rows.weight is None else votes * rows.weight))
                if total > LARGEST_TOTAL:
                    raise TableError(
                        f"{self.table.name}: the weights sum to {total:.3g}, which is too much; scale them down"
                    )
            yield rows
        if fractions > first_row / 2 and total > _LARGE_COUNT * first_row:
            note = (
                f"the weights in {self.layout.weight!r} are no whole numbers, and a row counts for "
                f"{total / first_row:,.0f} observations on average. If they are amounts or importance weights, replace "
                "them by their `calibrant.effective_counts`: as counts they make intervals and tests far too sure",
            )
            self.notes += [] if note in self.notes else [note]

    def _checked(self, batch: Batch, columns: ProbabilityColumns, first_row: int = 0) -> RowChunk:
        layout, style, data = self.layout, columns.style, batch.data
        numbers = several_numbers([data.column(name) for name in columns.names], style.decimal)
        values = numbers.values / style.whole if style.whole != 1 and not style.percent_sign else numbers.values
        codes = weight = segments = groups = votes = dates = amounts = None
        # Which rows cannot be used, and what to say of one of them with hints.
        checks: list[tuple[Any, Callable[[int], tuple[str, ...]]]] = [
            (
                examine(values, **layout.rules)[0],
                lambda row: (
                    _unreadable(numbers, row, columns.names)
                    or _describe(values[row], columns.names, layout, style.whole)
                ),
            )
        ]
        if layout.label is not None:
            cells = data.column(layout.label)
            codes = label_codes(cells, columns.classes)
            unknown = (codes < 0) & ~missing_cells(cells) if layout.partly_labelled else codes < 0
            checks.append((unknown, lambda row: (_unknown_label(cells, row),)))
        if columns.votes:
            found = several_numbers([data.column(name) for name in columns.votes], style.decimal)
            votes = found.values.astype(np.float64)
            checks.append((~votes.any(axis=1), lambda row: (_no_votes(columns.votes),)))
            checks.append((_uncountable(votes).any(axis=1), lambda row: _no_count(found, row, columns.votes)))
        if layout.weight is not None:
            given = to_numbers(data.column(layout.weight), style.decimal).values.astype(np.float64)
            checks.append((_uncountable(given), lambda row: (f"the weight is {given[row]:g}; weights {_COUNTS}",)))
            weight = given
        if layout.segments:
            segments = np.array([to_cells(data.column(name)) for name in layout.segments], dtype=object).T
        if layout.groups is not None:
            groups, missing = group_codes(data.column(layout.groups))
            alone = f"{layout.groups!r}, the group, is missing; a row that stands alone needs a group of its own"
            checks.append((missing, lambda row: (alone,)))
        elif layout.grouped:
            groups = (first_row + np.arange(len(batch))) // (layout.blocks or 1)
        if layout.date is not None:
            dates = to_dates(data.column(layout.date))
            checks.append((np.isnat(dates), lambda row: (_no_date(data.column(layout.date), row, layout.date),)))
        if layout.amounts:
            read = several_numbers([data.column(name) for name in layout.amounts], style.decimal)
            amounts = read.values.astype(np.float64)
            unusable = _uncountable(amounts).any(axis=1)
            checks.append((unusable, lambda row: _no_count(read, row, layout.amounts, "amounts")))
        rows = RowChunk(batch, values, codes, weight, None, segments, groups, votes, dates, amounts)
        bad = np.logical_or.reduce([unusable for unusable, _ in checks])
        if not bad.any():
            return rows
        row = int(np.argmax(bad))
        reason, *hints = next(say(row) for unusable, say in checks if unusable[row])
        message = f"{self.table.row_name(int(batch.rows[row]))}: {reason}"
        if not self.skip_errors:
            skip = [] if "scores" in hints else ["skip_errors"]  # nearly every row is such
            raise TableError(f"{self.table.name}, {message}", *hints, *skip)
        self.skipped.add(int(bad.sum()), message)
        return rows.usable(~bad)


#: Weights that are fractions and this large on average are hardly counts.
_LARGE_COUNT = 10
#: What weights, votes and amounts must be.
_COUNTS = "are finite and not negative"


def _uncountable(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(~(np.isfinite(values) & (values >= 0.0)))


def _unreadable(numbers: Numbers, row: int, names: Sequence[str]) -> tuple[str, ...]:
    """What stands in the first cell of a row that is not a number; nothing if all are."""
    for column, name in enumerate(names):
        text = numbers.unreadable.get((row, column))
        if text is not None:
            return (f"{name!r} is {text!r}, not a number" if text.strip() else f"{name!r} is missing",)
    return ()


def _unknown_label(column: Any, row: int) -> str:
    text = to_text(column.slice(row, 1))[0].as_py()
    return f"no probability column stands for the label {text!r}" if text else "the label is missing"


def _no_date(column: Any, row: int, name: str | None) -> str:
    text = to_text(column.slice(row, 1))[0].as_py()
    return f"{name!r} is {text!r}, not a date such as 2026-03-14" if text else f"{name!r}, the date, is missing"


def _no_votes(names: Sequence[str]) -> str:
    return f"there are no votes: {list_names(names, 5)} are all 0"


def _no_count(found: Numbers, row: int, names: Sequence[str], what: str = "votes") -> tuple[str, ...]:
    """What is wrong with the votes, or amounts, of a row."""
    column = int(np.argmax(_uncountable(found.values[row])))
    value = found.values[row, column]
    if np.isnan(value):
        return _unreadable(found, row, names) or (f"{names[column]!r} is missing",)
    return (f"{names[column]!r} is {value:g}; {what} {_COUNTS}",)


def _typed(labels: list[Any], *, text_only: bool, in_order: bool = False) -> list[Any]:
    """Labels sorted or in order, whole numbers as integers; in text files also those that are written as numbers."""
    if text_only and all(re.fullmatch(r"-?(0|[1-9]\d*)(\.0+)?", text, re.ASCII) for text in labels):
        labels = list(dict.fromkeys(int(float(text)) for text in labels))
    elif all(isinstance(label, float) and label.is_integer() for label in labels):
        labels = [int(label) for label in labels]
    return labels if in_order else sorted(labels)


def _describe(values: NDArray[Any], names: Sequence[str], layout: Layout, whole: float) -> tuple[str, ...]:
    """What is wrong with the numbers of a row, in the file's own unit, and hints."""
    kind, column, value = find_fault(values, **layout.rules)
    if kind == "impossible":
        return ("all logits are -inf; at least one class must be possible",)
    if column is None:
        text = f"the probabilities sum to {value * whole:.6g}, not to {whole:g}"
        return (text,) if layout.renormalize else (text, "renormalize")
    if kind == "range":
        hints = [] if whole != 1 else ["scores" if saturate(values[None]) else "logits"]
        return (f"{names[column]!r} is {value * whole:.6g}, not a probability", *hints)
    return (f"{names[column]!r} is {kind}",)


def as_probabilities(values: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Probabilities of all classes from checked values: two columns for a single one, rows that sum to one."""
    return complete(values, logits=layout.any_numbers)


def as_sample(rows: RowChunk | HeldRows, layout: Layout) -> tuple[Sample, NDArray[Any] | None]:
    """Rows of a table with their labels as a sample, and the segment of each; rows that count for nothing are left out.

    A row with votes is there once for each class that has any, with their number as its count.
    """
    proba, source = np.ascontiguousarray(as_probabilities(rows.values, layout)), rows.source
    segments = None if rows.segments is None else segment_texts(rows.segments)
    place: NDArray[Any] | slice = slice(None)
    codes, counts = rows.codes, rows.weight
    if rows.votes is not None:
        place, codes, counts = repeated_rows(rows.votes, len(rows.votes), proba.shape[1], rows.weight)
    elif counts is not None and not counts.all():
        place = np.flatnonzero(counts)
        codes, counts = None if codes is None else codes[place], counts[place]
    assert codes is not None
    groups = None if rows.groups is None else rows.groups[place]
    classes = np.arange(proba.shape[1])
    data = Sample(proba[place], codes, counts, groups, classes, rows=None if rows.votes is None else source[place])
    return data, None if segments is None else segments[place]


@dataclass(frozen=True)
class HeldRows:
    """All usable rows of a table, or a sample of them, in memory.

    `codes` are the column numbers of the labels, if there are labels; instead there may be `votes`.
    """

    values: NDArray[Any]
    codes: NDArray[np.int64] | None
    weight: NDArray[np.float64] | None
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    #: Usable rows of the table: more than there are here if these are a sample.
    n_usable: int
    segments: NDArray[Any] | None = None
    groups: NDArray[np.int64] | None = None
    votes: NDArray[np.float64] | None = None
    dates: NDArray[np.datetime64] | None = None
    amounts: NDArray[np.float64] | None = None

    @property
    def labels(self) -> Any:
        """The labels themselves, None for one that is missing, or the votes of the classes, or None."""
        if self.votes is not None:
            return NamedColumns(list(self.classes), self.votes)
        if self.codes is None:
            return None
        labels: NDArray[Any] = np.array(self.classes)[self.codes]
        if np.any(self.codes < 0):
            labels = labels.astype(object)
            labels[self.codes < 0] = None
        return labels

    def take(self, rows: NDArray[np.bool_]) -> HeldRows:
        """The rows that a mask keeps."""
        return replace(self, n_usable=int(rows.sum()), **_taken(self, rows))

    @property
    def sampled(self) -> bool:
        """Whether these are a sample."""
        return len(self.values) < self.n_usable

    @property
    def source(self) -> NDArray[np.int64]:
        """A number for each row."""
        return np.arange(len(self.values))


def read_all(
    reader: RowReader,
    most_rows: Callable[[int], int] = lambda n_classes: sys.maxsize,
    through: Callable[[Iterator[RowChunk]], Iterator[RowChunk]] = iter,
    columns: ProbabilityColumns | None = None,
) -> HeldRows:
    """Read a table as a whole, or a uniform sample of its rows, of whole groups if there are groups.

    Parameters
    ----------
    reader : RowReader
    most_rows : callable, optional
        How many rows a table of so many classes may have to be kept as a whole.
    through : callable, optional
        Wraps the iteration over the chunks of the whole table.
    columns : ProbabilityColumns, optional
        The probability columns, which are found by the labels otherwise.
    """
    columns = columns or reader.find()
    names: list[str] = []
    reservoir = Reservoir(most_rows(len(columns.classes)), seed=0)
    for part in through(reader.read(columns)):
        names = [name for name in _PARTS if getattr(part, name) is not None]
        reservoir.add([getattr(part, name) for name in names], part.groups)
    if not reservoir.seen:
        raise TableError(f"{reader.table.name} has no usable rows")
    held: dict[str, Any] = dict.fromkeys(_PARTS) | dict(zip(names, reservoir.take(), strict=True))
    return HeldRows(classes=columns.classes, columns=columns.names, n_usable=reservoir.seen, **held)


def take_rows(rows: RowChunk) -> Any:
    """The record batch of the usable rows."""
    if rows.kept is None:
        return rows.batch.data
    return rows.batch.data.filter(require("pyarrow", extra="cli").array(rows.kept))
