"""Files that appear whole or not at all: written beside their place, forced to the disk, moved there in one step."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def atomic_stream(path: str | os.PathLike[str], before_move: Callable[[], object] | None = None) -> Iterator[IO[bytes]]:
    """Stream that becomes the file `path` when the block ends; an error in it leaves what was there.

    `before_move` is called when all is written and may still raise. A link is followed, so that it stays one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_stream(pathlib.Path(folder) / "new.txt") as stream:
    ...         _ = stream.write(b"text")
    ...     (pathlib.Path(folder) / "new.txt").read_text()
    'text'
    """
    target = os.path.realpath(path)
    temporary = f"{target}.{secrets.token_hex(6)}.part"
    # Opened by hand for the rights that a plain `open` would give, in a file that must be new.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if before_move is not None:
            before_move()
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    # The name itself is on the disk only when the folder is; not every system can open a folder.
    with suppress(OSError):
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
