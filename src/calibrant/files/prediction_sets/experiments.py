"""Prediction sets: experiments with a calibration and a test part, whatever file they come from.

An experiment is a dataset, a model and a fold; its four arrays are the model's probabilities and the labels
on calibration and test rows. A `PredictionSource` lists experiments and loads one at a time; `open_predictions` picks
the reader from the file name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import column_numbers
from calibrant.inputs.predictions import as_matrix, to_probabilities
from calibrant.inputs.words import Words
from calibrant.text_table import list_names

PARTS = ("probas_cal", "labels_cal", "probas_test", "labels_test")


class PredictionFileError(ValueError):
    """A prediction file that cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Experiment:
    """Name and size of one experiment.

    `digest` is that of its arrays once they were read, else empty; `draw` the number of calibration rows that was asked
    for, if they were drawn.

    Examples
    --------
    >>> Experiment("iris", "LR", 0, n_cal=135, n_test=15, n_classes=3).key
    ('iris', 'LR', '0')
    """

    dataset: str
    model: str
    fold: int | str
    n_cal: int
    n_test: int
    n_classes: int
    digest: str = field(default="", compare=False)
    draw: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Dataset, model and fold as text, which names the experiment within its file."""
        return self.dataset, self.model, str(self.fold)

    def __str__(self) -> str:
        return "/".join(self.key)


@dataclass(frozen=True)
class SplitPredictions:
    """The four arrays of one experiment: float64 probabilities (n, k), labels in 0..k-1.

    Examples
    --------
    >>> p = SplitPredictions.checked([[0.2, 0.8]], [1], [0.6], [0])
    >>> p.probas_test
    array([[0.4, 0.6]])
    """

    probas_cal: NDArray[np.float64]
    labels_cal: NDArray[np.int64]
    probas_test: NDArray[np.float64]
    labels_test: NDArray[np.int64]

    @classmethod
    def checked(
        cls,
        probas_cal: object,
        labels_cal: object,
        probas_test: object,
        labels_test: object,
        *,
        where: str = "predictions",
    ) -> SplitPredictions:
        """Validate arrays as they come from a file.

        One column of probabilities is that of the second of two classes; rows are scaled to sum to one;
        labels are the column numbers of the true classes.
        """
        given = dict(zip(PARTS, (probas_cal, labels_cal, probas_test, labels_test)))
        try:
            cal, test = (_probabilities(given[name], f"{name} in {where}") for name in PARTS[::2])
            if cal.shape[1] != test.shape[1]:
                raise ValueError(f"{where}: {cal.shape[1]} classes in probas_cal, {test.shape[1]} in probas_test")
            y_cal, y_test = (
                column_numbers(given[name], len(p), p.shape[1], Words(labels=f"{name} in {where}"))
                for name, p in zip(PARTS[1::2], (cal, test))
            )
        except (TypeError, ValueError) as error:
            raise PredictionFileError(str(error)) from None
        return cls(cal, y_cal, test, y_test)

    @property
    def n_classes(self) -> int:
        """Number of probability columns."""
        return int(self.probas_cal.shape[1])

    def digest(self) -> str:
        """A short text that changes when any number in the arrays changes."""
        digest = hashlib.blake2b(digest_size=8)
        for part in PARTS:
            array = getattr(self, part)
            digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def describe(self, dataset: str, model: str, fold: int | str = 0) -> Experiment:
        """Name these predictions."""
        return Experiment(dataset, model, fold, len(self.labels_cal), len(self.labels_test), self.n_classes)


Entry = tuple[Experiment, Callable[[], SplitPredictions]]


class PredictionSource:
    """A set of experiments that can be listed and loaded one by one.

    Parameters
    ----------
    entries : iterable of (Experiment, callable)
        The callable takes no argument and returns the experiment's `SplitPredictions`.
    name : str
        Name of the set, used as `benchmark` in results.
    path : Path, optional
        Where another process can open the same set.

    Examples
    --------
    >>> p = SplitPredictions.checked([[0.2, 0.8]], [1], [[0.4, 0.6]], [0])
    >>> source = PredictionSource([(p.describe("coins", "LR"), lambda: p)], "toys")
    >>> [source.load(e).n_classes for e in source.experiments()]
    [2]
    """

    def __init__(self, entries: Iterable[Entry], name: str, path: Path | None = None) -> None:
        self.name, self.path = name, path
        self._entries: dict[tuple[str, str, str], Entry] = {}
        for experiment, read in entries:
            if experiment.key in self._entries:
                raise PredictionFileError(f"{path or name}: {experiment} appears twice")
            self._entries[experiment.key] = experiment, read

    def experiments(self) -> list[Experiment]:
        """All experiments, in the order of the file."""
        return [experiment for experiment, _ in self._entries.values()]

    def load(self, experiment: Experiment) -> SplitPredictions:
        """Read the arrays of one experiment."""
        if experiment.key not in self._entries:
            raise PredictionFileError(f"{experiment} is not among the experiments of {self.name}")
        return self._entries[experiment.key][1]()


class MemorySource(PredictionSource):
    """Predictions held in memory.

    Parameters
    ----------
    predictions : mapping from (dataset, model, fold) to SplitPredictions
    name : str
        Name of the set.
    path : Path, optional
        Where another process can open the same set.

    Examples
    --------
    >>> p = SplitPredictions.checked([[0.2, 0.8]], [1], [[0.4, 0.6]], [0])
    >>> [str(e) for e in MemorySource({("coins", "LR", 0): p}).experiments()]
    ['coins/LR/0']
    """

    def __init__(
        self,
        predictions: Mapping[tuple[str, str, int | str], SplitPredictions],
        name: str = "predictions",
        path: Path | None = None,
    ) -> None:
        entries = ((p.describe(*key), partial(predictions.__getitem__, key)) for key, p in predictions.items())
        super().__init__(entries, name, path)


class RepositorySource(PredictionSource):
    """Classification tasks of a TabRepo or TabArena repository object as a prediction set.

    Validation predictions of such a repository are out-of-fold, so they are the calibration set.

    Parameters
    ----------
    repository : object
        With methods `datasets()`, `configs()`, `predict_val(dataset, fold, config)`,
        `labels_val(dataset, fold)`, `predict_test(dataset, fold, config)` and `labels_test(dataset, fold)`.
    datasets, configs : iterable of str, optional
        Which to use; by default all of the repository.
    folds : sequence of int
        Which folds to use.
    name : str
        Name of the set.

    Notes
    -----
    The repository lives in this process: write its predictions with
    `calibrant.bench.write_hdf5` to run them on a cluster. Regression tasks are left out.
    """

    def __init__(
        self,
        repository: Any,
        datasets: Iterable[str] | None = None,
        configs: Iterable[str] | None = None,
        folds: Sequence[int] = (0,),
        name: str = "repository",
    ) -> None:
        def read(dataset: str, fold: int, config: str) -> SplitPredictions:
            task = {"dataset": dataset, "fold": fold}
            return SplitPredictions.checked(
                repository.predict_val(**task, config=config),
                repository.labels_val(**task),
                repository.predict_test(**task, config=config),
                repository.labels_test(**task),
                where=f"{dataset}/{config}/{fold}",
            )

        names = list(repository.configs() if configs is None else configs)
        info = getattr(repository, "dataset_info", None)
        entries: list[Entry] = []
        for dataset in repository.datasets() if datasets is None else datasets:
            if info is not None and info(dataset).get("problem_type") == "regression":
                continue
            for fold, config in product(folds, names):
                load = partial(read, dataset, fold, config)
                entries.append((load().describe(dataset, config, fold), load))
        if not entries:
            raise PredictionFileError("the repository has no classification tasks among those asked for")
        super().__init__(entries, name)


def as_fold(text: str) -> int | str:
    """Names of folds become numbers if they are written like whole numbers."""
    return int(text) if text.isdecimal() and len(text) < 19 and str(int(text)) == text else text


def with_digest(source: PredictionSource, experiment: Experiment) -> Experiment:
    """The experiment with the digest of its arrays; without one if they cannot be read."""
    try:
        return replace(experiment, digest=source.load(experiment).digest())
    except (PredictionFileError, OSError):
        return experiment


def select_experiments(
    experiments: Sequence[Experiment],
    datasets: Iterable[str] | None = None,
    models: Iterable[str] | None = None,
    folds: Iterable[str] | None = None,
) -> list[Experiment]:
    """Keep the experiments with the given names; names that do not occur are an error.

    Examples
    --------
    >>> all_of_them = [Experiment("iris", m, 0, 135, 15, 3) for m in ("LR", "RF")]
    >>> [e.model for e in select_experiments(all_of_them, models=["RF"])]
    ['RF']
    """
    kept = list(experiments)
    wishes = (("dataset", datasets), ("model", models), ("fold", folds))
    for name, wanted in wishes:
        if wanted is None:
            continue
        names = [str(w) for w in wanted]
        present = {str(getattr(e, name)) for e in experiments}
        if unknown := [w for w in names if w not in present]:
            found, there = list_names(unknown, write=str), list_names(sorted(present), write=str)
            raise PredictionFileError(f"no {name} named {found}; there are {there}")
        kept = [e for e in kept if str(getattr(e, name)) in names]
    return kept


def _probabilities(p: object, where: str) -> NDArray[np.float64]:
    words = Words(where)
    array, _ = as_matrix(p, words)
    return np.asarray(to_probabilities(array.astype(np.float64), words=words, tolerance=0.0))
