"""Which batches a monitor has seen, by name and by content, and how it was before each of the latest ones.

A batch that comes again is refused. To replace one, the monitor goes back to before it: the evidence after a batch
depends on all batches before it, so that later ones have to be given again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from calibrant.sample import Sample

#: Batches are told apart by so many bits of a checksum, and so many of the latest are known: more than a year of days.
BATCH_BITS, KNOWN = 48, 400
#: Batches that can be taken out again, a year of months, as far as their states hold no more numbers than this. The
#: latest one can, unless its state is larger than that of a hundred classes by far.
_LATEST, _NUMBERS, _LARGEST_STATE = 12, 6_000, 50_000
#: Different predictions from which two batches of equal content are taken for the same rows: rare events and
#: calibrators with a few levels give equal batches by chance.
_DIFFERENT = 20


class BatchSeenError(ValueError):
    """A batch of this name, or of these rows, was added before.

    Attributes
    ----------
    name : str
        Of the batch that was refused.
    known : bool
        Whether there is a batch of this name; else these are the rows of one of another name.
    same_rows : bool
        Whether its rows are those of the batch of this name.
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
        parts = [np.ascontiguousarray(data.proba, dtype=np.float64), data.y if labelled else None, data.counts]
        rows = _checksum(*(b"" if part is None else np.ascontiguousarray(part).tobytes() for part in parts))
        text = name if isinstance(name, str) else f"{rows:012x}"
        telling = len(np.unique(parts[0].max(axis=1))) >= _DIFFERENT  # type: ignore[union-attr]
        return text, cls(_checksum(text.encode()), rows, labelled, telling)


def _checksum(*parts: bytes) -> int:
    digest = blake2b(digest_size=BATCH_BITS // 8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest(), "big")


@dataclass
class BatchLog:
    """Named batches in the order in which they came.

    `before` holds the state before each of the latest ones in terms of JSON, and how many groups each brought.
    """

    entries: list[Entry] = field(default_factory=list)
    before: list[dict[str, Any]] = field(default_factory=list)

    def check(self, name: str, entry: Entry, *, late: bool) -> None:
        """Refuse a batch that was added before, unless these are the late labels of one that came without."""
        known = [other for other in self.entries if other.name == entry.name]
        if not known:
            if entry.telling and any(other.rows == entry.rows for other in self.entries):
                message = f"The rows of the batch {name!r} were added before, under another name."
                raise BatchSeenError(name, message, known=False, same_rows=False)
        elif not (late and not any(other.labelled for other in known)):
            same = any(other.rows == entry.rows for other in known)
            what = "and these are its rows" if same else "with other rows"
            without = not any(other.labelled for other in known) and entry.labelled
            late_words = " It had no labels then: `observed` adds them." if without else ""
            message = f"The batch {name!r} was added before, {what}.{late_words}"
            raise BatchSeenError(name, message, known=True, same_rows=same)

    def add(self, entry: Entry | None, before: dict[str, Any], size: int) -> None:
        """Add a batch, whose state before it has `size` numbers; one without a name bars the way back."""
        self.before = [] if entry is None or size > _LARGEST_STATE else [*self.before, before]
        self.before = self.before[-max(1, min(_LATEST, _NUMBERS // size)) :]
        if entry is not None:
            self.entries = [*self.entries, entry][-KNOWN:]

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
                f"The batch {name!r} is too far back: the latest {len(latest)} can be replaced. Start a new state and "
                "give it all batches."
            )
        raise ValueError(f"There is no batch {name!r}.")
