"""The input contract for batches: anything that can be read again from the start, checked batch by batch.

A source is called for every pass and returns a fresh iterator of ``(P, y)`` or ``(P, y, weight)``. Each batch is
checked as an array is, with rows counted over all batches, and so is what could not be wrong in one array: all batches
have the same columns and labels of one type, and a later pass gives the same as the first.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.inputs.class_columns import column, select
from calibrant.inputs.dense import labelled_rows
from calibrant.inputs.labels import distinct
from calibrant.inputs.observations import observations
from calibrant.inputs.predictions import as_matrix, check_logits, is_tensor, rounding_of, to_log_probabilities
from calibrant.inputs.probability_columns import take_columns
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, AnyIntArray, FloatArray, Label, Labels

#: Returns a fresh iterator of batches.
Source = Callable[[], Iterator[object]]

#: Rows of a batch that is cut from a larger whole, as many as those of a chunk of a file.
BATCH_ROWS = 1 << 16


def as_source(
    source: object,
    *,
    label: str | None = None,
    sample_weight: str | None = None,
    probs: str | Sequence[str] | None = None,
    probabilities: bool = True,
) -> Source:
    """A function that reads a source from the start.

    A source is such a function; a tuple of arrays, which may be memory-mapped; a pyarrow Dataset, Scanner or Table, of
    which `label`, `sample_weight` and `probs` name columns; or an iterable that starts over for every ``for``, such as
    a torch DataLoader. `probabilities` says that columns must hold numbers from 0 to 1 to be found by the labels.
    """
    if hasattr(source, "to_batches"):
        return _arrow_source(source, label, sample_weight, probs, probabilities)
    if label is not None or sample_weight is not None or probs is not None:
        raise ValueError(
            "label=, sample_weight= and probs= name columns of a pyarrow Dataset, Scanner or Table; other sources give "
            "(P, y) or (P, y, weight)."
        )
    if callable(source):
        return lambda: iter(source())
    if isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"{os.fspath(source)!r} is a path: pass calibrant.open_batches({os.fspath(source)!r}, label=...), which "
            "reads a file in batches."
        )
    if isinstance(source, (tuple, list)) and len(source) in (2, 3) and all(map(_is_array, source)):
        return lambda: _slices(source)
    if not hasattr(source, "__iter__"):
        raise TypeError(
            f"A source of batches is a function that returns an iterator of (P, y), not {type(source).__name__}."
        )
    if iter(source) is source:
        raise TypeError(
            f"A {type(source).__name__} can be read only once, and a fit reads its rows several times: pass a function "
            "that returns a fresh one."
        )
    return lambda: iter(source)


def _is_array(part: object) -> bool:
    return isinstance(part, np.ndarray) or is_tensor(part) or (hasattr(part, "shape") and hasattr(part, "__getitem__"))


def _slices(arrays: Sequence[Any]) -> Iterator[object]:
    lengths = [len(part) for part in arrays]
    if len(set(lengths)) > 1:
        names = ("P", "y", "weight")
        found = ", ".join(f"{name} has {length}" for name, length in zip(names, lengths))
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {found}.")
    for start in range(0, lengths[0], BATCH_ROWS):
        yield tuple(part[start : start + BATCH_ROWS] for part in arrays)


def _arrow_source(data: Any, label: str | None, sample_weight: str | None, probs: Any, probabilities: bool) -> Source:
    schema = data.projected_schema if hasattr(data, "projected_schema") else data.schema
    names, kind = list(schema.names), type(data).__name__
    if label is None:
        raise ValueError(
            f"Name the column of the labels, as in label={names[-1]!r}; the columns are {list_names(names)}."
        )
    # A scanner has its own size of batches.
    options = {} if kind == "Scanner" else {"batch_size" if "Dataset" in kind else "max_chunksize": BATCH_ROWS}

    def batches() -> Iterator[Any]:
        return (batch for batch in data.to_batches(**options) if batch.num_rows)

    first = next(batches(), None)
    if first is None:
        raise ValueError("The source holds no rows: it gave no batch, or only empty ones.")
    seen: dict[Any, None] = {}
    if probs is None and label in names:
        for batch in batches():
            seen.update(dict.fromkeys(batch.column(label).unique().drop_null().to_pylist()))
    found, *_ = take_columns(
        first, None, sample_weight, None, label=label, probs=probs, classes=sorted(seen), probabilities=probabilities
    )
    columns = list(found.columns)

    def read() -> Iterator[object]:
        for batch in batches():
            beside = [column(batch, name) for name in (label, sample_weight) if name is not None]
            yield (select(batch, columns), *beside)

    return read


class SeenLabels:
    """The distinct labels seen so far."""

    labels: AnyArray

    def __init__(self) -> None:
        self._known: set[Label] = set()

    def add(self, labels: AnyArray, place: str | Callable[[Label], str]) -> None:
        """Add the distinct labels of a part. `place` is where the part stands, or tells where in it a label is."""
        new = [label for label in labels.tolist() if label not in self._known]
        if not new:
            return
        self.labels = distinct(np.concatenate([self.labels, labels])) if self._known else labels
        self._known.update(new)
        self._last = new[-1], place if isinstance(place, str) else place(new[-1])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say in an error about labels, which is probably about the last one to appear, where that was."""
        try:
            yield
        except ValueError as error:
            label, place = self._last
            raise ValueError(f"{error} The last label to appear was {label!r}, in {place}.") from None


#: The sample is thinned when it exceeds its size by this factor: thinning it for every batch would be slow.
_SLACK = 1.25


class Reservoir:
    """A uniform sample of rows from one pass over an unknown number; rows of a group are kept or left out together."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seen = size, 0
        self._rng = np.random.default_rng(seed)
        self._keys: list[FloatArray] = []
        self._parts: list[list[AnyArray]] = []
        self._threshold = 1.0
        self._held = 0

    def add(self, columns: list[AnyArray], groups: AnyArray | None = None) -> None:
        """Offer some rows: arrays of the same length, with a number for each if groups are to be drawn."""
        n = len(columns[0])
        keys = self._rng.random(n) if groups is None else _hashed(groups)
        self.seen += n
        chosen = np.flatnonzero(keys < self._threshold)
        if not len(chosen):
            return
        self._keys.append(keys[chosen])
        self._parts.append([column[chosen] for column in columns])
        self._held += len(chosen)
        if self._held > max(_SLACK * self.size, self.size + 1000):
            self._thin()

    def _thin(self) -> None:
        if self._held > self.size:
            keys = np.concatenate(self._keys)
            # One group is kept in any case.
            self._threshold = max(float(np.partition(keys, self.size)[self.size]), np.nextafter(keys.min(), 1.0))
            kept = [part < self._threshold for part in self._keys]
            self._parts = [[c[keep] for c in part] for part, keep in zip(self._parts, kept, strict=True)]
            self._keys = [part[keep] for part, keep in zip(self._keys, kept, strict=True)]
        self._keys = [np.concatenate(self._keys)]
        self._parts = [[np.concatenate(parts) for parts in zip(*self._parts, strict=True)]]
        self._held = len(self._keys[0])

    def take(self) -> list[AnyArray]:
        """The sample, in the order of the rows."""
        self._thin()
        return self._parts[0]


def _hashed(groups: AnyArray) -> FloatArray:
    """Numbers between 0 and 1 that look random, equal for equal groups (the finaliser of SplitMix64)."""
    bits = groups.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).astype(np.float64) / 2.0**64


#: Predictions that are checked at a time, as single numbers: 8 MB.
_ELEMENTS = 1 << 20


@dataclass(eq=False)
class BatchReader:
    """Reads a source batch by batch, and checks it."""

    source: Source
    logits: bool = False
    renormalize: bool = False
    #: The names of the columns, for labels that are a matrix.
    classes: Labels | None = None
    #: Of dense outputs, as `calibrant.inputs.dense.labelled_rows` takes them.
    axis: int | None = None
    ignore_index: Label = None
    words: Words = CALIBRATOR
    #: The columns of the predictions, one or one per class, and their names, if batches are data frames.
    n_columns: int = field(default=0, init=False)
    names: list[Label] | None = field(default=None, init=False)
    #: The categories of the labels, if these are categorical.
    categories: AnyArray | None = field(default=None, init=False)
    #: The batch that is being read, in words.
    place: str = field(default="", init=False)
    _label_type: str = field(default="", init=False)
    #: Rows of each batch of the first pass, and numbers that tell whether its pieces are the same.
    _marks: list[tuple[int, list[int]]] = field(default_factory=list, init=False)
    _passes: int = field(default=0, init=False)
    #: The last labels handed over, and their rows in the source.
    _handed: tuple[AnyArray, Sequence[int] | AnyIntArray] = field(default=(np.empty(0), range(0)), init=False)

    def read(self) -> Iterator[Sample]:
        """All rows that have a weight, with labels as given, in pieces that are no larger than a batch."""
        first_pass, self._passes = self._passes == 0, self._passes + 1
        first_row = n_batches = 0
        for number, batch in enumerate(_started(self.source)):
            n_rows, marks, same = 0, [0], True
            first = self._marks[number][1] if number < len(self._marks) else []
            self.place = f"batch {number}, which starts at row {first_row:,}"
            for piece, n_given in self._checked(batch, number, first_row):
                n_rows += n_given
                marks.append(checksum(piece, marks[-1]))
                # What the first pass did not see is not handed over: its labels may be none of the classes.
                same = first_pass or marks == first[: len(marks)]
                if same and piece.n_rows:
                    yield piece
            if first_pass:
                self._marks.append((n_rows, marks))
            elif not same or marks != first:
                self._raise_changed(number, first_row, n_rows)
            first_row, n_batches = first_row + n_rows, number + 1
        if not first_pass and n_batches < len(self._marks):
            self._raise_changed(n_batches, first_row, 0)
        if first_row == 0:
            raise ValueError("The source holds no rows: it gave no batch, or only empty ones.")

    def place_of(self, label: Label) -> str:
        """Where in the rows handed over last a label is first."""
        labels, rows = self._handed
        return f"row {rows[int(np.argmax(labels == label))]:,} ({self.place})"

    def _checked(self, batch: object, number: int, first_row: int) -> Iterator[tuple[Sample, int]]:
        """The rows of a batch piece by piece, and how many there are with those that have no weight."""
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise TypeError(
                f"Batch {number} is {_kind(batch)}; a batch is (P, y) or (P, y, weight): predictions, labels, weights."
            )
        X, y, weight = batch if len(batch) == 3 else (*batch, None)
        words = self.words
        try:
            if self.axis is not None or self.ignore_index is not None:
                X, y, weight = labelled_rows(
                    X, y, self.axis, self.ignore_index, words, may_be_empty=True, sample_weight=weight
                )
            if len(X) == 0 and len(y) == 0:
                return
            array, names = as_matrix(X, words)
            n = len(array)
            rows, labels, weight, categories = observations(
                y, array.shape, weight, self.classes, words, first_row=first_row
            )
            self._check_alike(array, names, labels)
            if self.logits and self._passes == 1:
                check_logits(array, words)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (B{self.place[1:]}.)") from None
        self.categories = categories if self.categories is None else self.categories
        rounding = rounding_of(X)
        columns = 1 if array.ndim == 1 else array.shape[1]
        repeated = columns if rows is not None and len(rows) > n else 1  # so often may a row be there
        step = max(1, _ELEMENTS // (columns * repeated))
        for start in range(0, n, step):
            stop = min(start + step, n)
            x = to_log_probabilities(
                array[start:stop],
                logits=self.logits,
                renormalize=self.renormalize,
                first_row=first_row + start,
                rounding=rounding,
                words=words,
            )
            some: slice = slice(start, stop)
            numbers: Any = range(first_row + start, first_row + stop)
            if rows is not None:
                some = slice(*np.searchsorted(rows, [start, stop]).tolist())
                x = x[rows[some] - start]
                numbers = first_row + rows[some]
            self._handed = labels[some], numbers
            counts = None if weight is None else weight[some]
            source = None if rows is None else numbers
            yield Sample(x, labels[some], counts, logs=True, rows=source), stop - start

    def _check_alike(self, array: AnyArray, names: list[Label] | None, labels: AnyArray) -> None:
        columns = 1 if array.ndim == 1 else array.shape[1]
        kind = "integers" if labels.dtype.kind in "iu" else labels.dtype.name.rstrip("0123456789") or "texts"
        if not self.n_columns:
            self.n_columns, self.names, self._label_type = columns, names, kind
        if columns != self.n_columns:
            raise ValueError(f"The predictions have {columns} columns, those of earlier batches {self.n_columns}.")
        if columns > 1 and names != self.names:
            now, before = list_names(names or ()), list_names(self.names or ())
            raise ValueError(f"The columns are called {now}, those of earlier batches {before}.")
        if kind != self._label_type:
            raise ValueError(f"The labels are {kind}, those of earlier batches {self._label_type}.")

    def _raise_changed(self, number: int, first_row: int, n_rows: int) -> None:
        if number >= len(self._marks):
            found = f"it is new: the first pass ended with batch {len(self._marks) - 1}"
        elif n_rows == 0:
            found = "it is missing"
        elif n_rows != self._marks[number][0]:
            found = f"it has {n_rows:,} rows, in the first pass it had {self._marks[number][0]:,}"
        else:
            found = f"its {n_rows:,} rows hold other numbers or labels"
        raise ValueError(
            f"Pass {self._passes} over the source differs from the first in batch {number}, which starts at row "
            f"{first_row:,}: {found}. A source must give the same batches every time it is read: switch off shuffling "
            "and random augmentation, and do not change files during a fit."
        )


def _started(source: Source) -> Iterator[object]:
    batches = source()
    if not hasattr(batches, "__next__"):
        raise TypeError(f"A source returns an iterator of batches, not {_kind(batches)}.")
    return batches


def checksum(sample: Sample, before: int = 0) -> int:
    """A number that changes with any prediction, label or count, and with their order; the same in every process."""
    for part in (sample.values, sample.y, sample.counts):
        if part is not None and part.size:
            if part.dtype.kind == "O":
                before = zlib.crc32("\0".join(map(repr, part.tolist())).encode(), before)
            else:
                before = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, before)
    return before


def _kind(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type {type(value).__name__}"


def predictions_of(source: Source) -> Iterator[object]:
    """The predictions of each batch: the batch itself, or the first part of a tuple such as ``(P, y)``."""
    for batch in _started(source):
        yield batch[0] if isinstance(batch, tuple) else batch
