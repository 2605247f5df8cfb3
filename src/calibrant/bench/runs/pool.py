"""Processes that do jobs: each job has a time limit, and nothing that it does can hang or break the run.

A process that takes too long is killed, and so is everything it started: on Linux that is found by a mark in the
environment, even in another session. A process that was killed or died is replaced, and the next job goes on.

The processes are started by `subprocess`. Pools made on `multiprocessing` (joblib's loky, pebble) cannot be used on a
Dask cluster, whose workers are daemons and may have no such children.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from calibrant.bench.runs.worker import HEAD

IMPORT_SECONDS = 120.0
"""Seconds that preparing a job may take beyond the time limit; imports take a few, unless the machine is overloaded."""
MARK = "CALIBRANT_WORKER"
"""Environment variable by which everything that a process started is found."""
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}
"""Environment in which libraries use one thread, so that fits side by side do not slow each other down."""
_LOOK_SECONDS = 0.5  # how soon a death is seen if another process keeps the pipe open
_START = "import sys; sys.path[:] = {!r}; from calibrant.bench.runs.worker import main; main()"


@dataclass(frozen=True)
class Job:
    """One function call for a process.

    Attributes
    ----------
    function : callable
        A function of a module, so that another process can find it.
    arguments : tuple
        Its arguments; what several jobs of a batch share is sent once.
    prepare : callable or None
        Called first, outside of the time limit: imports.
    home : str
        Jobs of different homes are never done by the same process, so that code from outside cannot change what other
        methods find.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    prepare: Callable[[], Any] | None = None
    home: str = ""


@dataclass(frozen=True)
class JobBatch:
    """Jobs that are done one after another; `about` says what they are for and stays with the caller."""

    about: Any
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Answer:
    """The outcome of a job: its value, or why there is none."""

    status: Literal["ok", "failed", "timeout"]
    value: Any = None
    message: str = ""


Answered = tuple[JobBatch, int, Answer]


class Pool(Protocol):
    """Processes on this machine or on a cluster."""

    @property
    def n_workers(self) -> int:
        """Number of jobs that are done at the same time."""

    def sees(self, path: Path) -> bool:
        """Whether every process can read the file."""

    def run(self, batches: Iterable[JobBatch]) -> Generator[Answered, None, None]:
        """Answers as they come, each with its batch and its place in the batch; batches are taken when needed."""

    def close(self) -> None:
        """End the processes, also those at work."""


class ProcessPool:
    """Processes of this machine with one thread each, which stay open from one `run` to the next.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes, by default one for each core. A process is started when there is work for it.
    time_limit : float, optional
        Seconds that a job may take.

    Examples
    --------
    >>> with ProcessPool(1) as pool:
    ...     [answer.value for _, _, answer in pool.run([JobBatch("sizes", (Job(len, ("abc",)), Job(len, ("",))))])]
    [3, 0]
    """

    def __init__(self, n_workers: int | None = None, time_limit: float | None = None) -> None:
        self.n_workers = n_workers or os.cpu_count() or 1
        self._slots = [Slot(time_limit) for _ in range(self.n_workers)]
        # A process ends with the thread that started it: these threads live as long as the pool.
        self._threads = ThreadPoolExecutor(self.n_workers)

    def sees(self, path: Path) -> bool:
        """Every process is on this machine."""
        return True

    def run(self, batches: Iterable[JobBatch]) -> Generator[Answered, None, None]:
        """Answers as they come; ending the generator early closes the pool."""
        waiting, lock, stopped = iter(batches), threading.Lock(), threading.Event()
        answers: queue.SimpleQueue[Answered | BaseException | None] = queue.SimpleQueue()

        def next_batch() -> JobBatch | None:
            with lock:
                return None if stopped.is_set() else next(waiting, None)

        def work(slot: Slot) -> None:
            try:
                while (batch := next_batch()) is not None:
                    for place, answer in enumerate(slot.run(batch.jobs)):
                        if stopped.is_set():
                            return
                        answers.put((batch, place, answer))
                answers.put(None)
            except BaseException as error:
                answers.put(error)

        for slot in self._slots:
            self._threads.submit(work, slot)
        try:
            for _ in self._slots:
                while (answered := answers.get()) is not None:
                    if isinstance(answered, BaseException):
                        raise answered
                    yield answered
        except BaseException:
            stopped.set()
            self.close()
            raise

    def close(self) -> None:
        """End the processes, also those at work."""
        for slot in self._slots:
            slot.close()
        self._threads.shutdown()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Slot:
    """A place where one job is done at a time, in a process for each home of jobs.

    Parameters
    ----------
    time_limit : float or None
        Seconds that a job may take.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._processes: dict[str, _Process] = {}
        self._closed = False
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Do jobs one after another; gives an answer for each, whatever happens to the processes."""
        for home, together in groupby(jobs, key=attrgetter("home")):
            left = list(together)
            while left:
                for answer in self._answers(home, left):
                    left = left[1:]
                    yield answer

    def _answers(self, home: str, jobs: list[Job]) -> Iterator[Answer]:
        """Answers up to the first job that ends its process; the process never waits for us between two jobs."""
        limit = self._time_limit
        try:
            process = self._process(home)
            process.send(jobs)
            for _ in jobs:
                process.receive(None if limit is None else limit + IMPORT_SECONDS)
                fine, value = process.receive(limit)
                yield Answer("ok", value) if fine else Answer("failed", message=value)
        except (_EndedError, _LateError) as error:
            self._end(home)
            yield Answer("timeout" if isinstance(error, _LateError) else "failed", message=str(error))
        except GeneratorExit:
            # Answers that nobody took would be taken for those to the next jobs.
            self._end(home)
            raise

    def _process(self, home: str) -> _Process:
        with self._lock:
            if self._closed:
                raise _EndedError("the run is being stopped")
            if home not in self._processes:
                self._processes[home] = _Process()
            return self._processes[home]

    def _end(self, home: str) -> None:
        with self._lock:
            process = self._processes.pop(home, None)
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the processes for good, also while another thread waits for an answer."""
        self._closed = True
        for home in list(self._processes):
            self._end(home)


class _EndedError(Exception):
    """The process ended instead of answering."""


class _LateError(Exception):
    """There was no answer in time."""


class _Process:
    """A running process with pickled lists of jobs going in and framed answers coming out."""

    def __init__(self) -> None:
        self._mark, key = secrets.token_hex(16), secrets.token_bytes(16)
        self._popen = subprocess.Popen(
            # Modules are found where the caller finds them: with `-c` alone the working folder would come first.
            [sys.executable, "-c", _START.format([str(entry) for entry in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, MARK: self._mark},
            # A session of its own: the terminal's interrupt reaches the caller alone, who then ends its processes.
            start_new_session=True,
        )
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=_read, args=(self._popen.stdout, key, self._frames), daemon=True)
        self._reader.start()
        self.send(key)

    def send(self, order: Any) -> None:
        assert self._popen.stdin is not None
        try:
            pickle.dump(order, self._popen.stdin)
            self._popen.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error

    def receive(self, seconds: float | None) -> Any:
        """The next answer, or an error when there is none after `seconds`."""
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            # Looked at first: an answer that was sent before the process ended counts.
            ended, left = self._popen.poll() is not None, end - time.monotonic()
            try:
                frame = self._frames.get(timeout=max(0.0, min(_LOOK_SECONDS, left)))
            except queue.Empty:
                if left <= 0:
                    raise _LateError(f"stopped after {seconds:g} s") from None
                if not ended:
                    continue
                frame = None
            if frame is None:
                raise self._ended()
            return pickle.loads(frame)

    def _ended(self) -> _EndedError:
        try:
            code = self._popen.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            return _EndedError("the process stopped answering")  # it closed its descriptors and lives on
        by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return _EndedError(f"the process {by}")

    def kill(self) -> None:
        """End the process and everything it started."""
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self._popen.kill()
        for _ in range(10):  # what is found may just have started something else
            if not (found := _marked(self._mark)):
                break
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._popen.wait()
        self._reader.join(timeout=1.0)
        # If the reader still waits, a process that was not found holds the pipe, and it is left to the reader.
        for pipe in (self._popen.stdin, None if self._reader.is_alive() else self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, where the system shows environments."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def _read(pipe: IO[bytes], key: bytes, frames: queue.SimpleQueue[bytes | None]) -> None:
    """Cut what comes through a pipe into answers, skipping all other bytes; `None` at its end."""
    seen, body = b"", len(key) + HEAD.size
    with contextlib.suppress(OSError, ValueError):
        while chunk := pipe.raw.read(1 << 16):  # type: ignore[attr-defined]
            seen += chunk
            while (start := seen.find(key)) >= 0 and len(seen) >= start + body:
                end = start + body + HEAD.unpack_from(seen, start + len(key))[0]
                if len(seen) < end:
                    break
                frames.put(seen[start + body : end])
                seen = seen[end:]
    frames.put(None)
