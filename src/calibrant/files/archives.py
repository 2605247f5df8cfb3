"""NumPy archives (npz) from anywhere: sizes are looked up before arrays are read, pickled objects are refused.

The memory that one file may use is limited: a few kilobytes of compressed zeros can claim to be terabytes.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from calibrant.typing import AnyArray

#: The environment variable that raises the limit, in gigabytes.
VARIABLE = "CALIBRANT_MAX_GB"
#: The limit unless it is set: what most machines have to spare.
_DEFAULT = "4"


class FileTooLargeError(ValueError):
    """What a file holds would take more memory than the limit."""


def check_size(n_bytes: float, what: str) -> None:
    """Raise an error if `what` would take more bytes of memory than the limit."""
    text = os.environ.get(VARIABLE, _DEFAULT)
    try:
        limit = float(text)
    except ValueError:
        raise ValueError(
            f"the environment variable {VARIABLE} is {text!r}; a number of gigabytes is expected"
        ) from None
    if not n_bytes <= limit * 1e9:
        raise FileTooLargeError(
            f"{what} would take {n_bytes / 1e9:.3g} GB of memory; the limit is {limit:g} GB. To read it anyway, "
            f"set the environment variable {VARIABLE}."
        )


class ArchiveError(ValueError):
    """A file that is not a NumPy archive, or a damaged one."""


class Archive:
    """An open archive; see `open_archive`."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self._path = path
        self._opened = opened
        self.names = [name.removesuffix(".npy") for name in opened.namelist() if name.endswith(".npy")]

    def read(self, *names: str) -> list[AnyArray]:
        """The arrays of these names, if together they are within the limit."""
        with _explained(self._path):
            members = [self._opened.getinfo(f"{name}.npy") for name in names]
        # Not more than this is ever unpacked, whatever the arrays say of their shapes.
        check_size(sum(member.file_size for member in members), str(self._path))
        with _explained(self._path):
            return [self._array(member) for member in members]

    def _array(self, member: zipfile.ZipInfo) -> AnyArray:
        with self._opened.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


@contextmanager
def open_archive(path: str | Path) -> Iterator[Archive]:
    """Open an npz file."""
    path = Path(path)
    with _explained(path):
        opened = zipfile.ZipFile(path)
    with opened:
        yield Archive(path, opened)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn any error of a zip file, or of an array in it, into one line that names the file."""
    try:
        yield
    except Exception as error:  # zipfile, zlib, bz2, lzma and NumPy each have errors of their own
        reason = str(error) or type(error).__name__
        raise ArchiveError(f"{path} cannot be read as a NumPy archive: {reason}") from error
