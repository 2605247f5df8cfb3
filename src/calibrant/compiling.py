"""Compiling by numba: with a cache where there can be one, and not in silence.

That the first fit spends more than a second on it is said once through the logger "calibrant", at level INFO; the
command line shows it on a terminal. Import this module where numba is imported anyway.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

#: Seconds of compiling worth a word: a shorter pause is not noticed.
_LONG = 1.0


class Stopwatch(event.Listener):
    """Adds up the time of compiling; what is compiled for something else that is being compiled counts once."""

    def __init__(self) -> None:
        self._depth, self._started, self._spent, self._said = 0, 0.0, 0.0, False

    def on_start(self, _: object) -> None:
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def on_end(self, _: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.perf_counter() - self._started
        if self._spent > _LONG and not self._said:
            self._said = True
            logging.getLogger("calibrant").info(
                "Compiling for the first fit on this machine takes a few seconds; the result is kept for later fits "
                "in the folder named by NUMBA_CACHE_DIR, or next to the package."
            )


event.register("numba:compile", Stopwatch())


def compiled(**options: object) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` whose result is kept on disk, or only in memory where no folder for it can be written."""

    def decorate(function: Callable[..., object]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # numba's "cannot cache function: no locator available"
            return njit(**options)(function)

    return decorate
