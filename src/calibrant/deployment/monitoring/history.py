"""What a monitor remembers, in bounded memory: how much it saw, the latest rows and groups, and batches as a table.

The older half of the table is joined in pairs of batches when it is full. What changed is measured on the latest
labelled rows, which are kept in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.deployment.monitoring.periods import in_words, missing_periods
from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.segments import texts_of
from calibrant.sample import Sample, Size
from calibrant.typing import AnyFloatArray, FloatArray

#: Batches in the table, and the latest of them, which are not joined: more than can be taken out again.
_MOST, _LATEST = 200, 60
#: Names of groups are told apart by so many bits of a checksum, and so many of the latest are kept: in a file they
#: take about as much room as the latest rows.
GROUP_BITS, GROUPS = 48, 10_000
#: Numbers kept of the latest rows, and rows between which their number lies.
_NUMBERS, _FEWEST_ROWS, _MOST_ROWS = 15_000, 200, 5000


def group_marks(groups: Any) -> list[int]:
    """A number for each name of a group, in the order in which they appear first.

    Examples
    --------
    >>> group_marks(["a", "b", "a"]) == [*group_marks(["a"]), *group_marks(["b"])]
    True
    """
    names = dict.fromkeys(texts_of(to_numpy(groups, "groups")))
    digests = (blake2b(name.encode(), digest_size=GROUP_BITS // 8).digest() for name in names)
    return [int.from_bytes(digest, "big") for digest in digests]


def latest_groups(before: list[int], marks: list[int]) -> list[int]:
    """The latest groups once a batch with `marks` is over, oldest first: a group that comes back is among them."""
    return list(dict.fromkeys([*reversed(marks), *reversed(before)]))[:GROUPS][::-1]


@dataclass(frozen=True)
class Seen:
    """Rows, the observations they stand for, and their groups: as many as rows where there are none.

    Examples
    --------
    >>> print(Seen(1200, 3600.0, 1200))
    1,200 rows, 3,600 observations
    """

    rows: int = 0
    observations: float = 0.0
    groups: int = 0

    def __str__(self) -> str:
        total = None if self.observations == self.rows else self.observations
        return str(Size(self.rows, total, None if self.groups == self.rows else self.groups))

    def plus(self, data: Sample) -> Seen:
        """With the rows of another batch."""
        return Seen(self.rows + data.n_rows, self.observations + data.total, self.groups + data.n_groups)


@dataclass(frozen=True)
class Record:
    """Some batches: rows, of them with labels, evidence after the last, expected accuracy of all and of labelled rows.

    `accuracy` is that of the labelled rows; it is None, as `expected_labelled` is, if there are none. `observations`
    are what the rows stand for, or the labelled ones where labels came late. Of the labelled rows, `expected_count` and
    `observed_count` are how many were expected and found to be of the second class, of more than two classes how many
    predictions were expected and found to be right. `first` and `last` are the names of the batches, if they have any.
    """

    rows: int
    labelled: int
    log_evidence: float
    expected_accuracy: float
    expected_labelled: float | None
    accuracy: float | None
    observations: float
    labelled_observations: float
    expected_count: float | None = None
    observed_count: float | None = None
    first: str | None = None
    last: str | None = None

    @property
    def name(self) -> str:
        """The batch in words."""
        return "" if self.first is None else in_words(self.first, self.last)

    def joined(self, later: Record) -> Record:
        """This record and the next as one."""

        def mean(a: float | None, b: float | None, first: float, second: float) -> float | None:
            if a is None or b is None:
                return b if a is None else a
            return (first * a + second * b) / (first + second)

        # Late labels of rows that were counted before: where there are no others, the rows are those with labels.
        first, second = ((part.observations if part.rows else 0.0) for part in (self, later))
        if not (first or second):
            first, second = self.observations, later.observations
        labelled = self.labelled_observations, later.labelled_observations
        return Record(
            self.rows + later.rows,
            self.labelled + later.labelled,
            later.log_evidence,
            float(mean(self.expected_accuracy, later.expected_accuracy, first, second) or 0.0),
            mean(self.expected_labelled, later.expected_labelled, *labelled),
            mean(self.accuracy, later.accuracy, *labelled),
            first + second,
            sum(labelled),
            _sum(self.expected_count, later.expected_count),
            _sum(self.observed_count, later.observed_count),
            self.first if self.first is not None else later.first,
            later.last if later.last is not None else self.last,
        )


def _sum(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


@dataclass
class History:
    """Records in the order in which batches came.

    Examples
    --------
    >>> history = History()
    >>> for _ in range(201):
    ...     history.add(Record(10, 10, 0.0, 0.9, 0.9, 0.8, 10.0, 10.0))
    >>> len(history.records), history.records[0].rows, history.records[-1].rows
    (131, 20, 10)
    """

    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Add a batch."""
        self.records.append(record)
        if len(self.records) > _MOST:
            older, latest = self.records[:-_LATEST], self.records[-_LATEST:]
            pairs = [older[i : i + 2] for i in range(0, len(older), 2)]
            self.records = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs] + latest

    def name_at(self, labelled_row: int) -> str:
        """The batch that holds a labelled row, counted from 0, in words; empty if it has no name."""
        for record in self.records:
            labelled_row -= record.labelled
            if labelled_row < 0:
                return record.name
        return ""

    def missing(self) -> list[str]:
        """Periods without a batch, between the first and the last that has one."""
        return missing_periods((record.first, record.last) for record in self.records)


@dataclass
class Recent:
    """The latest rows with calibrated probabilities, oldest first, and their segments (n, c)."""

    data: Sample
    segment: NDArray[Any]

    @classmethod
    def start(cls, classes: NDArray[Any]) -> Recent:
        """No rows yet."""
        nothing = Sample(np.empty((0, len(classes))), np.empty(0, dtype=np.int64), classes=classes)
        return cls(nothing, np.empty((0, 0), dtype=object))

    def add(self, data: Sample, segment: NDArray[Any]) -> None:
        """Add rows; the oldest leave."""
        kept = int(np.clip(_NUMBERS // data.n_classes, _FEWEST_ROWS, _MOST_ROWS))
        data = Sample.joined([self.data, replace(data, values=in_single_precision(data.proba))])
        self.data = data.take(np.arange(data.n_rows)[-kept:])
        self.segment = np.concatenate([self.segment, segment])[-kept:] if len(self.segment) else segment[-kept:]

    def take(self, rows: int, segment: str | None) -> Sample:
        """The latest `rows` at most, of one segment if it is named."""
        n = self.data.n_rows
        chosen = np.arange(max(0, n - rows), n)
        if segment is not None:
            chosen = chosen[(self.segment[chosen] == segment).any(axis=1)]
        return self.data.take(chosen)

    def without(self, rows: int) -> Recent:
        """All but the latest `rows`."""
        kept = max(0, self.data.n_rows - rows)
        return Recent(self.data.take(np.arange(kept)), self.segment[:kept])


def in_single_precision(p: AnyFloatArray) -> FloatArray:
    """Probabilities as the file of a monitor holds them, so that one that goes on from it has the same numbers."""
    return p.astype(np.float32).astype(np.float64)
