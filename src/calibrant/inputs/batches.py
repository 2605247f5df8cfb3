"""The input contract for batches: each is checked as an array is, with rows counted over all batches.

What could not be wrong in one array is checked as well: all batches have the same columns and labels of one type, and
a later pass sees what the first one saw.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.dense import labelled_rows
from calibrant.inputs.observations import observations
from calibrant.inputs.predictions import as_matrix, check_logits, rounding_of, to_log_probabilities
from calibrant.inputs.sources import Source
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.sample import Sample
from calibrant.text_table import list_names

#: Numbers of predictions that are checked at a time.
_ELEMENTS = 1 << 20


class BatchReader:
    """Reads a source batch by batch, and checks it."""

    def __init__(
        self,
        source: Source,
        *,
        logits: bool = False,
        renormalize: bool = False,
        classes: Any = None,
        axis: int | None = None,
        ignore_index: Any = None,
        words: Words = CALIBRATOR,
    ) -> None:
        self._source, self._words = source, words
        self._logits, self._renormalize = logits, renormalize
        self._classes, self._axis, self._ignore_index = classes, axis, ignore_index
        self.n_columns: int | None = None
        self.names: list[Any] | None = None
        self.categories: NDArray[Any] | None = None
        self._label_type: tuple[str, str] | None = None
        #: Rows of each batch of the first pass, and numbers that tell whether its pieces are the same.
        self._marks: list[tuple[int, list[int]]] = []
        self._passes = 0
        self.place = ""
        #: The labels handed over last, and their rows in the source.
        self._handed: tuple[NDArray[Any], Any] = np.empty(0), range(0)

    def read(self) -> Iterator[Sample]:
        """All rows that have a weight, with labels as given, in pieces that are no larger than a batch."""
        first_pass, self._passes = self._passes == 0, self._passes + 1
        first_row = number = 0
        for number, batch in enumerate(_started(self._source)):
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
            first_row += n_rows
        read = number + 1 if first_row or self._marks else 0
        if not first_pass and read < len(self._marks):
            self._raise_changed(read, first_row, 0)
        if first_row == 0:
            raise ValueError("The source holds no rows: it gave no batch, or only empty ones.")

    def place_of(self, label: Any) -> str:
        """Where in the rows handed over last a label is first."""
        labels, rows = self._handed
        return f"row {rows[int(np.argmax(labels == label))]:,} ({self.place})"

    def _checked(self, batch: Any, number: int, first_row: int) -> Iterator[tuple[Sample, int]]:
        """The rows of a batch piece by piece, and how many there are with those that have no weight."""
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise TypeError(
                f"Batch {number} is {_kind(batch)}; a batch is (P, y) or (P, y, weight): predictions, labels, weights."
            )
        X, y, weight = batch if len(batch) == 3 else (*batch, None)
        words = self._words
        try:
            if self._axis is not None or self._ignore_index is not None:
                X, y, weight = labelled_rows(X, y, weight, self._axis, self._ignore_index, words, may_be_empty=True)
            if len(X) == 0 and len(y) == 0:
                return
            array, names = as_matrix(X, words)
            n = len(array)
            rows, labels, weight, categories = observations(
                y, array.shape, weight, self._classes, words, first_row=first_row
            )
            self._check_alike(array, names, labels)
            if self._logits and self._passes == 1:
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
                logits=self._logits,
                renormalize=self._renormalize,
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

    def _check_alike(self, array: NDArray[Any], names: list[Any] | None, labels: NDArray[Any]) -> None:
        columns = 1 if array.ndim == 1 else array.shape[1]
        kind = "integers" if labels.dtype.kind in "iu" else labels.dtype.name.rstrip("0123456789") or "texts"
        if self.n_columns is None or self._label_type is None:
            self.n_columns, self.names = columns, names
            self._label_type = kind, labels.dtype.kind
            return
        if columns != self.n_columns:
            raise ValueError(f"The predictions have {columns} columns, those of the batches before {self.n_columns}.")
        if columns > 1 and names != self.names:
            now, before = list_names(names or ()), list_names(self.names or ())
            raise ValueError(f"The columns are called {now}, those of the batches before {before}.")
        if kind != self._label_type[0]:
            raise ValueError(f"The labels are {kind}, those of the batches before {self._label_type[0]}.")

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
            f"{first_row:,}: {found}. A source gives the same batches every time it is read; switch off shuffling and "
            "random augmentation, and do not change files during a fit."
        )


def _started(source: Source) -> Iterator[Any]:
    batches = source()
    if not hasattr(batches, "__next__"):
        raise TypeError(f"A source returns an iterator of batches, not {_kind(batches)}.")
    return batches


def checksum(sample: Sample, before: int = 0) -> int:
    """A number that changes with any prediction, label or count, and with their order; the same in every process.

    >>> p, y = np.array([[0.5, 0.5], [0.1, 0.9]]), np.array(["a", "b"])
    >>> checksum(Sample(p, y)) == checksum(Sample(p.copy(), y.copy()))
    True
    >>> checksum(Sample(p, y)) == checksum(Sample(p[:, ::-1], y))
    False
    """
    for part in (sample.values, sample.y, sample.counts):
        if part is not None and part.size:
            if part.dtype.kind == "O":
                before = zlib.crc32("\0".join(map(repr, part.tolist())).encode(), before)
            else:
                before = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, before)
    return before


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type {type(value).__name__}"


def predictions_of(source: Source) -> Iterator[Any]:
    """The predictions of each batch: the batch itself, or the first part of a tuple such as ``(P, y)``."""
    for batch in _started(source):
        yield batch[0] if isinstance(batch, tuple) else batch
