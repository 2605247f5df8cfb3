"""What was seen: how much in total, and the batches as a table of bounded length, joined in pairs when it is full."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.segments import texts_of
from calibrant.sample import Sample, Size

_MOST = 200
#: Names of groups are told apart by so many bits of a checksum, and so many of the latest are kept.
GROUP_BITS, _GROUPS = 48, 1000


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


def latest_groups(marks: list[int]) -> list[int]:
    """Those of a batch that are kept, to see whether a group goes on in the next batch."""
    return marks[-_GROUPS:]


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
    are what the rows stand for, or the labelled ones where labels came late.
    """

    rows: int
    labelled: int
    log_evidence: float
    expected_accuracy: float
    expected_labelled: float | None
    accuracy: float | None
    observations: float
    labelled_observations: float

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
        )


@dataclass
class History:
    """Records in the order in which batches came.

    Examples
    --------
    >>> history = History()
    >>> for _ in range(201):
    ...     history.add(Record(10, 10, 0.0, 0.9, 0.9, 0.8, 10.0, 10.0))
    >>> len(history.records), history.records[0].rows, history.records[-1].rows
    (101, 20, 10)
    """

    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Add a batch."""
        self.records.append(record)
        if len(self.records) > _MOST:
            pairs = [self.records[i : i + 2] for i in range(0, len(self.records), 2)]
            self.records = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]

    def to_json(self) -> list[dict[str, Any]]:
        """The records in terms of JSON."""
        return [asdict(record) for record in self.records]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> History:
        """What `to_json` was given."""
        return cls([Record(**record) for record in value])
