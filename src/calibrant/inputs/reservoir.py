"""A uniform sample of rows, or of groups of rows, from one pass over them."""

from __future__ import annotations

import numpy as np

from calibrant.typing import AnyArray, FloatArray

#: The sample is thinned when it exceeds its size by this factor: thinning it for every batch would be slow.
_SLACK = 1.25


class Reservoir:
    """A uniform sample of rows from one pass over them, without knowing how many will come.

    >>> some = Reservoir(3, seed=0)
    >>> for start in range(0, 100, 10):
    ...     some.add([np.arange(start, start + 10)])
    >>> some.size, some.seen, len(some.take()[0])
    (3, 100, 3)

    Rows of one group are kept or left out together, so that the sample is one of groups:

    >>> some = Reservoir(50, seed=0)
    >>> some.add([np.arange(100)], groups=np.arange(100) // 10)
    >>> np.unique(some.take()[0] // 10, return_counts=True)[1].tolist()
    [10, 10, 10, 10, 10]
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seen = size, 0
        self._rng = np.random.default_rng(seed)
        self._keys: list[FloatArray] = []
        self._parts: list[list[AnyArray]] = []
        self._threshold = 1.0
        self._held = 0

    def add(self, columns: list[AnyArray], groups: AnyArray | None = None) -> None:
        """Offer some rows: arrays of the same length, with a number for each if groups are to be drawn."""
        n = len(columns[0])
        keys = self._rng.random(n) if groups is None else _hashed(groups)
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
            # One group is kept in any case.
            self._threshold = max(float(np.partition(keys, self.size)[self.size]), np.nextafter(keys.min(), 1.0))
            kept = [part < self._threshold for part in self._keys]
            self._parts = [[c[keep] for c in part] for part, keep in zip(self._parts, kept, strict=True)]
            self._keys = [part[keep] for part, keep in zip(self._keys, kept, strict=True)]
        self._keys = [np.concatenate(self._keys)]
        self._parts = [[np.concatenate(parts) for parts in zip(*self._parts, strict=True)]]
        self._held = len(self._keys[0])

    def take(self) -> list[AnyArray]:
        """The sample, in the order of the rows."""
        self._thin()
        return self._parts[0]


def _hashed(groups: AnyArray) -> FloatArray:
    """Numbers between 0 and 1 that look random, equal for equal groups (the finaliser of SplitMix64)."""
    bits = groups.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).astype(np.float64) / 2.0**64
