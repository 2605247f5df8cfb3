"""Fitting processes that stay open while many configurations of one method are tried on the same experiments."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType

from calibrant.bench.run.evaluate import Outcome
from calibrant.bench.run.method_spec import MethodSpec
from calibrant.bench.run.process import FitProcess
from calibrant.bench.run.progress import Bar
from calibrant.files.predictions.source import Experiment, PredictionSource


class FitPool:
    """Processes with one thread each, and one thread of ours watching each.

    Parameters
    ----------
    source : PredictionSource
        Where experiments are read; a source without a file is handed over with every fit.
    n_workers : int
        Number of processes.
    max_cal_rows : int, optional
        Larger calibration sets are subsampled, with `seed`.
    time_limit : float, optional
        Seconds that a fit may take.
    """

    def __init__(
        self,
        source: PredictionSource,
        n_workers: int,
        max_cal_rows: int | None = None,
        seed: int = 0,
        time_limit: float | None = None,
    ) -> None:
        self._source = source
        self._max_cal_rows = max_cal_rows
        self._seed = seed
        self._processes = [FitProcess(time_limit) for _ in range(n_workers)]
        self._idle: queue.SimpleQueue[FitProcess] = queue.SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(n_workers)

    def evaluate(
        self, experiments: Sequence[Experiment], spec: MethodSpec, bar: Bar
    ) -> dict[tuple[str, str, str], Outcome]:
        """Outcome of one method on every experiment, by the experiment's key and in the order given."""
        # The dearest first, so that no process is left with one of them when the others are done.
        dearest = sorted(experiments, key=lambda e: -e.n_cal * e.n_classes**2)
        running = {self._threads.submit(self._fit, e, spec): e for e in dearest}
        outcomes = {}
        for future in as_completed(running):
            outcome = future.result()
            outcomes[running[future].key] = outcome
            bar.advance(failed=outcome["status"] != "ok")
        return {e.key: outcomes[e.key] for e in experiments}

    def _fit(self, experiment: Experiment, spec: MethodSpec) -> Outcome:
        process = self._idle.get()
        try:
            path = None if self._source.path is None else str(self._source.path)
            arrays = self._source.load(experiment) if path is None else None
            process.use(experiment, path, arrays, self._max_cal_rows, self._seed)
            (outcome,) = process.fit([spec])
            return outcome
        finally:
            self._idle.put(process)

    def __enter__(self) -> FitPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.shut()
        self._threads.shutdown(cancel_futures=True)
