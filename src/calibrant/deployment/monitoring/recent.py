"""The latest labelled rows, as many as a fixed amount of memory holds: what changed is measured on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.typing import FloatArray, IntArray

#: Numbers kept, and rows between which their number lies.
_NUMBERS, _FEWEST, _MOST = 60_000, 200, 5000


@dataclass
class Recent:
    """Calibrated probabilities, column numbers of labels and segments (n, c) of the latest rows, oldest first."""

    p: FloatArray
    y: IntArray
    segment: NDArray[Any]

    @classmethod
    def start(cls, k: int) -> Recent:
        """No rows yet."""
        return cls(np.empty((0, k)), np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=object))

    def add(self, p: FloatArray, y: IntArray, segment: NDArray[Any]) -> None:
        """Add rows; the oldest leave."""
        kept = int(np.clip(_NUMBERS // p.shape[1], _FEWEST, _MOST))
        self.p = np.concatenate([self.p, p])[-kept:]
        self.y = np.concatenate([self.y, y])[-kept:]
        self.segment = np.concatenate([self.segment, segment])[-kept:] if len(self.segment) else segment[-kept:]

    def take(self, rows: int, segment: str | None) -> tuple[FloatArray, IntArray]:
        """The latest `rows` at most, of one segment if it is named."""
        chosen = np.arange(max(0, len(self.y) - rows), len(self.y))
        if segment is not None:
            chosen = chosen[(self.segment[chosen] == segment).any(axis=1)]
        return self.p[chosen], self.y[chosen]

    def to_json(self) -> dict[str, Any]:
        """The rows in terms of JSON."""
        return {"p": self.p.tolist(), "y": self.y.tolist(), "segment": self.segment.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any], k: int) -> Recent:
        """What `to_json` was given."""
        p = np.array(value["p"], dtype=np.float64).reshape(-1, k)
        segment = np.array(value["segment"], dtype=object).reshape(len(p), -1 if len(p) else 0)
        return cls(p, np.array(value["y"], dtype=np.int64), segment)
