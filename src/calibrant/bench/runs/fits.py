"""Fits of methods to experiments as jobs for a pool of processes."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from calibrant.bench.runs.drawn_rows import subsampled
from calibrant.bench.runs.method_spec import ClassShipping, MethodSpec
from calibrant.bench.runs.one_fit import Outcome, evaluate, unfinished, warm_up
from calibrant.bench.runs.pool import Batch, ProcessPool
from calibrant.bench.runs.run_plan import Options, Todo
from calibrant.bench.runs.worker import Job
from calibrant.files.prediction_sets.experiments import Experiment, PredictionSource, SplitPredictions
from calibrant.files.prediction_sets.open_set import open_predictions


@dataclass(frozen=True)
class Setting:
    """An experiment for a process: by the file to read, or with its arrays."""

    experiment: Experiment
    path: str | None
    arrays: SplitPredictions | None
    options: Options


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
            setting = Setting(experiment, file, source.load(experiment) if file is None else None, options)
            for start in range(0, len(specs), pool.batch_size):
                some = specs[start : start + pool.batch_size]
                jobs = [Job(fit_method, (setting, spec), prepare(spec), spec.module) for spec in some]
                yield (experiment, some), jobs

    with closing(pool.run(batches())) as done:
        for (experiment, specs), answers in done:
            for spec, answer in zip(specs, answers):
                outcome = answer.value if answer.status == "ok" else unfinished(answer.status, answer.message)
                yield experiment, spec, outcome


def fit_method(setting: Setting, spec: MethodSpec) -> Outcome:
    """Fit one method to one experiment; runs in a process that remembers what it has read and warmed up."""
    try:
        predictions = _read(setting)
    except Exception as error:
        raise ValueError(f"cannot read the predictions: {type(error).__name__}: {error}") from error
    kind = (spec.fingerprint, predictions.n_classes == 2)
    start = time.perf_counter()
    if kind not in _warm:
        warm_up(predictions, spec)
        _warm.add(kind)
    warm = time.perf_counter() - start
    return {**evaluate(predictions, spec, expected=setting.options.expected), "warm_up_seconds": warm}


_warm: set[tuple[str, bool]] = set()
"""Methods that this process has fitted before."""


def _read(setting: Setting) -> SplitPredictions:
    predictions, options = setting.arrays, setting.options
    if predictions is None:
        path = setting.path or ""
        # On a cluster a process outlives the run, and the file may be replaced before the next one.
        predictions = _load(path, Path(path).stat().st_mtime_ns, setting.experiment)
    return subsampled(predictions, setting.experiment, options.max_cal_rows, options.seed)


@lru_cache(1)
def _load(path: str, changed: int, experiment: Experiment) -> SplitPredictions:
    return _opened(path, changed).load(experiment)


@lru_cache(8)
def _opened(path: str, changed: int) -> PredictionSource:
    return open_predictions(path)
