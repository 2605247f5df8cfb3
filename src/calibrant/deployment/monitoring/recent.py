"""The latest labelled rows, as many as a fixed amount of memory holds: what changed is measured on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.sample import Sample

#: Numbers kept, and rows between which their number lies.
_NUMBERS, _FEWEST, _MOST = 60_000, 200, 5000


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
        kept = int(np.clip(_NUMBERS // data.n_classes, _FEWEST, _MOST))
        data = Sample.joined([self.data, data])
        self.data = data.take(np.arange(data.n_rows)[-kept:])
        self.segment = np.concatenate([self.segment, segment])[-kept:] if len(self.segment) else segment[-kept:]

    def take(self, rows: int, segment: str | None) -> Sample:
        """The latest `rows` at most, of one segment if it is named."""
        n = self.data.n_rows
        chosen = np.arange(max(0, n - rows), n)
        if segment is not None:
            chosen = chosen[(self.segment[chosen] == segment).any(axis=1)]
        return self.data.take(chosen)

    def to_json(self) -> dict[str, Any]:
        """The rows in terms of JSON."""
        data = self.data
        counts, groups = (None if part is None else part.tolist() for part in (data.counts, data.groups))
        rows = {"p": data.proba.tolist(), "y": data.y.tolist(), "counts": counts, "groups": groups}
        return {**rows, "segment": self.segment.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any], classes: NDArray[Any]) -> Recent:
        """What `to_json` was given."""
        p = np.array(value["p"], dtype=np.float64).reshape(-1, len(classes))
        counts = None if value["counts"] is None else np.array(value["counts"], dtype=np.float64)
        groups = None if value["groups"] is None else np.array(value["groups"], dtype=np.int64)
        segment = np.array(value["segment"], dtype=object).reshape(len(p), -1 if len(p) else 0)
        return cls(Sample(p, np.array(value["y"], dtype=np.int64), counts, groups, classes), segment)
