"""The one way files are written: next to their final place, flushed to disk, then moved there in one step.

What was there stays until the new file is complete, and an error, Ctrl-C or a signal that became an exception leaves
no unfinished file behind. Only regular files are replaced: a device, a pipe or a folder is refused. Symbolic links are
preserved; the file that they point to is written, and created if it does not exist.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


class NotARegularFileError(OSError):
    """The path is a folder, a pipe or a device, which must not be replaced by a file."""


@contextmanager
def atomic_path(path: str | os.PathLike[str], before_move: Callable[[], object] | None = None) -> Iterator[Path]:
    """Name of an empty file that becomes `path` when the block ends; an error in it leaves what was there."""
    mode = check_replaceable(path)
    target = os.path.realpath(path)
    if not os.path.isdir(folder := os.path.dirname(target)):
        raise FileNotFoundError(f"there is no folder {folder} to write {os.path.basename(target)} into")
    # The name is new for every file, so that what a killed process left is never in the way.
    temporary = f"{target}.{secrets.token_hex(6)}.part"
    try:
        # Opened by hand for the rights that a plain `open` would give, in a file that must be new.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if mode is not None:
            os.chmod(temporary, mode)
        yield Path(temporary)
        _to_disk(temporary, os.O_RDWR)
        if before_move is not None:
            before_move()
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    # The name itself is on the disk only when the folder is; not every system can open a folder.
    with suppress(OSError):
        _to_disk(os.path.dirname(target), os.O_RDONLY)


@contextmanager
def atomic_stream(path: str | os.PathLike[str], before_move: Callable[[], object] | None = None) -> Iterator[IO[bytes]]:
    """Stream that becomes the file `path` when the block ends; otherwise as `atomic_path`."""
    with atomic_path(path, before_move) as part, open(part, "wb") as stream:
        yield stream
        stream.flush()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text as UTF-8, with the ends of lines as they are."""
    with atomic_stream(path) as stream:
        stream.write(text.encode("utf-8"))


def check_replaceable(path: str | os.PathLike[str]) -> int | None:
    """Access rights of the file that would be replaced, `None` if there is none; refuses what is not a file."""
    try:
        # Of the path itself, not of its real path: that of a link such as /dev/stdout may not exist.
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
        what = next((name for test, name in kinds if test(mode)), "device")
        raise NotARegularFileError(f"{os.fspath(path)} is a {what}, not a regular file; choose another name")
    return stat.S_IMODE(mode)


def _to_disk(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
