"""Run every method on every experiment of a prediction set, on all cores or on a cluster.

The plan is what the result folder does not hold yet. Its units, some methods on one experiment, go to fitting
processes with one thread each; every row is written when it is there, so a run can be stopped and continued at
any moment.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calibrant.bench.run.method_spec import MethodSpec, parse_method, with_baseline
from calibrant.bench.run.plan import UNITS_PER_WORKER, Done, Options, Unit, plan, result_row, split
from calibrant.bench.run.process import FitProcess
from calibrant.bench.run.progress import progress_bar
from calibrant.bench.run.store import ResultFolder, check_table_packages
from calibrant.files.predictions.source import Experiment, PredictionSource, open_predictions


def run_benchmark(
    predictions: str | Path | PredictionSource,
    methods: Iterable[str | MethodSpec],
    out: str | Path,
    *,
    experiments: Sequence[Experiment] | None = None,
    options: Options | None = None,
    n_jobs: int | None = None,
    dask: str | Any | None = None,
    retry: bool = False,
    progress: bool | None = None,
) -> Path:
    """Run methods on a prediction set and store tidy results.

    Parameters
    ----------
    predictions : path or PredictionSource
        What to run on; see `calibrant.files.predictions.source.open_predictions`.
    methods : iterable of str or MethodSpec
        Names of the registry, `package.module:Class`, or specs; `none` is always run.
    out : str or Path
        Result folder. Rows it already holds are kept, unless version or parameters of their method changed.
    experiments : sequence of Experiment, optional
        Only these.
    options : Options, optional
        Time limit and subsampling.
    n_jobs : int, optional
        Fitting processes, by default one for each core.
    dask : str or distributed.Client, optional
        Address of a dask scheduler to run on instead.
    retry : bool
        Whether to run failed and timed-out methods again.
    progress : bool, optional
        Whether to show a progress bar; by default when standard error is a terminal.

    Returns
    -------
    Path of the result folder, with `results.parquet`, `results.csv`, `run.json` and `log.jsonl`.
    """
    source = open_predictions(predictions) if isinstance(predictions, str | Path) else predictions
    options = options or Options()
    specs = with_baseline(m if isinstance(m, MethodSpec) else parse_method(m) for m in methods)
    chosen = source.experiments() if experiments is None else list(experiments)
    folder = ResultFolder(out)
    with folder.locked():
        settings = {"benchmark": source.name, "predictions": str(source.path), "options": asdict(options)}
        folder.describe_run({**settings, "methods": [asdict(s) for s in specs], "n_jobs": n_jobs, "dask": bool(dask)})
        todo = plan(source.name, chosen, specs, options, folder.rows(), retry)
        workers = n_jobs or os.cpu_count() or 1
        total = sum(len(specs) for _, specs in todo)
        try:
            with folder.appending() as log, progress_bar(total, "fits", progress) as bar:
                if dask is not None:
                    from calibrant.bench.run.cluster import run_on_cluster

                    outcomes = run_on_cluster(source, todo, options, dask)
                else:
                    outcomes = _run_here(source, split(todo, workers * UNITS_PER_WORKER), options, workers)
                with closing(outcomes):
                    for experiment, spec, outcome in outcomes:
                        log.write(result_row(source.name, experiment, spec, options, outcome))
                        bar.advance(failed=outcome["status"] != "ok")
        finally:
            folder.write_tables()
    return folder.path


def _run_here(
    source: PredictionSource, units: list[Unit], options: Options, n_workers: int
) -> Generator[Done, None, None]:
    """Outcomes as they come from fitting processes on this machine, one thread of ours watching each."""
    waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
    for unit in units:
        waiting.put(unit)
    outcomes: queue.SimpleQueue[Any] = queue.SimpleQueue()
    processes = [FitProcess(options.time_limit) for _ in range(min(n_workers, len(units)))]
    stopping = threading.Event()

    def work(process: FitProcess) -> None:
        try:
            while not stopping.is_set():
                unit = waiting.get_nowait()
                # A source without a file lives in this process alone: its arrays are handed over.
                path = None if source.path is None else str(source.path)
                arrays = source.load(unit.experiment) if path is None else None
                process.use(unit.experiment, path, arrays, options.max_cal_rows, options.seed)
                for spec, outcome in zip(unit.specs, process.fit(unit.specs)):
                    if stopping.is_set():
                        return
                    outcomes.put((unit.experiment, spec, outcome))
        except queue.Empty:
            return
        except BaseException as error:
            outcomes.put(error)
        finally:
            process.shut()

    threads = [threading.Thread(target=work, args=(process,), daemon=True) for process in processes]
    for thread in threads:
        thread.start()
    try:
        # Imported while the processes start, and so that a missing one is known before the first fit.
        check_table_packages()
        for _ in range(sum(len(unit.specs) for unit in units)):
            outcome = outcomes.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        stopping.set()
        for process in processes:
            process.shut()
        for thread in threads:
            thread.join()
