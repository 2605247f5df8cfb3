"""What a monitor remembers, in bounded memory: how much it saw, batches as a table and by name, the latest rows.

The older half of the table is joined in pairs of batches when it is full. What changed is measured on the latest
labelled rows, which are kept in single precision. A batch that comes again is refused. To replace one, the monitor goes
back to before it: the evidence after a batch depends on all batches before it, so that later ones have to be given
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from calibrant.deployment.monitoring.periods import in_words, missing_periods
from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.segments import texts_of
from calibrant.sample import Sample, Size
from calibrant.typing import AnyArray

#: Batches in the table, and the latest of them, which are not joined: more than can be taken out again.
_IN_TABLE, _NOT_JOINED = 200, 60
#: Names of groups and batches are told apart by so many bits of a checksum: two of 10,000 agree by chance in one of
#: five million monitors, and a number of so many bits is exact in JSON.
NAME_BITS = 48
#: Groups that are remembered: in a file they take about as much room as the latest rows.
GROUPS = 10_000
#: Batches that are remembered: more than a year of days.
_BATCHES = 400
#: Batches that can be taken out again, a year of months, as far as their states hold no more numbers than this. The
#: latest one can, unless its state is larger than that of a hundred classes by far.
_UNDONE, _STATE_NUMBERS, _LARGEST_STATE = 12, 6_000, 50_000
#: Different predictions from which two batches of equal content are taken for the same rows: rare events and
#: calibrators with a few levels give equal batches by chance.
_DIFFERENT = 20
#: Numbers kept of the latest rows, and rows between which their number lies: about 80 kB in a file.
_ROW_NUMBERS, _FEWEST_ROWS, _MOST_ROWS = 15_000, 200, 5000


@dataclass(frozen=True)
class Seen:
    """Rows, the observations they stand for, and their groups: as many as rows where there are none."""

    rows: int = 0
    observations: float = 0.0
    groups: int = 0

    def __str__(self) -> str:
        total = None if self.observations == self.rows else self.observations
        return str(Size(self.rows, total, None if self.groups == self.rows else self.groups))

    def plus(self, data: Sample) -> Seen:
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

    @classmethod
    def of(cls, seen: Sample, data: Sample, log_evidence: float, name: str | None, *, late: bool) -> Record:
        """Of a batch `seen`, the rows `data` of which have labels; if these came `late`, rows were counted before."""
        shown, right = data if late else seen, data.top == data.y
        expected, observed = (data.proba[:, 1], data.y == 1) if data.n_classes == 2 else (data.confidence, right)

        def total(rows: AnyArray, over: float = 1.0) -> float | None:
            return float(data.each @ rows) / over if data.n_rows else None

        return cls(
            0 if late else seen.n_rows,
            data.n_rows,
            log_evidence,
            float(shown.each @ shown.confidence) / shown.total,
            total(data.confidence, data.total),
            total(right, data.total),
            shown.total,
            data.total,
            total(expected),
            total(observed),
            name,
            name,
        )

    @property
    def name(self) -> str:
        """The batch in words."""
        return "" if self.first is None else in_words(self.first, self.last)

    def joined(self, later: Record) -> Record:
        """This record and the next as one."""
        # Late labels of rows that were counted before: where there are no others, the rows are those with labels.
        sizes = [part.observations if part.rows else 0.0 for part in (self, later)]
        if not any(sizes):
            sizes = [self.observations, later.observations]
        labelled = [self.labelled_observations, later.labelled_observations]

        def mean(name: str, sizes: list[float]) -> Any:
            known = [(getattr(part, name), size) for part, size in zip((self, later), sizes)]
            known = [(value, size) for value, size in known if value is not None]
            if len(known) < 2:
                return known[0][0] if known else None
            return sum(value * size for value, size in known) / sum(sizes)

        def total(name: str) -> float | None:
            known = [value for part in (self, later) if (value := getattr(part, name)) is not None]
            return sum(known) if known else None

        return Record(
            self.rows + later.rows,
            self.labelled + later.labelled,
            later.log_evidence,
            mean("expected_accuracy", sizes),
            mean("expected_labelled", labelled),
            mean("accuracy", labelled),
            sum(sizes),
            sum(labelled),
            total("expected_count"),
            total("observed_count"),
            self.first if self.first is not None else later.first,
            later.last if later.last is not None else self.last,
        )


@dataclass
class History:
    """Records in the order in which batches came."""

    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if len(self.records) > _IN_TABLE:
            older, latest = self.records[:-_NOT_JOINED], self.records[-_NOT_JOINED:]
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
    segment: AnyArray

    @classmethod
    def start(cls, classes: AnyArray) -> Recent:
        nothing = Sample(np.empty((0, len(classes))), np.empty(0, dtype=np.int64), classes=classes)
        return cls(nothing, np.empty((0, 0), dtype=object))

    def add(self, data: Sample, segment: AnyArray) -> None:
        """Add rows; the oldest leave."""
        kept = int(np.clip(_ROW_NUMBERS // data.n_classes, _FEWEST_ROWS, _MOST_ROWS))
        # As the file of a monitor holds them, so that one that goes on from it has the same numbers.
        single = data.proba.astype(np.float32).astype(np.float64)
        data = Sample.joined([self.data, replace(data, values=single)])
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


def group_marks(groups: object) -> list[int]:
    """A number for each name of a group, in the order in which they appear first."""
    names = dict.fromkeys(texts_of(to_numpy(groups, "groups")))
    digests = (blake2b(name.encode(), digest_size=NAME_BITS // 8).digest() for name in names)
    return [int.from_bytes(digest, "big") for digest in digests]


def latest_groups(before: list[int], marks: list[int]) -> list[int]:
    """The latest groups once a batch with `marks` is over, oldest first: a group that comes back is among them."""
    return list(dict.fromkeys([*reversed(marks), *reversed(before)]))[:GROUPS][::-1]


class BatchSeenError(ValueError):
    """A batch of this `name`, or of these rows, was added before.

    If the name is `known`, `same_rows` says whether its rows are these; else a batch of another name had them.
    """

    def __init__(self, name: str, message: str, *, known: bool, same_rows: bool) -> None:
        super().__init__(message)
        self.name, self.known, self.same_rows = name, known, same_rows


@dataclass(frozen=True)
class Entry:
    """Checksums of a batch's name and rows, whether it had labels, and whether its rows tell it from others."""

    name: int
    rows: int
    labelled: bool
    telling: bool

    @classmethod
    def of(cls, name: str | bool, data: Sample, *, labelled: bool) -> tuple[str, Entry]:
        """The name of a batch, its checksum if it is not given, and its entry."""
        p = np.ascontiguousarray(data.proba, dtype=np.float64)
        parts = [p, data.y if labelled else None, data.counts]
        rows = _checksum(*(b"" if part is None else np.ascontiguousarray(part).tobytes() for part in parts))
        text = name if isinstance(name, str) else f"{rows:012x}"
        return text, cls(_checksum(text.encode()), rows, labelled, len(np.unique(p.max(axis=1))) >= _DIFFERENT)


def _checksum(*parts: bytes) -> int:
    digest = blake2b(digest_size=NAME_BITS // 8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest(), "big")


@dataclass
class BatchLog:
    """Named batches in the order in which they came.

    `before` holds the state before each of the latest ones in terms of JSON, and how many groups each brought.
    """

    entries: list[Entry] = field(default_factory=list)
    before: list[dict[str, object]] = field(default_factory=list)

    def check(self, name: str, entry: Entry, *, late: bool) -> None:
        """Refuse a batch that was added before, unless these are the late labels of one that came without."""
        known = [other for other in self.entries if other.name == entry.name]
        without_labels = not any(other.labelled for other in known)
        if not known:
            if entry.telling and any(other.rows == entry.rows for other in self.entries):
                message = f"The rows of the batch {name!r} were added before, under another name."
                raise BatchSeenError(name, message, known=False, same_rows=False)
        elif not (late and without_labels):
            same = any(other.rows == entry.rows for other in known)
            what = "and these are its rows" if same else "with other rows"
            hint = " It had no labels then: `observed` adds them." if without_labels and entry.labelled else ""
            raise BatchSeenError(
                name, f"The batch {name!r} was added before, {what}.{hint}", known=True, same_rows=same
            )

    def add(self, entry: Entry | None, before: dict[str, object], size: int) -> None:
        """Add a batch, whose state before it has `size` numbers; those before one without a name stay."""
        self.before = [] if entry is None or size > _LARGEST_STATE else [*self.before, before]
        self.before = self.before[-max(1, min(_UNDONE, _STATE_NUMBERS // size)) :]
        if entry is not None:
            self.entries = [*self.entries, entry][-_BATCHES:]

    def back(self, name: str) -> list[dict[str, Any]]:
        """Take out the batch of this name and later ones: the states before each of them."""
        checksum = _checksum(name.encode())
        latest = [entry.name for entry in self.entries[-len(self.before) :]] if self.before else []
        if checksum in latest:
            place = latest.index(checksum)
            undone, self.before = self.before[place:], self.before[:place]
            del self.entries[-len(undone) :]
            return undone
        if any(entry.name == checksum for entry in self.entries):
            raise ValueError(
                f"The batch {name!r} is too old: only the latest {len(latest)} can be replaced. Start a new state and "
                "add all batches."
            )
        raise ValueError(f"There is no batch {name!r}.")
