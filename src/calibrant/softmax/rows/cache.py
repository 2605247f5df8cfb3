"""Rows kept in a temporary file, for fits that pass over them many times: log-probabilities in float32.

Rounding to float32 changes a log-probability by a part in 10⁷, far below what any prediction is accurate to. The file
has no name, so that the system itself removes it when the fit ends, however it ends.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.sample import Sample
from calibrant.typing import IntArray

#: Bytes left free on the disk (256 MiB), for other programs.
_SPARE = 1 << 28


class RowCache:
    """A temporary file for `n_rows` rows of `n_classes` log-probabilities.

    Parameters
    ----------
    folder : path, default=None
        Where the file is made; by default the system's folder for temporary files.
    most_mb : float, default=None
        Most disk space in MiB; by default what is free.
    """

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
        """Write all rows."""
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
