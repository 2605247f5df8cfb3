"""Processes of this machine that work side by side, with one thread of ours watching each."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from calibrant.bench.run.calls import Answered, Batch
from calibrant.bench.run.homes import WorkerHomes


class ProcessPool:
    """Processes with one thread each, which stay open from one `run` to the next.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes, by default one for each core. A process is started when there is work for it.
    time_limit : float, optional
        Seconds that a call may take.

    Examples
    --------
    >>> from calibrant.bench.run.calls import Batch, Call
    >>> with ProcessPool(1) as pool:
    ...     [answer.value for _, _, answer in pool.run([Batch("sizes", (Call(len, ("abc",)), Call(len, ("",))))])]
    [3, 0]
    """

    def __init__(self, n_workers: int | None = None, time_limit: float | None = None) -> None:
        self.n_workers = n_workers or os.cpu_count() or 1
        self._processes = [WorkerHomes(time_limit) for _ in range(self.n_workers)]
        self._runs: queue.SimpleQueue[_Run | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def sees(self, path: Path) -> bool:
        """Every process is on this machine."""
        return True

    def run(self, batches: Iterable[Batch]) -> Generator[Answered, None, None]:
        """Answers as they come; ending the generator early closes the pool."""
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._watch, args=(process,), daemon=True) for process in self._processes
            ]
            for thread in self._threads:
                thread.start()
        run = _Run(batches)
        for _ in self._threads:
            self._runs.put(run)
        complete = False
        try:
            for _ in self._threads:
                while (answered := run.answers.get()) is not None:
                    if isinstance(answered, BaseException):
                        raise answered
                    yield answered
            complete = True
        finally:
            if not complete:
                run.stopped.set()
                self.close()

    def _watch(self, process: WorkerHomes) -> None:
        while (run := self._runs.get()) is not None:
            run.work(process)

    def close(self) -> None:
        """End the processes, also those at work."""
        for process in self._processes:
            process.shut()
        for _ in self._threads:
            self._runs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _Run:
    """Batches that are waiting, taken by whoever is free, and the answers to them."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._waiting: Iterator[Batch] = iter(batches)
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work(self, process: WorkerHomes) -> None:
        """Let one process take batches until none is left."""
        try:
            while (batch := self._next()) is not None:
                for place, answer in enumerate(process.run(batch.calls)):
                    if self.stopped.is_set():
                        return
                    self.answers.put((batch, place, answer))
            self.answers.put(None)
        except BaseException as error:
            self.answers.put(error)

    def _next(self) -> Batch | None:
        with self._lock:
            return None if self.stopped.is_set() else next(self._waiting, None)
