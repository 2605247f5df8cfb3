"""Where batches of rows come from: anything that can be read again from the start, as a function that reads it.

A source is called for every pass and returns a fresh iterator of ``(P, y)`` or ``(P, y, weight)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.inputs.frames import take_columns
from calibrant.inputs.named_columns import NamedColumns
from calibrant.inputs.predictions import is_tensor
from calibrant.text_table import list_names

#: Returns a fresh iterator of batches.
Source = Callable[[], Iterator[Any]]

#: Rows of a batch that is cut from a larger whole.
BATCH_ROWS = 1 << 16


def as_source(
    source: Any,
    *,
    label: str | None = None,
    sample_weight: str | None = None,
    probs: str | Sequence[str] | None = None,
    probabilities: bool = True,
) -> Source:
    """A function that reads `source` from the start."""
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


def _arrow_source(
    data: Any,
    label: str | None,
    sample_weight: str | None,
    probs: str | Sequence[str] | None,
    probabilities: bool,
) -> Source:
    schema = data.projected_schema if hasattr(data, "projected_schema") else data.schema
    names, kind = list(schema.names), type(data).__name__
    if label is None:
        raise ValueError(
            f"Name the column of the labels, as in label={names[-1]!r}; the columns are {list_names(names)}."
        )
    # A scanner has its own size of batches.
    sizes = {"Table": "max_chunksize", "RecordBatch": "max_chunksize", "Scanner": None}
    size = sizes.get(kind, "batch_size")
    options = {} if size is None else {size: BATCH_ROWS}

    def batches() -> Iterator[Any]:
        return (batch for batch in data.to_batches(**options) if batch.num_rows)

    first = next(batches(), None)
    if first is None:
        raise ValueError("The source holds no rows: it gave no batch, or only empty ones.")
    seen: dict[Any, None] = {}
    if probs is None and label in names:
        for batch in batches():
            seen.update(dict.fromkeys(batch.column(label).unique().drop_null().to_pylist()))
    found = take_columns(
        first, None, sample_weight, None, label=label, probs=probs, classes=sorted(seen), probabilities=probabilities
    )
    columns = list(found.X.columns)

    def read() -> Iterator[Any]:
        for batch in batches():
            values = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
            rest = [batch.column(n).to_numpy(zero_copy_only=False) for n in (label, sample_weight) if n is not None]
            yield (NamedColumns(columns, values), *rest)

    return read
