"""Rows in batches that can be read again from the start: files, iterators, anything larger than memory.

A pass reads all batches, cuts them into blocks that stay in the cache of the processor, and adds up what the kernels
say of each. Fits of many coefficients pass over the rows so often that they keep them in a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Protocol

import numpy as np

from calibrant.sample import Sample
from calibrant.softmax.rows.base import BlockFunction
from calibrant.softmax.rows.cache import RowCache
from calibrant.softmax.rows.memory import ArrayRows
from calibrant.softmax.rows.sums import SummedRows, add_up, block_rows
from calibrant.typing import FloatArray, IntArray


class Watcher(Protocol):
    """Somebody who is told how far a pass is."""

    def start(self, what: str, n_rows: int) -> None: ...

    def move(self, rows: int) -> None: ...


class BatchRows(SummedRows):
    """Labelled log-probabilities read batch by batch.

    Parameters
    ----------
    read : callable
        Returns a fresh iterator of validated blocks of any size.
    n_rows, total_weight, class_weights
        What a first pass found: see `Rows`.
    sample : ArrayRows
        A uniform sample of the rows.
    cache : RowCache, default=None
        Where rows may be kept for many passes.
    watcher : Watcher, default=None
        Told how far each pass is.

    Attributes
    ----------
    n_passes : int, passes over all rows so far, with the one that found out what there is.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Sample]],
        *,
        n_rows: int,
        total_weight: float,
        class_weights: FloatArray,
        sample: ArrayRows,
        cache: RowCache | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._read = read
        self.n_rows, self.n_classes = n_rows, sample.n_classes
        self.total_weight, self.class_weights = total_weight, class_weights
        self._sample = sample
        self._cache = cache
        self._watcher = watcher
        self._size = block_rows(self.n_classes)
        self._numbers: IntArray | None = None
        self.n_passes = 1

    def sample(self) -> ArrayRows:
        return self._sample

    def expect_passes(self) -> None:
        cache = self._cache
        if cache is None or cache.filled or not cache.fits:
            return
        what = f"keep {cache.bytes_needed / 2**20:,.0f} MiB in {cache.folder}"
        cache.fill(self._watched(self._blocks(), what))

    def part(self, share: float, rng: np.random.Generator) -> BatchRows | None:
        """Blocks of the temporary file, drawn at random."""
        if self._cache is None or not self._cache.filled:
            return None
        count = -(-self.n_rows // self._size)
        other = copy(self)
        other._numbers = np.sort(rng.choice(count, max(1, round(share * count)), replace=False))
        other.n_rows, other.total_weight = self._cache.extent(self._size, other._numbers)
        return other

    def sums(self, function: BlockFunction) -> list[Any]:
        return add_up(function(block) for block in self._watched(self._blocks(), f"pass {self.n_passes + 1}"))

    def _blocks(self) -> Iterator[Sample]:
        """All rows, in blocks that stay in the cache of the processor."""
        self.n_passes += 1
        if self._cache is not None and self._cache.filled:
            yield from self._cache.blocks(self._size, self._numbers)
            return
        for block in self._read():
            yield from block.pieces(self._size)

    def _watched(self, blocks: Iterator[Sample], what: str) -> Iterator[Sample]:
        if self._watcher is None:
            yield from blocks
            return
        self._watcher.start(what, self.n_rows)
        done = 0
        for block in blocks:
            yield block
            done += len(block.y)
            self._watcher.move(done)
