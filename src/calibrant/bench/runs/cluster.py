"""The same pool on a dask cluster.

Jobs are done in processes of their own there too, so time limits hold and a method cannot take a worker down.
Batches of a worker that dies are done again elsewhere. A cluster that is gone is said so after seconds and given up
after a minute: whatever is done by then is kept.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import warnings
from collections.abc import Generator, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from calibrant.bench.runs.pool import Answer, Answered, Job, JobBatch, Slot
from calibrant.optional import require

# Batches kept at the scheduler for each thread of the cluster: none waits for us, and few arrays wait with them.
IN_FLIGHT = 3
# How often a batch is submitted when what was handed out vanishes with its worker.
ATTEMPTS = 4

_here = threading.local()

# How often a batch is handed over, half a second apart, before the cluster counts as gone.
_TRIALS = 5


class DaskPool:
    """Threads of a dask cluster, each with a working process.

    Parameters
    ----------
    dask : str or distributed.Client
        Address of the scheduler, or a client of it, which stays open.
    time_limit : float, optional
        Seconds that a job may take.
    tell_after, give_up_after : float
        Seconds without any worker, or without an answer of the scheduler, until it is said and until it is an error.
    """

    def __init__(
        self, dask: Any, time_limit: float | None = None, *, tell_after: float = 5.0, give_up_after: float = 60.0
    ) -> None:
        distributed = require("distributed", extra="dask")
        self._own = not isinstance(dask, distributed.Client)
        self._time_limit, self._tell_after, self._give_up_after = time_limit, tell_after, give_up_after
        self._client: Any = distributed.Client(dask) if self._own else dask
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: dict[str, tuple[Any, JobBatch, int]] = {}
        self._lost = False
        try:
            self._client.wait_for_workers(1, timeout=give_up_after)
        except TimeoutError as error:
            self.close()
            raise RuntimeError(f"no worker joined the dask cluster within {give_up_after:g} s") from error
        self.n_workers = sum(self._client.nthreads().values())

    def sees(self, path: Path) -> bool:
        """Whether every worker can read the file."""
        return all(self._client.run(path.exists).values())

    def run(self, batches: Iterable[JobBatch]) -> Generator[Answered, None, None]:
        """Answers as they come from the cluster."""
        waiting = iter(batches)
        for batch in islice(waiting, max(2, self.n_workers * IN_FLIGHT)):
            self._submit(batch)
        try:
            while self._running:
                future = self._next_done()
                _, batch, attempt = self._running.pop(future.key)
                answers = self._answers(future, batch, attempt)
                if answers is None:
                    self._submit(batch, attempt + 1)
                    continue
                yield from ((batch, place, answer) for place, answer in enumerate(answers))
                future.release()
                for following in islice(waiting, 1):
                    self._submit(following)
        finally:
            if self._running and not self._lost:
                self._client.cancel([future for future, _, _ in self._running.values()])
            self._running.clear()

    def _submit(self, batch: JobBatch, attempt: int = 1) -> None:
        for trial in range(_TRIALS):
            try:
                # Scattered, because a batch may bring arrays, which do not belong into the scheduler's messages.
                jobs = self._client.scatter(_Jobs(batch.jobs), hash=False)
                future = self._client.submit(_do_jobs, jobs, self._time_limit, pure=False)
                break
            except Exception as error:
                trouble = self._trouble()
                if trouble is None and trial + 1 < _TRIALS:  # the worker it went to has just died: others are left
                    time.sleep(0.5)
                    continue
                raise self._gone(trouble or f"the dask cluster takes no more work ({error})") from error
        self._running[future.key] = (future, batch, attempt)
        future.add_done_callback(self._done.put)

    def _next_done(self) -> Any:
        """The next future that is done; an error when the cluster is gone for too long."""
        well, told = time.monotonic(), False
        while True:
            with contextlib.suppress(queue.Empty):
                future = self._done.get(timeout=min(1.0, self._tell_after))
                if future.status == "finished" or self._trouble() is None:
                    return future
                # Cancelled because the cluster is gone: wait whether it comes back.
                self._done.put(future)
                time.sleep(min(1.0, self._tell_after))
            if (trouble := self._trouble()) is None:
                well = time.monotonic()
                continue
            silent = time.monotonic() - well
            if silent > self._give_up_after or self._client.status == "closed":
                raise self._gone(trouble)
            if silent > self._tell_after and not told:
                warnings.warn(f"{trouble}; waiting up to {self._give_up_after:g} s", stacklevel=2)
                told = True

    def _gone(self, trouble: str) -> RuntimeError:
        self._lost = True
        return RuntimeError(f"{trouble}: the run stops here, and what is done is kept")

    def _trouble(self) -> str | None:
        """What is wrong with the cluster, if anything."""
        if self._client.status != "running":
            return "the connection to the dask scheduler is lost"
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=self._tell_after)
        except Exception:
            return "the dask scheduler does not answer"
        return None if threads else "the dask cluster has no workers left"

    def _answers(self, future: Any, batch: JobBatch, attempt: int) -> list[Answer] | None:
        """Answers to a batch, or None when it should be submitted again."""
        if future.status == "finished":
            # The connection may break just now.
            with contextlib.suppress(OSError):
                return future.result()
        if attempt < ATTEMPTS:
            return None
        reason = future.exception() if future.status == "error" else future.status
        return [Answer("failed", message=f"the cluster gave up: {reason}") for _ in batch.jobs]

    def close(self) -> None:
        """Leave the cluster."""
        if self._own:
            self._client.close(timeout=2)

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _Jobs:
    """Jobs as one object: a list would be scattered item by item."""

    def __init__(self, jobs: tuple[Job, ...]) -> None:
        self.jobs = jobs


def _do_jobs(batch: _Jobs, time_limit: float | None) -> list[Answer]:
    """Runs on a worker: each of its threads keeps a slot of its own from batch to batch."""
    slot: Slot | None = getattr(_here, "slot", None)
    if slot is None or _here.limit != time_limit:
        if slot is not None:
            slot.close()
        slot = _here.slot = Slot(time_limit)
        _here.limit = time_limit
    return list(slot.run(batch.jobs))
