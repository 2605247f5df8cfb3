"""Fits to rows that come in batches: a first pass finds out what there is, later ones compute with it.

The first pass checks every row, counts rows, labels and weights, and keeps a uniform sample in memory: each row is
given a random number, and the rows with the smallest ones stay. The sample is what methods are fitted to that need
all rows at once; the others start from it and take their curvature from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.batches import BatchReader
from calibrant.inputs.labels import distinct, encode
from calibrant.inputs.weights import check_counts, check_total_weight
from calibrant.progress import ProgressBar
from calibrant.softmax.rows.sums import Block
from calibrant.typing import FloatArray

#: Bytes of a number, and matrices of the sample's size that a fit holds.
_BYTES, _MATRICES = 8, 6
#: Share of the memory that the sample may take; the rest is for batches.
_SAMPLE_SHARE = 0.25
#: The sample is thinned when it has outgrown its size by this factor.
_SLACK = 1.25


def rows_in_memory(memory_mb: float, n_columns: int) -> int:
    """How many rows the sample may have.

    Examples
    --------
    >>> rows_in_memory(512, 10)
    279620
    """
    return max(256, int(_SAMPLE_SHARE * memory_mb * 2**20 / (_BYTES * _MATRICES * max(n_columns, 2))))


class Reservoir:
    """A uniform sample of rows of which nobody knows how many will come, from one pass over them.

    Examples
    --------
    >>> some = Reservoir(3, seed=0)
    >>> for start in range(0, 100, 10):
    ...     some.add([np.arange(start, start + 10)])
    >>> some.size, some.seen, len(some.take()[0])
    (3, 100, 3)
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seen = size, 0
        self._rng = np.random.default_rng(seed)
        self._keys: list[FloatArray] = []
        self._parts: list[list[NDArray[Any]]] = []
        self._threshold = 1.0
        self._held = 0

    def add(self, columns: list[NDArray[Any]]) -> None:
        """Offer some rows: arrays of the same length."""
        n = len(columns[0])
        keys = self._rng.random(n)
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
            self._threshold = float(np.partition(keys, self.size)[self.size])
            kept = [part < self._threshold for part in self._keys]
            self._parts = [[c[keep] for c in part] for part, keep in zip(self._parts, kept, strict=True)]
            self._keys = [part[keep] for part, keep in zip(self._keys, kept, strict=True)]
        self._keys = [np.concatenate(self._keys)]
        self._parts = [[np.concatenate(parts) for parts in zip(*self._parts, strict=True)]]
        self._held = len(self._keys[0])

    def take(self) -> list[NDArray[Any]]:
        """The sample, in the order of the rows."""
        self._thin()
        return self._parts[0]


class Bar:
    """A progress bar for each pass, shown on a terminal."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def start(self, what: str, n_rows: int) -> None:
        self.stop()
        self._total = n_rows
        self._bar = ProgressBar(1.0, what)
        self._bar.__enter__()

    def move(self, rows: int) -> None:
        assert self._bar is not None
        self._bar.move(rows / self._total if self._total else 0.0, f"{rows:,} rows")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.__exit__()
            self._bar = None


class Survey:
    """What a first pass over batches finds out.

    Attributes
    ----------
    n_rows, total_weight : rows that have a weight, and the sum of the weights.
    sample_x, sample_labels, sample_weight : a uniform sample, all rows if they are few.
    """

    def __init__(self, reader: BatchReader, memory_mb: float, seed: int, bar: Bar) -> None:
        counts: dict[Any, float] = {}
        reservoir: Reservoir | None = None
        self.total_weight, self.n_rows = 0.0, 0
        self.all_equal, weighted, first = True, False, None
        bar.start("first pass", 0)
        for x, labels, weight in reader.read():
            seen = distinct(labels)
            for label, count in zip(
                seen.tolist(), np.bincount(encode(labels, seen), weight, minlength=len(seen)).tolist(), strict=True
            ):
                counts[label] = counts.get(label, 0.0) + count
            if reservoir is None:
                reservoir, first = Reservoir(rows_in_memory(memory_mb, x.shape[1]), seed), x[0].copy()
            self.all_equal = self.all_equal and bool(np.all(x == first))
            weighted |= weight is not None
            reservoir.add([x, labels, np.ones(len(labels)) if weight is None else weight])
            self.n_rows += len(labels)
            self.total_weight += float(len(labels)) if weight is None else float(weight.sum())
            bar.move(self.n_rows)
        check_total_weight(np.array([self.total_weight]))
        if weighted:
            check_counts(self.total_weight, self.n_rows)
        assert reservoir is not None
        self.sample_x, self.sample_labels, sample_weight = reservoir.take()
        self.sample_weight = None if bool(np.all(sample_weight == 1.0)) else sample_weight
        self.n_columns = self.sample_x.shape[1]
        self.labels = distinct(_as_labels(list(counts), self.sample_labels))
        self._counts = counts

    @property
    def complete(self) -> bool:
        """Whether the sample is all rows."""
        return len(self.sample_x) == self.n_rows

    def class_weights(self, classes: NDArray[Any]) -> FloatArray:
        """The weight of the rows with each label."""
        return np.array([self._counts.get(label, 0.0) for label in classes.tolist()])


def _as_labels(found: list[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Labels as an array of the type that batches have; texts as long as the longest."""
    if like.dtype.kind == "O":
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return out
    return np.array(found, dtype=like.dtype if like.dtype.kind not in "US" else None)


def blocks_of(
    reader: BatchReader, classes: NDArray[Any], order: NDArray[np.intp] | None
) -> Callable[[], Iterator[Block]]:
    """A function that reads all rows again, with column numbers for labels and columns in the order of the classes."""

    def read() -> Iterator[Block]:
        for x, labels, weight in reader.read():
            yield Block(x if order is None else x[:, order], encode(labels, classes), weight)

    return read
