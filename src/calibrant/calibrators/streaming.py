"""Fits to rows that come in parts: a first pass finds out what there is, later ones compute with it.

The first pass checks every row, counts rows, labels and weights, and keeps a uniform sample in memory: each row of a
batch is given a random number, and the rows with the smallest ones stay. The sample is what methods are fitted to that
need all rows at once; the others start from it and take their curvature from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.batches import BatchReader, CheckedRows
from calibrant.inputs.labels import distinct, encode, warn_of_missing_information
from calibrant.inputs.observations import check_observations
from calibrant.inputs.seen import SeenLabels
from calibrant.progress import ProgressBar
from calibrant.softmax.rows.sums import Block
from calibrant.typing import FloatArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

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


class Facts(NamedTuple):
    """What is known of a part of the rows without looking at it again."""

    n_rows: int
    labels: NDArray[Any]
    counts: FloatArray
    first: FloatArray
    all_equal: bool


def facts_of(rows: CheckedRows) -> Facts:
    """The distinct labels of some rows with their weights, the first prediction, and whether all are like it."""
    seen, first = distinct(rows.labels), rows.x[0].copy()
    counts = np.bincount(encode(rows.labels, seen), rows.weight, minlength=len(seen)).astype(np.float64)
    return Facts(len(rows.labels), seen, counts, first, bool(np.all(rows.x == first)))


class Findings:
    """What is known of all rows, put together from the facts of their parts.

    Attributes
    ----------
    n_rows, total_weight : observations, and the sum of their weights.
    n_classes : columns of the log-probabilities.
    """

    n_classes: int

    def __init__(self) -> None:
        self.n_rows = 0
        self._seen = SeenLabels()
        self._counts: dict[Any, float] = {}
        self._first: FloatArray | None = None
        self._all_equal = True

    def add(self, facts: Facts, place: str | Callable[[Any], str]) -> None:
        """Take in a part, which is at this place, or with a function that tells where in it a label is."""
        self._seen.add(facts.labels, place)
        for label, count in zip(facts.labels.tolist(), facts.counts.tolist(), strict=True):
            self._counts[label] = self._counts.get(label, 0.0) + count
        if self._first is None:
            self._first, self.n_classes = facts.first, len(facts.first)
        self._all_equal &= facts.all_equal and np.array_equal(facts.first, self._first)
        self.n_rows += facts.n_rows

    @property
    def total_weight(self) -> float:
        return sum(self._counts.values())

    def describe(
        self, calibrator: Calibrator, n_given: int, names: list[Any] | None, categories: NDArray[Any] | None
    ) -> None:
        """Check that something can be learned, and give a calibrator its classes with their counts."""
        check_observations(self.n_rows, np.array([self.total_weight]))
        labels = self._seen.labels
        with self._seen.named():
            calibrator._take_names(labels, self.n_classes, n_given, names, categories)
        classes = calibrator.classes_.tolist()
        calibrator.class_counts_ = np.array([self._counts.get(label, 0.0) for label in classes])
        only = labels[0] if len(labels) == 1 else None
        warn_of_missing_information(self.n_rows, only, self._all_equal)


def survey(reader: BatchReader, memory_mb: float, seed: int, bar: Bar) -> tuple[Findings, CheckedRows]:
    """The first pass: what there is, and a uniform sample of it, all rows if they are few."""
    found, reservoir = Findings(), None
    bar.start("first pass", 0)
    for rows in reader.read():
        found.add(facts_of(rows), reader.place_of)
        if reservoir is None:
            reservoir = Reservoir(rows_in_memory(memory_mb, found.n_classes), seed)
        x, labels, weight = rows
        reservoir.add([x, labels, np.ones(len(labels)) if weight is None else weight])
        bar.move(found.n_rows)
    check_observations(found.n_rows, None)
    assert reservoir is not None
    return found, joined([CheckedRows(*reservoir.take())])


def joined(parts: list[CheckedRows]) -> CheckedRows:
    """Parts of the rows as one; weights that are all one are `None`."""
    weights = [np.ones(len(part.labels)) if part.weight is None else part.weight for part in parts]
    x, labels, weight = (
        np.concatenate(column) for column in ([p.x for p in parts], [p.labels for p in parts], weights)
    )
    return CheckedRows(x, labels, None if bool(np.all(weight == 1.0)) else weight)


def encoded(rows: CheckedRows, classes: NDArray[Any], order: NDArray[np.intp] | None) -> Block:
    """Rows with column numbers for labels and columns in the order of the classes."""
    x = rows.x if order is None else np.ascontiguousarray(rows.x[:, order])
    return Block(x, encode(rows.labels, classes), rows.weight)


def blocks_of(
    reader: BatchReader, classes: NDArray[Any], order: NDArray[np.intp] | None
) -> Callable[[], Iterator[Block]]:
    """A function that reads all rows again, as fits want them."""
    return lambda: (encoded(rows, classes, order) for rows in reader.read())
