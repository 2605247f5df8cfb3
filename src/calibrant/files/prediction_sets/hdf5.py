"""HDF5 prediction sets in CalArena's layout.

`{dataset}/{model}[/{fold}]/{probas_cal,labels_cal,probas_test,labels_test}`, with or without the fold level,
beside an index CSV (dataset, model, fold, cal_size, test_size, n_classes) that reading does not need.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.files.archives import FileTooLargeError, check_size
from calibrant.files.atomic import atomic_path, write_text
from calibrant.files.prediction_sets.experiments import (
    PARTS,
    Experiment,
    PredictionFileError,
    PredictionSource,
    SplitPredictions,
    as_fold,
)
from calibrant.optional import require

if TYPE_CHECKING:
    from h5py import File, Group

INDEX_COLUMNS = ("dataset", "model", "fold", "cal_size", "test_size", "n_classes")


def open_hdf5(path: Path, index: str | Path | None = None) -> PredictionSource:
    """An HDF5 file in CalArena's layout: all its experiments, or those that an index CSV names."""
    with _opened(path) as file:
        groups = dict(_walk(file))
    if not groups:
        raise PredictionFileError(f"{path}: no experiments; expected dataset/model[/fold]/{PARTS[0]} ...")
    chosen = list(groups) if index is None else _chosen(list(groups), Path(index))
    return PredictionSource(((e, partial(_load, path, groups[e])) for e in chosen), path.stem, path)


def _load(path: Path, name: str) -> SplitPredictions:
    with _opened(path) as file:
        group = file[name]
        check_size(sum(group[part].size * group[part].dtype.itemsize for part in PARTS), str(path))
        return SplitPredictions.checked(*(group[part][()] for part in PARTS), where=f"{path.name}:{name}")


def load_as_stored(path: Path, experiment: Experiment) -> SplitPredictions:
    """Arrays of an experiment as `write_hdf5` stored them: scaled to sum to one, they would be rounded once more."""
    with _opened(path) as file:
        return SplitPredictions(*(file[str(experiment)][part][()] for part in PARTS))


@contextmanager
def _opened(path: Path) -> Iterator[File]:
    h5py = require("h5py", extra="bench")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except PredictionFileError:
        raise
    except FileTooLargeError as error:
        raise PredictionFileError(str(error)) from error
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError) as error:
        raise PredictionFileError(f"{path} is not a readable HDF5 file: {error}") from error


def write_hdf5(
    path: str | Path, experiments: Iterable[tuple[Experiment, SplitPredictions]], folds: bool = True
) -> Path:
    """Write a prediction set and its index, `{stem}-experiments.csv` beside it.

    Both files appear under their names when complete. Probabilities are stored as float32, labels as int16
    (int32 above 32767 classes), compressed.

    Parameters
    ----------
    path : str or Path
        File to write.
    experiments : iterable of (Experiment, SplitPredictions)
        Read one at a time, so the set may be larger than memory.
    folds : bool
        Whether to write the fold level; without it there is one fold per model.

    Returns
    -------
    Path of the index.
    """
    h5py = require("h5py", extra="bench")
    path = Path(path)
    index = path.with_name(f"{path.stem}-experiments.csv")
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(INDEX_COLUMNS)
    with atomic_path(path) as part, h5py.File(part, "w") as file:
        for e, predictions in experiments:
            group = file.require_group(f"{e.dataset}/{e.model}")
            if folds:
                group = group.create_group(str(e.fold))
            for name in PARTS:
                data = getattr(predictions, name)
                labels = "int16" if predictions.n_classes < 2**15 else "int32"
                small = "float32" if name.startswith("probas") else labels
                # Byte shuffling puts the exponents together, which is where most of the compression is.
                group.create_dataset(
                    name, data=data.astype(small), compression="gzip", compression_opts=9, shuffle=True
                )
            writer.writerow((e.dataset, e.model, e.fold, e.n_cal, e.n_test, e.n_classes))
    write_text(index, rows.getvalue())
    return index


def _walk(file: File) -> Iterator[tuple[Experiment, str]]:
    """Experiments of an open file: a group with the four arrays is one, two or three levels down."""
    for dataset, models in _members(file):
        for model, inner in _members(models):
            if _is_experiment(inner):
                yield _sizes(inner, dataset, model, 0), inner.name
                continue
            for fold, leaf in _members(inner):
                if _is_experiment(leaf):
                    yield _sizes(leaf, dataset, model, as_fold(fold)), leaf.name


def _is_experiment(group: Group) -> bool:
    return hasattr(group, "items") and set(PARTS) <= set(group)


def _members(group: Group) -> Iterator[tuple[str, Group]]:
    """Names and contents of a group, nothing of a dataset. Links are refused: they may lead to any other file."""
    h5py = require("h5py", extra="bench")
    for name in group if hasattr(group, "items") else ():
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise PredictionFileError(f"{group.file.filename}: {group.name} {name} is a link, which is not followed")
        yield name, group[name]


def _sizes(group: Group, dataset: str, model: str, fold: int | str) -> Experiment:
    for name, part in _members(group):
        # Both kinds of storage read bytes of other files.
        if name in PARTS and (part.external is not None or part.is_virtual):
            raise PredictionFileError(f"{group.file.filename}: {part.name} is in another file, which is not read")
        if name in PARTS and (part.dtype.kind not in "fiub" or part.shape is None):
            raise PredictionFileError(f"{group.file.filename}: {part.name} does not hold numbers")
    cal, test = group["probas_cal"].shape, group["probas_test"].shape
    n_classes = cal[1] if len(cal) == 2 and cal[1] > 1 else 2
    return Experiment(dataset, model, fold, int(cal[0]), int(test[0]), int(n_classes))


def _chosen(experiments: list[Experiment], index: Path) -> list[Experiment]:
    with open(index, newline="") as file:
        reader = csv.DictReader(file)
        if missing := {"dataset", "model"} - set(reader.fieldnames or ()):
            raise PredictionFileError(f"{index}: no column {', '.join(sorted(missing))}")
        rows = list(reader)
    by_key = {e.key: e for e in experiments}
    chosen: list[Experiment] = []
    for number, row in enumerate(rows, start=2):
        if row.get("fold"):
            found = [by_key[key]] if (key := (row["dataset"], row["model"], row["fold"])) in by_key else []
        else:
            found = [e for e in experiments if (e.dataset, e.model) == (row["dataset"], row["model"])]
        if not found:
            raise PredictionFileError(f"{index}, line {number}: {row['dataset']}/{row['model']} is not in the file")
        chosen.extend(found)
    return chosen
