"""Rows in batches that can be read again from the start: files, iterators, anything larger than memory.

A pass reads all batches, cuts them into blocks that stay in the cache of the processor, and adds up what the kernels
compute of each. Fits of many coefficients make so many passes that they keep the rows in a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy

import numpy as np

from calibrant.progress import ProgressBar
from calibrant.sample import Sample
from calibrant.softmax.rows.cache import RowCache
from calibrant.softmax.rows.memory import ArrayRows
from calibrant.softmax.rows.row_source import BlockFunction, Extent, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up, block_rows
from calibrant.typing import IntArray


def watched(blocks: Iterable[Sample], what: str, n_rows: int = 0) -> Iterator[Sample]:
    """The same blocks, with a progress bar on a terminal; without the number of all rows it counts them only."""
    done = 0
    with ProgressBar(1.0, what) as bar:
        for block in blocks:
            yield block
            done += block.n_rows
            bar.move(done / n_rows if n_rows else 0.0, f"{done:,} rows")


class BatchRows(SummedRows):
    """Labelled log-probabilities read batch by batch.

    Parameters
    ----------
    read : callable
        Returns a fresh iterator of validated blocks of any size.
    extent, sample
        What a first pass found: see `SummedRows`.
    cache : RowCache, default=None
        Where rows may be kept for many passes.

    Attributes
    ----------
    n_passes : int, passes over all rows so far, with the one that found out what there is.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Sample]],
        extent: Extent,
        sample: ArrayRows,
        cache: RowCache | None = None,
    ) -> None:
        super().__init__(extent, sample)
        self._read, self._cache = read, cache
        self._size = block_rows(self.n_classes)
        self._numbers: IntArray | None = None
        self.n_passes = 1

    def expect_passes(self) -> None:
        cache = self._cache
        if cache is None or cache.filled or not cache.fits:
            return
        what = f"keep {cache.bytes_needed / 2**20:,.0f} MiB in {cache.folder}"
        cache.fill(watched(self._blocks(), what, self.n_rows))

    def part(self, share: float, rng: np.random.Generator) -> BatchRows | None:
        """Blocks of the temporary file, drawn at random."""
        if self._cache is None or not self._cache.filled:
            return None
        count = -(-self.n_rows // self._size)
        other = copy(self)
        other._numbers = np.sort(rng.choice(count, max(1, round(share * count)), replace=False))
        other.n_rows, other.total_weight = self._cache.extent(self._size, other._numbers)
        return other

    def sums(self, function: BlockFunction) -> RowSums:
        return add_up(function(block) for block in watched(self._blocks(), f"pass {self.n_passes + 1}", self.n_rows))

    def _blocks(self) -> Iterator[Sample]:
        """All rows, in blocks that stay in the cache of the processor."""
        self.n_passes += 1
        if self._cache is not None and self._cache.filled:
            yield from self._cache.blocks(self._size, self._numbers)
            return
        for block in self._read():
            yield from block.pieces(self._size)
