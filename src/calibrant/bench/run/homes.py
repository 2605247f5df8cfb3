"""Processes that take turns, so that code from outside cannot change what other methods find."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from calibrant.bench.run.calls import Answer, Call
from calibrant.bench.run.process import WorkerProcess


class WorkerHomes:
    """One process for each home of a call, of which one works at a time.

    Methods of the registry share a process. A class from elsewhere has its own: what it does to NumPy or to the random
    numbers of its process nobody else sees.

    Parameters
    ----------
    time_limit : float or None
        Seconds that a call may take.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._processes: dict[str, WorkerProcess] = {}
        self._shut = False
        self._lock = threading.Lock()

    def run(self, calls: Sequence[Call]) -> Iterator[Answer]:
        """Make calls one after another; gives an answer for each, whatever happens to the processes."""
        for home, together in groupby(calls, key=attrgetter("home")):
            yield from self._process(home).run(list(together))

    def _process(self, home: str) -> WorkerProcess:
        with self._lock:
            process = self._processes.setdefault(home, WorkerProcess(self._time_limit))
            if self._shut:
                process.shut()
            return process

    def shut(self) -> None:
        """Stop the processes for good, also while another thread waits for an answer."""
        with self._lock:
            self._shut = True
            processes = list(self._processes.values())
        for process in processes:
            process.shut()
