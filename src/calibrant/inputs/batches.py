"""The input contract for batches: each is checked as an array is, with rows counted over all batches.

What could not be wrong in one array is checked as well: all batches have the same columns and labels of one type, and
a later pass sees what the first one saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import check_labels
from calibrant.inputs.predictions import as_matrix, rounding_of, to_log_probabilities
from calibrant.inputs.sources import Source
from calibrant.inputs.weights import row_weights
from calibrant.typing import FloatArray

#: Numbers of predictions that are checked at a time.
_ELEMENTS = 1 << 20


class CheckedRows(NamedTuple):
    """Some rows of a batch: log-probabilities (m, columns), labels as they are, positive weights (`None`: all one)."""

    x: FloatArray
    labels: NDArray[Any]
    weight: FloatArray | None


class BatchReader:
    """Reads a source batch by batch, and checks it.

    Parameters
    ----------
    source : callable
        See `calibrant.inputs.sources.as_source`.
    logits, renormalize : bool
        What the predictions are.

    Attributes
    ----------
    n_columns : columns of the predictions, one or one per class (after the first batch).
    names : their names, if the batches are data frames.
    categories : the categories of the labels, if these are categorical.
    """

    def __init__(self, source: Source, *, logits: bool = False, renormalize: bool = False) -> None:
        self._source = source
        self._logits, self._renormalize = logits, renormalize
        self.n_columns: int | None = None
        self.names: list[Any] | None = None
        self.categories: NDArray[Any] | None = None
        self._label_type: tuple[str, str] | None = None
        #: Rows, and sums of log-probabilities, weights and labels, of each batch of the first pass.
        self._marks: list[tuple[int, float]] = []
        self._passes = 0

    def read(self) -> Iterator[CheckedRows]:
        """All rows that have a weight, in pieces that are no larger than a batch."""
        first_pass, self._passes = self._passes == 0, self._passes + 1
        first_row = number = 0
        for number, batch in enumerate(_started(self._source)):
            n_rows, mark = 0, 0.0
            for rows, n_given in self._checked(batch, number, first_row):
                n_rows += n_given
                mark += float(rows.x.sum()) + _label_mark(rows.labels)
                mark += 0.0 if rows.weight is None else float(rows.weight.sum())
                if len(rows.labels):
                    yield rows
            if first_pass:
                self._marks.append((n_rows, mark))
            elif number >= len(self._marks) or self._marks[number] != (n_rows, mark):
                self._raise_changed(number, first_row, n_rows)
            first_row += n_rows
        read = number + 1 if first_row or self._marks else 0
        if not first_pass and read < len(self._marks):
            self._raise_changed(read, first_row, 0)
        if first_row == 0:
            raise ValueError("The source holds no rows: it gave no batch, or only empty ones.")

    def _checked(self, batch: Any, number: int, first_row: int) -> Iterator[tuple[CheckedRows, int]]:
        """The rows of a batch piece by piece, and how many there are with those that have no weight."""
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise TypeError(
                f"Batch {number} is {_kind(batch)}; a batch is (P, y) or (P, y, weight): predictions, labels, weights."
            )
        X, y = batch[0], batch[1]
        if len(X) == 0 and len(y) == 0:
            return
        try:
            array, names = as_matrix(X)
            n = len(array)
            labels, categories = check_labels(y, n, first_row=first_row)
            weight = None if len(batch) == 2 or batch[2] is None else row_weights(batch[2], n, first_row)
            self._check_alike(array, names, labels, number)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (Batch {number}, which starts at row {first_row:,}.)") from None
        self.categories = categories if self.categories is None else self.categories
        rounding = rounding_of(X)
        step = max(1, _ELEMENTS // (1 if array.ndim == 1 else array.shape[1]))
        for start in range(0, n, step):
            some = slice(start, min(start + step, n))
            x = to_log_probabilities(
                array[some],
                logits=self._logits,
                renormalize=self._renormalize,
                first_row=first_row + start,
                rounding=rounding,
            )
            part, w = labels[some], None if weight is None else weight[some]
            if w is not None and not w.all():
                present = w > 0.0
                x, part, w = x[present], part[present], w[present]
            yield CheckedRows(x, part, None if w is None or bool(np.all(w == 1.0)) else w), some.stop - some.start

    def _check_alike(self, array: NDArray[Any], names: list[Any] | None, labels: NDArray[Any], number: int) -> None:
        columns = 1 if array.ndim == 1 else array.shape[1]
        kind = "integers" if labels.dtype.kind in "iu" else labels.dtype.name.rstrip("0123456789") or "texts"
        if self.n_columns is None or self._label_type is None:
            self.n_columns, self.names = columns, None if columns == 1 else names
            self._label_type = kind, labels.dtype.kind
            return
        if columns != self.n_columns:
            raise ValueError(f"The predictions have {columns} columns, those of the batches before {self.n_columns}.")
        if columns > 1 and names != self.names:
            raise ValueError(f"The columns are called {names}, those of the batches before {self.names}.")
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


def _label_mark(labels: NDArray[Any]) -> float:
    """A number that changes with the labels or their order."""
    if labels.dtype.kind in "iufb":
        place = np.arange(1.0, len(labels) + 1.0)
        return float(labels.astype(np.float64) @ place)
    return float(hash(tuple(labels.tolist())) % 2**40)


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type {type(value).__name__}"


def predictions_of(source: Source) -> Iterator[Any]:
    """The predictions of each batch: the batch itself, or the first part of a tuple such as ``(P, y)``."""
    for batch in _started(source):
        yield batch[0] if isinstance(batch, tuple) else batch
