"""Rows of predictions from tables, chunk by chunk: numbers, labels, weights, segments and groups, each row checked.

A row that cannot be used is reported by its number with the reason, or left out and counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.cells import NumberStyle, located, measured, read_labels
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout, TableRows, check_rows
from calibrant.files.tables.table import Batch, Table, TableError
from calibrant.inputs.batches import Reservoir
from calibrant.inputs.class_columns import columns_of_votes, pairs, vote_labels
from calibrant.inputs.observations import LARGEST_TOTAL
from calibrant.inputs.probability_columns import ProbabilityColumns, find_columns, named_columns
from calibrant.inputs.rows import LEAST_ROWS, are_percentages, may_be_probabilities, saturate, whole_of_probabilities
from calibrant.inputs.samples import better_order
from calibrant.inputs.words import RequestError, UnknownLabelError
from calibrant.text_table import list_names
from calibrant.typing import Label

#: A column with more different values than this is not one of class labels.
MOST_LABELS = 10_000
#: Weights that are fractions and this large on average are hardly counts.
_LARGE_COUNT = 10


@dataclass
class Skipped:
    """How many rows were left out so far, and the first of them."""

    count: int = 0
    first: str = ""

    def add(self, count: int, first: str) -> None:
        self.first = self.first or first
        self.count += count


@dataclass
class RowReader:
    """Reads the rows of a table that `layout` describes."""

    table: Table
    layout: Layout
    skip_errors: bool = False
    skipped: Skipped = field(default_factory=Skipped)
    #: What was assumed about the table, each with hints as those of errors.
    notes: list[tuple[str, ...]] = field(default_factory=list)
    #: The classes of a table that this one stands beside: columns are taken in their order, if these are the same.
    beside: tuple[object, ...] = ()
    _first_cells: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = set(replace(self.layout, votes=()).reserved)
        free = [name for name in self.table.columns if name not in taken]
        votes = named_columns(self.layout.votes, self.table.columns, free)
        self.layout = replace(self.layout, votes=tuple(votes))

    def find(self, labels: Sequence[Label] | None = None) -> ProbabilityColumns:
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
        texts = [str(label) for label in found.classes]
        if self.layout.positive is not None and self.layout.positive not in texts:
            raise RequestError(f"no class is called {self.layout.positive!r}; the classes are {list_names(texts)}")
        if found.by_order and len(found.names) == 1 and self.layout.positive in texts:
            other, own = found.classes if self.layout.positive == texts[1] else found.classes[::-1]
            found = replace(found, classes=(other, own), by_order=False)
        if len(found.names) > 1 and set(found.classes) == set(self.beside):
            names = tuple(found.names[found.classes.index(label)] for label in self.beside)
            found = replace(found, names=names, classes=self.beside)
        found = replace(found, style=self.style(found.names))
        if self.layout.votes:
            found = replace(found, votes=columns_of_votes(self.layout.votes, self._vote_labels(), found.classes))
        if found.by_order:
            self._check_order(found, known=known)
        return found

    def pair_with(self, name: str, classes: Sequence[Label]) -> ProbabilityColumns | None:
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
                "certain: they are scores on another scale",
                "scores",
            )
        if may_be_probabilities(values):
            self.notes.append(
                (f"{names[0]!r} holds no negative number: these may be probabilities", "maybe_not_logits")
            )
        return style

    def _check_order(self, columns: ProbabilityColumns, *, known: bool) -> None:
        """Say that names do not tell the classes; refuse if the data support another order than the `known` one."""
        said = pairs(columns.names, columns.classes)
        batch = next(self.table.batches([*columns.names, *self.layout.reserved], skip_errors=True), None)
        order = "in the order of the columns of votes" if columns.votes else "in sorted order"
        better = None
        if batch is not None and not self.layout.scores:  # high scores may make a class more likely or less
            rows = RowReader(self.table, self.layout, skip_errors=True)._checked(batch, columns)
            if rows.codes is not None or rows.votes is not None:
                better = better_order(rows.sample(self.layout)[0])
        if better is not None:
            raise RequestError(
                f"the names of the probability columns do not show their classes, and labels {order} do not fit the "
                f"data: {said} is far worse than {pairs(columns.names, [columns.classes[j] for j in better])}",
                "classes" if len(columns.names) > 1 else "two_classes",
            )
        if known:
            self.notes.append((f"columns are read in the order of the calibrator's classes: {said}",))
        else:
            hint = "order" if len(columns.names) > 1 else "order_of_two"
            self.notes.append((f"classes are read {order}: {said}", hint))

    def _labels_seen(self) -> list[Label]:
        if self.layout.votes:
            return _typed(list(self.layout.classes or self._vote_labels()), text_only=True, in_order=True)
        seen: dict[Hashable, None] = {}
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

    def read(self, columns: ProbabilityColumns, *, everything: bool = False) -> Iterator[TableRows]:
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
                        f"{self.table.name}: the weights sum to {total:.3g}, which is too large; scale them down"
                    )
            yield rows
        if fractions > first_row / 2 and total > _LARGE_COUNT * first_row:
            note = (
                f"the weights in {self.layout.weight!r} are not whole numbers, and a row counts for "
                f"{total / first_row:,.0f} observations on average. If they are amounts or importance weights, "
                "replace them by their `calibrant.effective_counts`: as counts they make intervals too narrow and "
                "tests too significant",
            )
            self.notes += [] if note in self.notes else [note]

    def _checked(self, batch: Batch, columns: ProbabilityColumns, first_row: int = 0) -> TableRows:
        rows, bad, reason_of = check_rows(batch, columns, self.layout, first_row)
        if not bad.any():
            return rows
        row = int(np.argmax(bad))
        reason, *hints = reason_of(row)
        message = f"{self.table.row_name(int(batch.rows[row]))}: {reason}"
        if not self.skip_errors:
            skip = [] if "scores" in hints else ["skip_errors"]  # nearly every row is such
            raise TableError(f"{self.table.name}, {message}", *hints, *skip)
        self.skipped.add(int(bad.sum()), message)
        return rows.take(~bad)


def _typed(labels: list[Any], *, text_only: bool, in_order: bool = False) -> list[Any]:
    """Labels sorted or in order, whole numbers as integers; in text files also those that are written as numbers."""
    if text_only and all(re.fullmatch(r"-?(0|[1-9]\d*)(\.0+)?", text, re.ASCII) for text in labels):
        labels = list(dict.fromkeys(int(float(text)) for text in labels))
    elif all(isinstance(label, float) and label.is_integer() for label in labels):
        labels = [int(label) for label in labels]
    return labels if in_order else sorted(labels)


def read_all(
    reader: RowReader,
    most_rows: Callable[[int], int] = lambda n_classes: sys.maxsize,
    through: Callable[[Iterator[TableRows]], Iterator[TableRows]] = iter,
    columns: ProbabilityColumns | None = None,
) -> TableRows:
    """Read a table as a whole, or a uniform sample of its rows, of whole groups if there are groups."""
    columns = columns or reader.find()
    names: list[str] = []
    reservoir = Reservoir(most_rows(len(columns.classes)), seed=0)
    for chunk in through(reader.read(columns)):
        names = list(chunk.parts)
        reservoir.add(list(chunk.parts.values()), chunk.groups)
    if not reservoir.seen:
        raise TableError(f"{reader.table.name} has no usable rows")
    held: dict[str, Any] = dict(zip(names, reservoir.take(), strict=True))
    return TableRows(columns.classes, columns.names, **held, n_usable=reservoir.seen)


class LabelledBatches:
    """The usable rows of a table with their labels and weights: a source that rereads the table at every call.

    `columns` are those of the predictions, `classes` the label that each stands for; of a single column both labels,
    its own last.
    """

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self.found = reader.find()
        self.columns, self.classes = self.found.names, self.found.classes

    def __call__(self) -> Iterator[Any]:
        for rows in self._reader.read(self.found):
            yield rows.predictions, rows.labels, rows.weight


def open_batches(
    path: str | Path | Sequence[str | Path],
    label: str | None = None,
    *,
    votes: Sequence[str] = (),
    sample_weight: str | None = None,
    probs: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    logits: bool = False,
    renormalize: bool = False,
) -> LabelledBatches:
    """Files of predictions with labels, as a source for `fit_batches`; they may be larger than memory.

    Parameters
    ----------
    path : path or sequence of paths
        CSV (also .csv.gz, .tsv), JSON Lines, parquet, feather, npz or npy file; a folder of such files, with Hive
        partitions (``month=2026-03``) as columns; a pattern such as ``"day-*.csv"``; or several of these.
    label : str, default=None
        The column of the labels.
    votes : sequence of str, default=()
        Instead of `label`, names or patterns of columns of votes or shares, one per class.
    sample_weight : str, default=None
        The column of the weights.
    probs : sequence of str, default=()
        Names or patterns of the columns that hold predictions; by default they are found by the labels.
    classes : sequence of str, default=None
        The label of each of these columns, if their names do not tell.
    logits, renormalize : bool, default=False
        What the predictions are: the same as the calibrator is told.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant import get_calibrator, open_batches
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "p.csv"
    ...     _ = file.write_text("p_no,p_yes,truth\\n0.9,0.1,no\\n0.2,0.8,yes\\n0.3,0.7,no\\n0.4,0.6,yes\\n")
    ...     get_calibrator("ts").fit_batches(open_batches(file, "truth")).classes_.tolist()
    ['no', 'yes']
    """
    if (label is None) == (not votes):
        raise ValueError("open_batches needs either label=, the column of the labels, or votes=, a column per class.")
    layout = Layout(
        label=label,
        votes=tuple(votes),
        probs=tuple(probs),
        weight=sample_weight,
        classes=None if classes is None else tuple(classes),
        logits=logits,
        renormalize=renormalize,
    )
    return LabelledBatches(RowReader(open_table(path), layout))
