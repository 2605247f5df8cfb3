"""Processes that do jobs: each job has a time limit, and nothing that it does can hang or break the run.

A process that takes too long is killed, and so is everything it started: on Linux that is found by a mark in the
environment, even in another session. A process that was killed or died is replaced, and the next job goes on.

The processes are started by `subprocess`. Pools made on `multiprocessing` (concurrent.futures, pebble, loky) may not be
started by a Dask worker, which is a daemon, and the first two import the script that started them anew. A pool of one
process ends when that dies or hangs, but in concurrent.futures and loky stray bytes in its pipe hang it for good. A
process is kept for many jobs: a new one takes two seconds for its imports, a job in an old one 0.2 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from concurrent import futures
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, Self

IMPORT_SECONDS = 120.0
"""Seconds that preparing a job may take beyond the time limit; imports take a few, unless the machine is overloaded."""
MARK = "CALIBRANT_WORKER"
"""Environment variable by which everything that a process started is found."""
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}
"""Environment in which libraries use one thread, so that fits side by side do not slow each other down."""
_LOOK_SECONDS = 0.5  # how soon a death is seen if another process keeps the pipe open
_END_SECONDS = 5.0  # how long a process that closed its pipes may take to end
_START = "import sys; sys.path[:] = {!r}; from calibrant.bench.runs.pool import work; work()"

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


@dataclass(frozen=True)
class Job:
    """One call of a function that another process can import.

    `prepare` is called first, outside of the time limit: imports. Jobs with different `code_from` are never done by the
    same process, so that code from outside cannot change what other methods find.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...]
    prepare: Callable[[], object] | None = None
    code_from: str = ""


@dataclass(frozen=True)
class Answer:
    """The outcome of a job: its value, or why there is none."""

    status: Literal["ok", "failed", "timeout"]
    value: Any = None
    message: str = ""


Batch = tuple[Any, Sequence[Job]]
"""A name of any type, and jobs that are done one after another by the same worker."""
Future = futures.Future[list[Answer]]


class ProcessPool:
    """Processes of this machine with one thread each, which stay open from one `run` to the next.

    By default one for each core, started when there is work for it. A job may take `time_limit` seconds.
    """

    elsewhere = False
    """Whether processes are on other machines, with modules of their own."""
    batch_size = 1
    """Jobs that are handed out together: one, so that every result is known as soon as it is there."""
    n_ahead = 2
    """Batches for each worker, at work or waiting: no worker waits for the caller, and few arrays wait in memory."""

    def __init__(self, n_workers: int | None = None, time_limit: float | None = None) -> None:
        self.n_workers = n_workers or os.cpu_count() or 1
        self._workers = [Worker(time_limit) for _ in range(self.n_workers)]
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        # A process ends with the thread that started it: these threads live as long as the pool.
        self._threads = futures.ThreadPoolExecutor(self.n_workers)

    def sees(self, path: Path) -> bool:
        """Whether every process can read the file."""
        return True

    def run(self, batches: Iterable[Batch]) -> Generator[tuple[Any, list[Answer]], None, None]:
        """Names of batches with their answers, as they come; batches are taken when needed.

        Ending the generator early ends what is under way.
        """
        waiting = iter(batches)
        running: dict[Future, Batch] = {}
        try:
            while True:
                for batch in islice(waiting, max(0, self.n_workers * self.n_ahead - len(running))):
                    running[self._submit(batch[1])] = batch
                if not running:
                    return
                for future in self._wait(running):
                    name, jobs = running.pop(future)
                    if (answers := self._answers(future, jobs)) is None:
                        running[self._submit(jobs)] = name, jobs
                    else:
                        yield name, answers
        finally:
            if running:
                self._stop(running)

    def _submit(self, jobs: Sequence[Job]) -> Future:
        return self._threads.submit(self._do, jobs)

    def _do(self, jobs: Sequence[Job]) -> list[Answer]:
        worker = self._free.get()
        try:
            return [worker.do(job) for job in jobs]
        finally:
            self._free.put(worker)

    def _wait(self, running: Iterable[Future]) -> Iterable[Future]:
        """Some of these futures that are done, as soon as there are any."""
        return futures.wait(running, return_when=futures.FIRST_COMPLETED).done

    def _answers(self, future: Future, jobs: Sequence[Job]) -> list[Answer] | None:
        """The answers to a batch; none if they were lost on the way."""
        return future.result()

    def _stop(self, running: Iterable[object]) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, also those at work."""
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker:
    """Does one job at a time, in one process for the code of this package and one for each module from elsewhere."""

    def __init__(self, time_limit: float | None = None) -> None:
        self._time_limit = time_limit
        self._processes: dict[str, _Process] = {}
        self._closed = False
        self._lock = threading.Lock()

    def do(self, job: Job) -> Answer:
        """The answer to a job, also when the process dies or hangs."""
        with self._lock:
            if self._closed:
                return Answer("failed", message="the run is being stopped")
            if job.code_from not in self._processes:
                self._processes[job.code_from] = _Process()
            process = self._processes[job.code_from]
        try:
            return process.ask(job, self._time_limit)
        except _Unanswered as error:
            self._end(job.code_from)
            return error.args[0]

    def _end(self, code_from: str) -> None:
        with self._lock:
            process = self._processes.pop(code_from, None)
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the processes for good, also while another thread waits for an answer."""
        with self._lock:
            self._closed = True
        for code_from in list(self._processes):
            self._end(code_from)


class _Unanswered(Exception):
    """The process gave no answer; the argument is the answer to use instead."""


class _Process:
    """A running process with pickled jobs going in and pickled answers coming out."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
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
        self._received: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=_read_answers, args=(self._popen.stdout, self._received), daemon=True)
        self._reader.start()

    def ask(self, job: Job, limit: float | None) -> Answer:
        """The process's answer, or an error that carries the one to give instead."""
        assert self._popen.stdin is not None
        pickled = pickle.dumps(job)
        try:
            pickle.dump(pickled, self._popen.stdin)
            self._popen.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error
        prepared = self._receive(None if limit is None else limit + IMPORT_SECONDS)
        return self._receive(limit) if prepared.status == "ok" else prepared

    def _receive(self, seconds: float | None) -> Answer:
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            # Checked before reading: an answer that was sent before the process ended counts.
            ended, left = self._popen.poll() is not None, end - time.monotonic()
            try:
                answer = self._received.get(timeout=max(0.0, min(_LOOK_SECONDS, left)))
            except queue.Empty:
                if left <= 0:
                    raise _Unanswered(Answer("timeout", message=f"stopped after {seconds:g} s")) from None
                if not ended:
                    continue
                answer = None
            if answer is None:
                raise self._ended()
            return answer

    def _ended(self) -> _Unanswered:
        try:
            code = self._popen.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            by = "stopped answering"  # it closed its descriptors and lives on
        else:
            by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return _Unanswered(Answer("failed", message=f"the process {by}"))

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


def _read_answers(pipe: IO[bytes], received: queue.SimpleQueue[Answer | None]) -> None:
    """Read the answers of a process; `None` when there will be no more that can be read."""
    with contextlib.suppress(Exception):
        while True:
            received.put(pickle.load(pipe))
    received.put(None)


def work() -> None:
    """What a process does: read jobs from standard input and answer on standard output, until the parent ends.

    Both pipes are moved to other descriptors, and a method finds nothing where standard input and output were. A copy
    of the process that a method made by forking answers nothing.
    """
    if sys.platform == "linux":
        # The kernel ends this process with its parent, even while compiled code keeps all other threads waiting.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(incoming, jobs), daemon=True).start()
    me = os.getpid()
    while True:
        for answer in _answers_to(jobs.get()):
            if os.getpid() != me:
                os._exit(0)
            outgoing.write(answer)
            outgoing.flush()


def _answers_to(pickled: bytes) -> Iterator[bytes]:
    """Two pickled answers to a job: one when it is prepared, and its outcome."""
    try:
        job: Job = pickle.loads(pickled)
        if job.prepare is not None:
            # If this fails, the job fails too and reports why.
            with contextlib.suppress(Exception):
                job.prepare()
        yield pickle.dumps(Answer("ok"))
        yield pickle.dumps(Answer("ok", job.function(*job.arguments)))
    except Exception as error:
        yield pickle.dumps(Answer("failed", message=f"{type(error).__name__}: {error}"))


def _read_jobs(incoming: IO[bytes], jobs: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            jobs.put(pickle.load(incoming))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(1)  # the parent is gone, and nobody waits for an answer
