"""Methods on experiments as jobs for a pool of processes, and their outcomes."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from calibrant.bench.runs.drawn_rows import subsampled
from calibrant.bench.runs.method_spec import MethodSpec
from calibrant.bench.runs.one_fit import Outcome, evaluate, unfinished, warm_up
from calibrant.bench.runs.pool import Job, JobBatch, Pool
from calibrant.bench.runs.run_plan import Done, Options, Unit
from calibrant.files.prediction_sets.experiments import Experiment, PredictionSource, SplitPredictions
from calibrant.files.prediction_sets.open_set import open_predictions


@dataclass(frozen=True, eq=False)
class Setting:
    """An experiment for a process: by the file to read, or with its arrays."""

    experiment: Experiment
    path: str | None
    arrays: SplitPredictions | None
    options: Options


def run_fits(
    pool: Pool, source: PredictionSource, units: Iterable[Unit], options: Options
) -> Generator[Done, None, None]:
    """Outcomes of units of work as they come from a pool.

    A source without a file, or with one that the pool's processes do not see, is handed over unit by unit.
    """
    path = source.path
    file = str(Path(path).resolve()) if path is not None and pool.sees(Path(path).resolve()) else None

    def batches() -> Iterable[JobBatch]:
        for unit in units:
            arrays = source.load(unit.experiment) if file is None else None
            setting = Setting(unit.experiment, file, arrays, options)
            yield JobBatch(unit, tuple(Job(fit_method, (setting, spec), spec.make, spec.home) for spec in unit.specs))

    with closing(pool.run(batches())) as answers:
        for batch, place, answer in answers:
            unit: Unit = batch.about
            outcome = answer.value if answer.status == "ok" else unfinished(answer.status, answer.message)
            yield unit.experiment, unit.specs[place], outcome


def fit_method(setting: Setting, spec: MethodSpec) -> Outcome:
    """Fit one method to one experiment; runs in a process that remembers what it has read and warmed up."""
    predictions = _memory.predictions(setting)
    kind = (spec.fingerprint, predictions.n_classes == 2)
    start = time.perf_counter()
    if kind not in _memory.warm:
        warm_up(predictions, spec)
        _memory.warm.add(kind)
    warm = time.perf_counter() - start
    return {**evaluate(predictions, spec, expected=setting.options.expected), "warm_up_seconds": warm}


class _Memory:
    """What a process keeps between two fits: open files, the present experiment, methods already warm."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, int], PredictionSource] = {}
        self._present: tuple[Setting, SplitPredictions] | None = None
        self.warm: set[tuple[str, bool]] = set()

    def predictions(self, setting: Setting) -> SplitPredictions:
        # The jobs of a batch share one object.
        if self._present is None or self._present[0] is not setting:
            try:
                self._present = setting, self._read(setting)
            except Exception as error:
                raise ValueError(f"cannot read the predictions: {type(error).__name__}: {error}") from error
        return self._present[1]

    def _read(self, setting: Setting) -> SplitPredictions:
        predictions, options = setting.arrays, setting.options
        if predictions is None:
            # On a cluster a process outlives the run, and the file may be replaced before the next one.
            key = setting.path or "", Path(setting.path or "").stat().st_mtime_ns
            if key not in self._sources:
                self._sources[key] = open_predictions(key[0])
            predictions = self._sources[key].load(setting.experiment)
        return subsampled(predictions, setting.experiment, options.max_cal_rows, options.seed)


_memory = _Memory()
