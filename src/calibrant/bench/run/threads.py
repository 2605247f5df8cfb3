"""One thread for every process: parallel fits do not get in each other's way and timings can be compared."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def one_thread_variables() -> dict[str, str]:
    """Environment of a process whose libraries use one thread.

    Examples
    --------
    >>> one_thread_variables()["OMP_NUM_THREADS"]
    '1'
    """
    return dict.fromkeys(VARIABLES, "1")


@contextlib.contextmanager
def one_thread_environment() -> Iterator[None]:
    """Let processes started inside use one thread; libraries read these variables when they are imported."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(one_thread_variables())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
