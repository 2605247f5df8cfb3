"""Run every method on every experiment of a prediction set, on all cores or on a cluster.

The plan is what the result folder does not hold yet. Its fits go to processes with one thread each; every row is
written when it is there, so a run can be stopped and continued at any moment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from calibrant.bench.runs.drawn_rows import DrawnSource
from calibrant.bench.runs.method_spec import ClassShipping, MethodSpec, parse_method, with_baseline
from calibrant.bench.runs.one_fit import Options, Outcome, fit_method, unfinished
from calibrant.bench.runs.pool import Batch, Job, ProcessPool
from calibrant.bench.runs.store import Key, ResultFolder, Row, check_table_packages
from calibrant.files.prediction_sets.experiments import Experiment, PredictionSource, with_digest
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.progress import ProgressBar

Todo = Sequence[tuple[Experiment, Sequence[MethodSpec]]]
"""Experiments, each with the methods to be fitted to it."""


def run_benchmark(
    predictions: str | Path | PredictionSource,
    methods: Iterable[str | MethodSpec],
    out: str | Path,
    *,
    experiments: Sequence[Experiment] | None = None,
    options: Options | None = None,
    n_jobs: int | None = None,
    dask: str | object | None = None,
    retry: bool = False,
    progress: bool | None = None,
) -> Path:
    """Run methods on a prediction set and store tidy results.

    Parameters
    ----------
    predictions : path or PredictionSource
        What to run on; see `calibrant.files.prediction_sets.open_predictions`.
    methods : iterable of str or MethodSpec
        Names of the registry, `package.module:Class`, or specs; `none` is always run.
    out : str or Path
        Result folder. Rows it already holds are kept, unless version or parameters of their method changed.
    experiments : sequence of Experiment, optional
        Only these.
    options : Options, optional
        Time limit, subsampling and draws of calibration rows.
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
    listed, origin = source.experiments() if experiments is None else experiments, source.path
    if options.draw is not None:
        source = DrawnSource(source, options.draw, listed)
        listed = source.experiments()
    # Rows of an earlier run count only if they were made from the same numbers, whatever the file is called.
    chosen = [with_digest(source, e) for e in listed]
    folder = ResultFolder(out)
    with folder.locked():
        settings = {"benchmark": source.name, "predictions": str(origin), "options": asdict(options)}
        folder.describe_run({**settings, "methods": [asdict(s) for s in specs], "n_jobs": n_jobs, "dask": bool(dask)})
        todo = plan(source.name, chosen, specs, options, folder.rows(), retry)
        total = sum(len(specs) for _, specs in todo)
        # Checked before the first fit: otherwise a missing package would show only when results are written.
        check_table_packages()
        try:
            with (
                folder.appending() as write,
                ProgressBar(total, "fits", progress) as bar,
                _pool(n_jobs, dask, options.time_limit) as pool,
                closing(run_fits(pool, source, todo, options)) as outcomes,
            ):
                for experiment, spec, outcome in outcomes:
                    write(result_row(source.name, experiment, spec, options, outcome))
                    bar.advance(failed=outcome["status"] != "ok")
        finally:
            folder.write_tables()
    return folder.path


def plan(
    benchmark: str,
    experiments: Iterable[Experiment],
    specs: Sequence[MethodSpec],
    options: Options,
    done: dict[Key, Row],
    retry: bool = False,
) -> Todo:
    """Experiments with the methods still to be run, if they take so many classes; the largest experiment first."""
    todo = []
    for experiment in experiments:
        missing = []
        for spec in specs:
            row = done.get((benchmark, *experiment.key, spec.label))
            current = row is not None and row.get("fingerprint") == options.fingerprint(spec, experiment)
            if row is not None and current and not (retry and row["status"] != "ok"):
                continue
            if spec.supports(experiment.n_classes):
                missing.append(spec)
        if missing:
            todo.append((experiment, missing))
    return sorted(todo, key=lambda item: -options.n_cal(item[0]) * item[0].n_classes)


def result_row(benchmark: str, experiment: Experiment, spec: MethodSpec, options: Options, outcome: Outcome) -> Row:
    """One line of the log."""
    return {
        "benchmark": benchmark,
        "dataset": experiment.dataset,
        "model": experiment.model,
        "fold": experiment.fold,
        "method": spec.label,
        "draw": experiment.draw,
        "labels": options.draw.labels if options.draw is not None else "real",
        "n_cal": options.n_cal(experiment),
        "n_test": experiment.n_test,
        "n_classes": experiment.n_classes,
        **outcome,
        "fingerprint": options.fingerprint(spec, experiment),
    }


def run_fits(
    pool: ProcessPool, source: PredictionSource, todo: Todo, options: Options
) -> Generator[tuple[Experiment, MethodSpec, Outcome], None, None]:
    """Outcomes of fits as they come from a pool.

    Arrays of a source without a file, or with one that the pool's processes do not see, are sent with every batch.
    """
    path = source.path
    file = str(Path(path).resolve()) if path is not None and pool.sees(Path(path).resolve()) else None
    prepare = ClassShipping() if pool.elsewhere else attrgetter("make")

    def batches() -> Iterator[Batch]:
        for experiment, specs in todo:
            given = source.load(experiment) if file is None else file
            for start in range(0, len(specs), pool.batch_size):
                some = specs[start : start + pool.batch_size]
                jobs = [Job(fit_method, (experiment, given, options, s), prepare(s), s.module) for s in some]
                yield (experiment, some), jobs

    with closing(pool.run(batches())) as done:
        for (experiment, specs), answers in done:
            for spec, answer in zip(specs, answers):
                outcome = answer.value if answer.status == "ok" else unfinished(answer.status, answer.message)
                yield experiment, spec, outcome


def _pool(n_jobs: int | None, dask: str | object | None, time_limit: float | None) -> ProcessPool:
    if dask is None:
        return ProcessPool(n_jobs, time_limit)
    from calibrant.bench.runs.cluster import DaskPool

    return DaskPool(dask, time_limit)
