"""The same pool on a dask cluster.

Jobs are done in processes of their own there too, so time limits hold and a method cannot take a worker down.
Batches of a worker that dies are done again elsewhere. When the cluster is gone, a warning says so after seconds and
the run ends after a minute: whatever is done by then is kept.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from calibrant.bench.runs.pool import Answer, Job, ProcessPool, Worker
from calibrant.optional import require

_here = threading.local()


class DaskPool(ProcessPool):
    """Threads of a dask cluster, each with its processes; `dask` is the scheduler's address, or a client to keep open.

    A warning comes after `tell_after` seconds without any worker, or without an answer of the scheduler, and an error
    after `give_up_after`.
    """

    elsewhere = True
    batch_size = 4  # jobs on the same arrays, which are sent once for all of them
    n_ahead = 3

    def __init__(
        self, dask: Any, time_limit: float | None = None, *, tell_after: float = 5.0, give_up_after: float = 60.0
    ) -> None:
        distributed = require("distributed", extra="dask")
        self._own = not isinstance(dask, distributed.Client)
        self._time_limit, self._tell_after, self._give_up_after = time_limit, tell_after, give_up_after
        self._client: Any = distributed.Client(dask) if self._own else dask
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            self._client.wait_for_workers(1, timeout=give_up_after)
        except TimeoutError as error:
            self.close()
            raise RuntimeError(f"no worker joined the dask cluster within {give_up_after:g} s") from error
        self.n_workers = sum(self._client.nthreads().values())

    def sees(self, path: Path) -> bool:
        """Whether every worker can read the file."""
        return all(self._client.run(path.exists).values())

    def _submit(self, jobs: Sequence[Job]) -> Any:
        with warnings.catch_warnings():
            # A batch may bring arrays; few batches are on their way at any time.
            warnings.filterwarnings("ignore", message="Sending large graph")
            future = self._client.submit(_do_jobs, pickle.dumps(list(jobs)), self._time_limit, pure=False)
        future.add_done_callback(self._done.put)
        return future

    def _wait(self, running: Iterable[object]) -> Iterable[Any]:
        """The next future that is done; an error when the cluster is gone for too long."""
        well, told = time.monotonic(), False
        while True:
            with contextlib.suppress(queue.Empty):
                future = self._done.get(timeout=min(1.0, self._tell_after))
                if future.status == "finished" or self._trouble() is None:
                    return [future]
                # Cancelled because the cluster is gone: wait for it to come back.
                self._done.put(future)
                time.sleep(min(1.0, self._tell_after))
            if (trouble := self._trouble()) is None:
                well = time.monotonic()
                continue
            silent = time.monotonic() - well
            if silent > self._give_up_after or self._client.status == "closed":
                raise RuntimeError(f"{trouble}: the run stops here, and finished work is kept")
            if silent > self._tell_after and not told:
                warnings.warn(f"{trouble}; waiting up to {self._give_up_after:g} s", stacklevel=2)
                told = True

    def _trouble(self) -> str | None:
        """What is wrong with the cluster, if anything."""
        if self._client.status != "running":
            return "the connection to the dask scheduler is lost"
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=self._tell_after)
        except Exception:
            return "the dask scheduler does not answer"
        return None if threads else "the dask cluster has no workers left"

    def _answers(self, future: Any, jobs: Sequence[Job]) -> list[Answer] | None:
        # The connection may break just now.
        with contextlib.suppress(OSError):
            if future.status == "finished":
                return future.result()
        if future.status != "error":
            return None
        return [Answer("failed", message=f"the cluster gave up: {future.exception()}") for _ in jobs]

    def _stop(self, running: Iterable[object]) -> None:
        if self._trouble() is None:
            self._client.cancel(list(running))

    def close(self) -> None:
        if self._own:
            self._client.close(timeout=2)


def _do_jobs(jobs: bytes, time_limit: float | None) -> list[Answer]:
    """Runs on a dask worker: each of its threads keeps its processes from batch to batch."""
    worker: Worker | None = getattr(_here, "worker", None)
    if worker is None or _here.limit != time_limit:
        if worker is not None:
            worker.close()
        worker = _here.worker = Worker(time_limit)
        _here.limit = time_limit
    return [worker.do(job) for job in pickle.loads(jobs)]
