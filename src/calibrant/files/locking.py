"""The one lock of files that are read, changed and written again: a second process waits, so that no change is lost.

The lock is held by the operating system on a file beside the one that it protects, which itself is replaced when it is
written. It ends with the process that holds it, however that ends, and its file is removed at the end. `filelock` makes
the same two system calls; they are few enough to need no further package.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

#: Seconds that a command waits for another one, which holds the lock while it handles one batch.
PATIENCE = 300.0
#: Seconds between two attempts: too short to be noticed, long enough to cost nothing.
_PAUSE = 0.05


class LockedError(RuntimeError):
    """Another process held the lock for the whole waiting time."""


@contextmanager
def locked(
    path: str | os.PathLike[str], patience: float = PATIENCE, on_wait: Callable[[str], object] = lambda message: None
) -> Iterator[None]:
    """Keep other processes that lock `path` out of the block."""
    name = f"{os.path.realpath(path)}.lock"
    told, start = False, time.monotonic()
    while (descriptor := _acquire(name)) is None:
        if time.monotonic() - start >= patience:
            waited = f", after a wait of {patience:g} seconds" if patience else ""
            raise LockedError(f"another process is using {os.fspath(path)}{waited}; try again when it has finished")
        if not told:
            on_wait(f"another process is using {os.fspath(path)}: waiting for it")
            told = True
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        _release(name, descriptor)


def _acquire(name: str) -> int | None:
    """Descriptor of the lock file, now locked; None if another process holds it."""
    # Never through a symbolic link, which somebody else may have put there.
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        _lock(descriptor)
        # The holder before may have removed the file after it was opened here: then this is no lock at all.
        if os.path.samestat(os.fstat(descriptor), os.stat(name)):
            return descriptor
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None


def _release(name: str, descriptor: int) -> None:
    if sys.platform == "win32":  # an open file cannot be removed, and its lock ends when it is closed
        os.close(descriptor)
        with suppress(OSError):  # opened by another process, which removes it
            os.unlink(name)
        return
    with suppress(OSError):
        os.unlink(name)
    os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
