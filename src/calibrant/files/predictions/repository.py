"""Predictions of a TabRepo or TabArena repository object.

Such a repository answers `predict_val`, `labels_val`, `predict_test` and `labels_test` for a dataset, a fold
and a configuration. Validation predictions are out-of-fold, so they are the calibration set.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calibrant.files.predictions.source import Experiment, PredictionFileError, Predictions


class RepositorySource:
    """Classification tasks of a repository as a prediction set.

    Parameters
    ----------
    repository : object
        With methods `datasets()`, `configs()`, `predict_val(dataset, fold, config)`,
        `labels_val(dataset, fold)`, `predict_test(dataset, fold, config)` and `labels_test(dataset, fold)`.
    datasets, configs : iterable of str, optional
        Which to use; by default all of the repository.
    folds : iterable of int
        Which folds to use.
    name : str
        Name of the set.

    Notes
    -----
    The repository lives in this process: write its predictions with
    `calibrant.files.predictions.hdf5.write_hdf5` to run them on a cluster. Regression tasks are left out.
    """

    path: Path | None = None

    def __init__(
        self,
        repository: Any,
        datasets: Iterable[str] | None = None,
        configs: Iterable[str] | None = None,
        folds: Iterable[int] = (0,),
        name: str = "repository",
    ) -> None:
        self.name = name
        self._repository = repository
        datasets = list(repository.datasets() if datasets is None else datasets)
        configs = list(repository.configs() if configs is None else configs)
        self._experiments = []
        for dataset in datasets:
            if _is_regression(repository, dataset):
                continue
            for fold in folds:
                for config in configs:
                    predictions = self._read(dataset, fold, config)
                    self._experiments.append(predictions.describe(dataset, config, fold))
        if not self._experiments:
            raise PredictionFileError("the repository has no classification tasks among those asked for")

    def experiments(self) -> list[Experiment]:
        """List the experiments by dataset, fold and configuration."""
        return list(self._experiments)

    def load(self, experiment: Experiment) -> Predictions:
        """Ask the repository for the arrays of one experiment."""
        return self._read(experiment.dataset, int(experiment.fold), experiment.model)

    def _read(self, dataset: str, fold: int, config: str) -> Predictions:
        repository = self._repository
        return Predictions.checked(
            repository.predict_val(dataset=dataset, fold=fold, config=config),
            repository.labels_val(dataset=dataset, fold=fold),
            repository.predict_test(dataset=dataset, fold=fold, config=config),
            repository.labels_test(dataset=dataset, fold=fold),
            where=f"{dataset}/{config}/{fold}",
        )


def _is_regression(repository: Any, dataset: str) -> bool:
    info = getattr(repository, "dataset_info", None)
    return info is not None and info(dataset).get("problem_type") == "regression"
