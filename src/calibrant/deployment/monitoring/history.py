"""The batches that were seen, as a table of bounded length: old ones are joined in pairs when it is full."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_MOST = 200


@dataclass(frozen=True)
class Record:
    """Some batches: rows, of them with labels, evidence after the last, expected accuracy of all and of labelled rows.

    `accuracy` is that of the labelled rows; it is None, as `expected_labelled` is, if there are none.
    """

    rows: int
    labelled: int
    log_evidence: float
    expected_accuracy: float
    expected_labelled: float | None = None
    accuracy: float | None = None

    def joined(self, later: Record) -> Record:
        """This record and the next as one."""
        rows, labelled = self.rows + later.rows, self.labelled + later.labelled
        # Late labels of rows that were counted before: the rows are those with labels.
        sizes = (self.rows, later.rows) if rows else (self.labelled, later.labelled)

        def mean(a: float | None, b: float | None, first: int, second: int) -> float | None:
            if a is None or b is None:
                return b if a is None else a
            return (first * a + second * b) / (first + second)

        return Record(
            rows,
            labelled,
            later.log_evidence,
            float(mean(self.expected_accuracy, later.expected_accuracy, *sizes) or 0.0),
            mean(self.expected_labelled, later.expected_labelled, self.labelled, later.labelled),
            mean(self.accuracy, later.accuracy, self.labelled, later.labelled),
        )


@dataclass
class History:
    """Records in the order in which batches came.

    Examples
    --------
    >>> history = History()
    >>> for _ in range(201):
    ...     history.add(Record(10, 10, 0.0, 0.9, 0.9, 0.8))
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
