"""NumPy archives (npz) from anywhere: sizes are looked up before arrays are read, pickled objects are refused."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.limits import check_size


class ArchiveError(ValueError):
    """A file that is not a NumPy archive, or a damaged one."""


class Archive:
    """An open archive; see `open_archive`."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self._path = path
        self._opened = opened
        self.names = [name.removesuffix(".npy") for name in opened.namelist() if name.endswith(".npy")]

    def read(self, *names: str) -> list[NDArray[Any]]:
        """The arrays of these names, if together they are within the limit."""
        with _explained(self._path):
            members = [self._opened.getinfo(f"{name}.npy") for name in names]
        # Not more than this is ever unpacked, whatever the arrays say of their shapes.
        check_size(sum(member.file_size for member in members), str(self._path))
        with _explained(self._path):
            return [self._array(member) for member in members]

    def _array(self, member: zipfile.ZipInfo) -> NDArray[Any]:
        with self._opened.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


@contextmanager
def open_archive(path: str | Path) -> Iterator[Archive]:
    """Open an npz file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "a.npz", p=[0.5])
    ...     with open_archive(Path(folder) / "a.npz") as archive:
    ...         archive.names, archive.read("p")
    (['p'], [array([0.5])])
    """
    path = Path(path)
    with _explained(path):
        opened = zipfile.ZipFile(path)
    with opened:
        yield Archive(path, opened)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """One line that names the file for all that zip files and arrays in them can suffer from."""
    try:
        yield
    except Exception as error:  # zipfile, zlib, bz2, lzma and NumPy each have errors of their own
        reason = str(error) or type(error).__name__
        raise ArchiveError(f"{path} cannot be read as a NumPy archive: {reason}") from error
