"""Rows of a chunk of a table: numbers, labels, weights, segments and groups as a `Layout` says, each row checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.cells import (
    group_codes,
    label_codes,
    missing_cells,
    segment_texts,
    several_numbers,
    to_cells,
    to_dates,
    to_numbers,
    to_text,
    unreadable,
)
from calibrant.files.tables.table import Batch, pa
from calibrant.inputs.class_columns import NamedColumns
from calibrant.inputs.observations import repeated_rows
from calibrant.inputs.probability_columns import ProbabilityColumns
from calibrant.inputs.rows import complete, examine, find_fault, saturate
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, Label

#: What weights, votes and amounts must be.
_COUNTS = "are finite and not negative"
#: What there is for each row.
_PARTS = ("values", "codes", "weight", "segments", "groups", "votes", "dates", "amounts")


@dataclass(frozen=True)
class Layout:
    """Which columns of a table hold what, and what its numbers mean."""

    label: str | None = None
    probs: tuple[str, ...] = ()
    weight: str | None = None
    classes: tuple[str, ...] | None = None
    #: The class of a single column whose name does not tell it.
    positive: str | None = None
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
class TableRows:
    """Usable rows of a table: those of one chunk, or all of them, or a sample of all, in memory.

    `values` are the predictions as they stand in the file, `codes` the positions of the labels among the classes.
    Instead of labels there may be `votes`, (n, k).
    """

    classes: tuple[Label, ...]
    columns: tuple[str, ...]
    values: AnyArray
    codes: NDArray[np.int64] | None = None
    weight: NDArray[np.float64] | None = None
    #: Cells of the columns of segments as texts or floating-point numbers, (n, c).
    segments: AnyArray | None = None
    #: A number that is equal for rows of one group, in all chunks.
    groups: NDArray[np.int64] | None = None
    votes: NDArray[np.float64] | None = None
    dates: NDArray[np.datetime64] | None = None
    #: What the columns of amounts hold, (n, c).
    amounts: NDArray[np.float64] | None = None
    #: Usable rows of the table: more than there are here if these are a sample.
    n_usable: int = 0
    #: The chunk, and which of its rows these are (`None`: all); rows in memory have none.
    batch: Batch | None = None
    kept: NDArray[np.bool_] | None = None

    @property
    def parts(self) -> dict[str, AnyArray]:
        """The arrays with one entry per row, by name."""
        found = {name: getattr(self, name) for name in _PARTS}
        return {name: part for name, part in found.items() if part is not None}

    def take(self, kept: NDArray[np.bool_]) -> TableRows:
        parts: dict[str, Any] = {name: part[kept] for name, part in self.parts.items()}
        return replace(self, kept=kept, n_usable=int(kept.sum()), **parts)

    @property
    def predictions(self) -> NamedColumns:
        """The predictions with the names of their columns."""
        return NamedColumns(list(self.columns), self.values)

    @property
    def labels(self) -> Any:
        """The labels themselves, `None` for one that is missing, or the votes of the classes, or `None`."""
        if self.votes is not None:
            return NamedColumns(list(self.classes), self.votes)
        if self.codes is None:
            return None
        labels: AnyArray = np.array(self.classes)[self.codes]
        if np.any(self.codes < 0):
            labels = labels.astype(object)
            labels[self.codes < 0] = None
        return labels

    @property
    def sampled(self) -> bool:
        return len(self.values) < self.n_usable

    @property
    def data(self) -> Any:
        """The record batch of a chunk's usable rows."""
        assert self.batch is not None
        return self.batch.data if self.kept is None else self.batch.data.filter(pa.array(self.kept))

    def sample(self, layout: Layout) -> tuple[Sample, AnyArray | None]:
        """Labelled rows as a sample, and the segment of each; rows that count for nothing are left out.

        A row with votes is there once for each class that has any, with their number as its count.
        """
        proba = np.ascontiguousarray(complete(self.values, logits=layout.any_numbers))
        place: AnyArray | slice = slice(None)
        codes, counts = self.codes, self.weight
        if self.votes is not None:
            place, codes, counts = repeated_rows(self.votes, len(self.votes), proba.shape[1], self.weight)
        elif counts is not None and not counts.all():
            place = np.flatnonzero(counts)
            codes, counts = None if codes is None else codes[place], counts[place]
        assert codes is not None
        groups = None if self.groups is None else self.groups[place]
        source = None if self.votes is None else np.asarray(place)
        made = Sample(proba[place], codes, counts, groups, np.arange(proba.shape[1]), rows=source)
        return made, None if self.segments is None else segment_texts(self.segments)[place]


#: What to say of a row that cannot be used, with hints.
Reason = Callable[[int], tuple[str, ...]]


def check_rows(
    batch: Batch, columns: ProbabilityColumns, layout: Layout, first_row: int = 0
) -> tuple[TableRows, NDArray[np.bool_], Reason]:
    """All rows of a chunk, which of them cannot be used, and why not; `first_row` rows of the table come before."""
    style, data = columns.style, batch.data

    def numbers_in(names: Sequence[str]) -> AnyArray:
        return several_numbers([data.column(name) for name in names], style.decimal)

    def no_number(row: int, names: Sequence[str]) -> tuple[str, ...]:
        """What stands in the first cell of a row that is not a number; nothing if all are."""
        for name in names:
            if (text := unreadable(data.column(name), row, style.decimal)) is not None:
                return (f"{name!r} is {text!r}, not a number" if text else f"{name!r} is missing",)
        return ()

    values = numbers_in(columns.names)
    values = values / style.whole if style.whole != 1 and not style.percent_sign else values
    parts: dict[str, Any] = {"values": values}
    checks: list[tuple[Any, Reason]] = [
        (
            examine(values, **layout.rules)[0],
            lambda row: no_number(row, columns.names) or _describe(values[row], columns.names, layout, style.whole),
        )
    ]

    def counts_in(names: Sequence[str], what: str) -> AnyArray:
        """Votes or amounts, which are checked."""
        found = numbers_in(names).astype(np.float64)
        wrong = _uncountable(found)

        def say(row: int) -> tuple[str, ...]:
            name, value = next((names[j], found[row, j]) for j in np.flatnonzero(wrong[row]).tolist())
            if np.isnan(value):
                return no_number(row, names) or (f"{name!r} is missing",)
            return (f"{name!r} is {value:g}; {what} {_COUNTS}",)

        checks.append((wrong.any(axis=1), say))
        return found

    if layout.label is not None:
        cells = data.column(layout.label)
        codes = parts["codes"] = label_codes(cells, columns.classes)
        unknown = (codes < 0) & ~missing_cells(cells) if layout.partly_labelled else codes < 0
        label = "no probability column stands for the label {!r}", "the label is missing"
        checks.append((unknown, lambda row: _said_of(cells, row, *label)))
    if columns.votes:
        votes = parts["votes"] = counts_in(columns.votes, "votes")
        none = (f"there are no votes: {list_names(columns.votes, 5)} are all 0",)
        checks.append((~votes.any(axis=1), lambda row: none))
    if layout.weight is not None:
        weight = parts["weight"] = to_numbers(data.column(layout.weight), style.decimal).astype(np.float64)
        checks.append((_uncountable(weight), lambda row: (f"the weight is {weight[row]:g}; weights {_COUNTS}",)))
    if layout.segments:
        parts["segments"] = np.array([to_cells(data.column(name)) for name in layout.segments], dtype=object).T
    if layout.groups is not None:
        parts["groups"], missing = group_codes(data.column(layout.groups))
        alone = f"{layout.groups!r}, the group, is missing; an independent row needs its own group"
        checks.append((missing, lambda row: (alone,)))
    elif layout.grouped:
        parts["groups"] = (first_row + np.arange(len(batch))) // (layout.blocks or 1)
    if layout.date is not None:
        days = data.column(layout.date)
        parts["dates"] = to_dates(days)
        date = f"{layout.date!r} is {{!r}}, not a date such as 2026-03-14", f"{layout.date!r}, the date, is missing"
        checks.append((np.isnat(parts["dates"]), lambda row: _said_of(days, row, *date)))
    if layout.amounts:
        parts["amounts"] = counts_in(layout.amounts, "amounts")
    rows = TableRows(columns.classes, columns.names, **parts, n_usable=len(batch), batch=batch)
    bad = np.logical_or.reduce([unusable for unusable, _ in checks])
    return rows, bad, lambda row: next(say(row) for unusable, say in checks if unusable[row])


def _uncountable(found: AnyArray) -> AnyArray:
    """Which numbers are negative or not finite."""
    return ~(np.isfinite(found) & (found >= 0.0))


def _said_of(column: Any, row: int, found: str, missing: str) -> tuple[str]:
    """What is wrong with a cell: `found`, filled with its text, or `missing` if it is empty."""
    text = to_text(column.slice(row, 1))[0].as_py()
    return (found.format(text) if text else missing,)


def _describe(values: AnyArray, names: Sequence[str], layout: Layout, whole: float) -> tuple[str, ...]:
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
