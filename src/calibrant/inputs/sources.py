"""Where batches of rows come from: anything that can be read again from the start, as a function that reads it.

A source is called for every pass and returns a fresh iterator of ``(P, y)`` or ``(P, y, weight)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import is_tensor
from calibrant.text_table import list_names

#: Returns a fresh iterator of batches.
Source = Callable[[], Iterator[Any]]

#: Rows of a batch that is cut from a larger whole.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class NamedColumns:
    """A matrix with column names, as much of a data frame as calibrators look at."""

    columns: list[Any]
    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def to_numpy(self) -> NDArray[Any]:
        """The numbers alone."""
        return self.values

    def __len__(self) -> int:
        return len(self.values)


def as_source(source: Any, *, label: str | None = None, weight: str | None = None) -> Source:
    """A function that reads `source` from the start.

    Parameters
    ----------
    source : callable, tuple of arrays, pyarrow Dataset or Table, or iterable
        A function that returns a fresh iterator of ``(P, y)`` or ``(P, y, weight)``; such a tuple of arrays, which
        may be memory-mapped; a pyarrow Dataset or Table with a column of labels; or an iterable that starts anew for
        every ``for``, such as a torch DataLoader.
    label, weight : str, default=None
        The columns of labels and weights in a pyarrow Dataset or Table; all other columns are predictions.

    Examples
    --------
    >>> P, y = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])
    >>> read = as_source((P, y))
    >>> [len(labels) for _, labels in read()], [len(labels) for _, labels in read()]
    ([2], [2])
    """
    if hasattr(source, "to_batches") and hasattr(source, "schema"):
        return _arrow_source(source, label, weight)
    if label is not None or weight is not None:
        raise ValueError(
            "label= and weight= name columns of a pyarrow Dataset or Table; other sources give (P, y) or (P, y, "
            "weight)."
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


def _is_array(part: Any) -> bool:
    return isinstance(part, np.ndarray) or is_tensor(part) or (hasattr(part, "shape") and hasattr(part, "__getitem__"))


def _slices(arrays: Sequence[Any]) -> Iterator[Any]:
    lengths = [len(part) for part in arrays]
    if len(set(lengths)) > 1:
        names = ("P", "y", "weight")
        found = ", ".join(f"{name} has {length}" for name, length in zip(names, lengths))
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {found}.")
    for start in range(0, lengths[0], BATCH_ROWS):
        yield tuple(part[start : start + BATCH_ROWS] for part in arrays)


def _arrow_source(data: Any, label: str | None, weight: str | None) -> Source:
    names = list(data.schema.names)
    for given, what in ((label, "label"), (weight, "weight")):
        if given is not None and given not in names:
            raise ValueError(f"{what}={given!r} is not among the columns {list_names(names)}.")
    if label is None:
        raise ValueError(
            f"Name the column of the labels, as in label={names[-1]!r}; the columns are {list_names(names)}."
        )
    columns = [name for name in names if name not in (label, weight)]
    size = "batch_size" if type(data).__name__.endswith("Dataset") else "max_chunksize"

    def read() -> Iterator[Any]:
        for batch in data.to_batches(**{size: BATCH_ROWS}):
            values = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
            rest = [batch.column(name).to_numpy(zero_copy_only=False) for name in (label, weight) if name is not None]
            yield (NamedColumns(columns, values), *rest)

    return read
