"""Predictions of a TabRepo or TabArena repository object.

Such a repository answers `predict_val`, `labels_val`, `predict_test` and `labels_test` for a dataset, a fold
and a configuration. Validation predictions are out-of-fold, so they are the calibration set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

from calibrant.files.prediction_sets.experiments import Entry, PredictionFileError, PredictionSource, SplitPredictions


class RepositorySource(PredictionSource):
    """Classification tasks of a repository as a prediction set.

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
        names = list(repository.configs() if configs is None else configs)
        entries: list[Entry] = []
        for dataset in repository.datasets() if datasets is None else datasets:
            if _is_regression(repository, dataset):
                continue
            for fold, config in product(folds, names):
                read = partial(_read, repository, dataset, fold, config)
                entries.append((read().describe(dataset, config, fold), read))
        if not entries:
            raise PredictionFileError("the repository has no classification tasks among those asked for")
        super().__init__(entries, name)


def _read(repository: Any, dataset: str, fold: int, config: str) -> SplitPredictions:
    return SplitPredictions.checked(
        repository.predict_val(dataset=dataset, fold=fold, config=config),
        repository.labels_val(dataset=dataset, fold=fold),
        repository.predict_test(dataset=dataset, fold=fold, config=config),
        repository.labels_test(dataset=dataset, fold=fold),
        where=f"{dataset}/{config}/{fold}",
    )


def _is_regression(repository: Any, dataset: str) -> bool:
    info = getattr(repository, "dataset_info", None)
    return info is not None and info(dataset).get("problem_type") == "regression"
