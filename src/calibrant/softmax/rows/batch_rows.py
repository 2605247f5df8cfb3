"""Rows in batches that can be read again from the start: files, iterators, anything larger than memory.

A pass reads all batches, cuts them into blocks that stay in the cache of the processor, and adds up what the kernels
compute of each. Fits of many coefficients make so many passes that they keep the rows in a temporary file.

That file holds log-probabilities in float32: rounding changes one by a part in 10⁷, far below what any prediction is
accurate to. It has no name, so that the system itself removes it when the fit ends, however it ends.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.progress import ProgressBar
from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows, BlockFunction, Extent, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up, block_rows
from calibrant.typing import IntArray

#: Bytes left free on the disk (256 MiB), for other programs.
_SPARE = 1 << 28


class RowCache:
    """A temporary file of at most `most_mb` MiB, in the system's folder for such files unless `folder` is given."""

    def __init__(self, n_rows: int, n_classes: int, folder: str | Path | None = None, most_mb: float | None = None):
        self.n_rows = n_rows
        self.folder = Path(tempfile.gettempdir() if folder is None else folder)
        self._row = np.dtype([("x", np.float32, (n_classes,)), ("y", np.int32), ("count", np.float64)])
        self.bytes_needed = n_rows * self._row.itemsize
        self._most = np.inf if most_mb is None else most_mb * 2**20
        self._rows: Any = None

    @property
    def fits(self) -> bool:
        """Whether the disk has room, and `most_mb` allows it."""
        return self.bytes_needed <= min(self._most, shutil.disk_usage(self.folder).free - _SPARE)

    @property
    def filled(self) -> bool:
        return self._rows is not None

    def fill(self, blocks: Iterable[Sample]) -> None:
        with tempfile.TemporaryFile(dir=self.folder) as file:  # the mapping outlives it
            rows, start = np.memmap(file, self._row, "w+", shape=(self.n_rows,)), 0
        for block in blocks:
            here = rows[start : start + block.n_rows]
            here["x"], here["y"], here["count"] = block.x, block.y, block.each
            start += block.n_rows
        self._rows = rows

    def blocks(self, size: int, numbers: IntArray | None = None) -> Iterator[Sample]:
        """The rows in blocks of `size`, all or those with certain numbers."""
        for number in range(-(-self.n_rows // size)) if numbers is None else numbers:
            here = self._rows[number * size : (number + 1) * size]
            yield Sample(here["x"].astype(np.float64), here["y"].astype(np.int64), np.array(here["count"]), logs=True)

    def extent(self, size: int, numbers: IntArray) -> tuple[int, float]:
        """Number of rows and total weight of some blocks."""
        parts = [self._rows["count"][number * size : (number + 1) * size] for number in numbers]
        return sum(map(len, parts)), float(sum(part.sum() for part in parts))

    def __enter__(self) -> RowCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Release the file, which the system then removes."""
        self._rows = None


def watched(blocks: Iterable[Sample], what: str, n_rows: int = 0) -> Iterator[Sample]:
    """The same blocks, with a progress bar on a terminal; without the number of all rows it counts them only."""
    done = 0
    with ProgressBar(1.0, what) as bar:
        for block in blocks:
            yield block
            done += block.n_rows
            bar.move(done / n_rows if n_rows else 0.0, f"{done:,} rows")


class BatchRows(SummedRows):
    """Labelled log-probabilities read batch by batch: `read` gives a fresh iterator of validated blocks of any size.

    `cache` is where rows may be kept for many passes; `n_passes` counts those over all rows so far, with the one that
    found `extent` and `sample`.
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
