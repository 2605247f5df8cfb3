"""The same plan on a dask cluster.

Workers read predictions from the file when they all see it, and otherwise get each experiment's arrays once.
Fits happen in processes of their own there too, so time limits hold and a method cannot take a worker down.
Units of a worker that dies are done again elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from calibrant.bench.run.evaluate import Outcome, unfinished
from calibrant.bench.run.plan import UNITS_PER_WORKER, Done, Options, Todo, Unit, split
from calibrant.bench.run.process import FitProcess
from calibrant.files.predictions.source import Predictions, PredictionSource
from calibrant.optional import require

# Units kept at the scheduler for each thread of the cluster: none waits for us, and few arrays wait with them.
IN_FLIGHT = 3
# How often a unit is submitted when arrays that were handed out vanish with their worker.
ATTEMPTS = 4

_here = threading.local()


def run_on_cluster(
    source: PredictionSource, todo: Todo, options: Options, dask: str | Any
) -> Generator[Done, None, None]:
    """Outcomes as they come from the cluster.

    Parameters
    ----------
    source : PredictionSource
    todo : list of (Experiment, list of MethodSpec)
    options : Options
    dask : str or distributed.Client
        Address of the scheduler, or a client of it.
    """
    distributed = require("distributed", extra="dask")
    connected = isinstance(dask, distributed.Client)
    context: Any = nullcontext(dask) if connected else distributed.Client(dask)
    with context as client:
        client.wait_for_workers(1, timeout=60)
        threads = sum(client.nthreads().values())
        units = split(todo, threads * UNITS_PER_WORKER)
        with closing(_Cluster(distributed, client, source, options, threads).run(units)) as outcomes:
            yield from outcomes


class _Cluster:
    def __init__(self, distributed: Any, client: Any, source: PredictionSource, options: Options, threads: int):
        self._distributed, self._client, self._source, self._options = distributed, client, source, options
        self._in_flight = max(2, threads * IN_FLIGHT)
        self._path = None if source.path is None else str(Path(source.path).resolve())
        if self._path is not None and not all(client.run(_sees, self._path).values()):
            self._path = None
        self._arrays: dict[tuple[str, str, str], Any] = {}
        self._running: dict[str, tuple[Any, Unit, int]] = {}

    def run(self, units: Sequence[Unit]) -> Generator[Done, None, None]:
        waiting = iter(units)
        first = [self._submit(unit) for unit in islice(waiting, self._in_flight)]
        running = self._distributed.as_completed(first)
        try:
            for future in running:
                _, unit, attempt = self._running.pop(future.key)
                outcomes = self._outcomes(future, unit, attempt)
                if outcomes is None:
                    running.add(self._submit(unit, attempt + 1))
                    continue
                yield from zip([unit.experiment] * len(unit.specs), unit.specs, outcomes)
                future.release()
                if (following := next(waiting, None)) is not None:
                    running.add(self._submit(following))
        finally:
            self._client.cancel([future for future, _, _ in self._running.values()])

    def _submit(self, unit: Unit, attempt: int = 1) -> Any:
        arrays = None
        if self._path is None:
            key = unit.experiment.key
            if key not in self._arrays or attempt > 1:
                # Only the present experiment is held; the cluster keeps what its queued units still need.
                self._arrays = {key: self._client.scatter(self._source.load(unit.experiment), hash=False)}
            arrays = self._arrays[key]
        future = self._client.submit(_fit_unit, self._path, arrays, unit, self._options, pure=False)
        self._running[future.key] = (future, unit, attempt)
        return future

    def _outcomes(self, future: Any, unit: Unit, attempt: int) -> Sequence[Outcome] | None:
        """Outcomes of a unit, or None when it should be submitted again."""
        if future.status == "finished":
            return future.result()
        if attempt < ATTEMPTS:
            return None
        reason = future.exception() if future.status == "error" else future.status
        return [unfinished("failed", f"the cluster gave up: {reason}") for _ in unit.specs]


def _fit_unit(path: str | None, arrays: Predictions | None, unit: Unit, options: Options) -> list[Outcome]:
    """Runs on a worker: each of its threads keeps a fitting process of its own from unit to unit."""
    process = getattr(_here, "process", None)
    if process is None or getattr(_here, "limit", None) != options.time_limit:
        if process is not None:
            process.shut()
        process, _here.limit = FitProcess(options.time_limit), options.time_limit
        _here.process = process
    process.use(unit.experiment, path, arrays, options.max_cal_rows, options.seed)
    return list(process.fit(unit.specs))


def _sees(path: str) -> bool:
    return Path(path).exists()
