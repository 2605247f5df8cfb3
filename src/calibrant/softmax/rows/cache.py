"""Rows kept in a temporary file, for fits that pass over them many times: log-probabilities in float32.

Rounding to float32 changes a log-probability by a part in 10⁷, far below what any prediction is accurate to. The files
have no name, so that the system itself removes them when the fit ends, however it ends.
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

#: What is left free on the disk.
_SPARE = 1 << 28


class RowCache:
    """A place for so many rows of `n_classes` log-probabilities.

    Parameters
    ----------
    folder : path, default=None
        Where the files are made; by default the system's folder for temporary files.
    most_mb : float, default=None
        Most disk space in MiB; by default what is free.
    """

    def __init__(self, n_rows: int, n_classes: int, folder: str | Path | None = None, most_mb: float | None = None):
        self.shape = (n_rows, n_classes)
        self.folder = Path(tempfile.gettempdir() if folder is None else folder)
        self.bytes_needed = n_rows * (4 * n_classes + 4 + 8)
        self._most = np.inf if most_mb is None else most_mb * 2**20
        self._files: list[Any] = []
        self._columns: list[Any] = []

    @property
    def fits(self) -> bool:
        """Whether the disk has room, and may be used."""
        return self.bytes_needed <= min(self._most, shutil.disk_usage(self.folder).free - _SPARE)

    @property
    def filled(self) -> bool:
        return bool(self._columns)

    def fill(self, blocks: Iterable[Sample]) -> None:
        """Write all rows."""
        n, k = self.shape
        self._files = [tempfile.TemporaryFile(dir=self.folder) for _ in range(3)]  # noqa: SIM115, closed by remove
        try:
            x = np.memmap(self._files[0], np.float32, "w+", shape=(n, k))
            y = np.memmap(self._files[1], np.int32, "w+", shape=(n,))
            weight = np.memmap(self._files[2], np.float64, "w+", shape=(n,))
            start = 0
            for block in blocks:
                here = slice(start, start + len(block.y))
                x[here], y[here] = block.x, block.y
                weight[here] = block.each
                start = here.stop
        except BaseException:
            self.remove()
            raise
        self._columns = [x, y, weight]

    def blocks(self, size: int, numbers: IntArray | None = None) -> Iterator[Sample]:
        """The rows in blocks of `size`, all or those with certain numbers."""
        x, y, weight = self._columns
        for number in range(-(-self.shape[0] // size)) if numbers is None else numbers:
            here = slice(number * size, (number + 1) * size)
            yield Sample(x[here].astype(np.float64), y[here].astype(np.int64), np.array(weight[here]), logs=True)

    def extent(self, size: int, numbers: IntArray) -> tuple[int, float]:
        """Number of rows and total weight of some blocks."""
        parts = [self._columns[2][number * size : (number + 1) * size] for number in numbers]
        return sum(map(len, parts)), float(sum(part.sum() for part in parts))

    def __enter__(self) -> RowCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the files."""
        self._columns = []
        for file in self._files:
            file.close()
        self._files = []
