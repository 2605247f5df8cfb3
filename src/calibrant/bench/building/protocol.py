"""From one dataset, one model and one fold to an experiment's predictions: the protocol of the paper.

Ten stratified folds; the task's fold is the test set; on the other nine, eight-fold cross-validation gives
out-of-fold predictions, which together are the calibration set, and eight models whose test predictions are
averaged.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from calibrant.bench.building.datasets import Dataset
from calibrant.bench.building.models import Config, Model, preprocessor
from calibrant.files.prediction_sets.experiments import SplitPredictions

N_FOLDS, N_INNER = 10, 8
"""Test folds, and folds of the cross-validation on the others: the numbers of the paper."""


def predict_experiment(
    dataset: Dataset, model: Model, fold: int, seed: int = 0, n_configs: int = 1
) -> SplitPredictions:
    """Train a model by the protocol, with one of the test folds 0 to 9.

    Of several configurations, the default and random ones, the best by out-of-fold log loss is kept.
    """
    rng = np.random.default_rng([seed, fold, sum(model.name.encode())])
    configs = [model.default, *(model.sample(rng) for _ in range(n_configs - 1))]
    candidates = [_cross_validated(dataset, model, fold, config, seed) for config in configs]
    return min(candidates, key=lambda p: _log_loss(p.probas_cal, p.labels_cal))


def _cross_validated(dataset: Dataset, model: Model, fold: int, config: Config, seed: int) -> SplitPredictions:
    from sklearn.model_selection import StratifiedKFold
    from threadpoolctl import threadpool_limits

    X, y = dataset.features, dataset.labels
    n_classes = len(dataset.classes)
    rest, test = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y))[fold]
    inner = StratifiedKFold(N_INNER, shuffle=True, random_state=seed + 1)
    probas_cal, labels_cal, probas_test = [], [], []
    with warnings.catch_warnings(), threadpool_limits(1):
        # Nets that did not converge and unseen categories are part of a realistic benchmark.
        warnings.simplefilter("ignore")
        for train, held_out in inner.split(X.iloc[rest], y[rest]):
            rows, val = rest[train], rest[held_out]
            transform = preprocessor(model.features, X).fit(X.iloc[rows])
            X_val = transform.transform(X.iloc[val])
            predict = model.fit(transform.transform(X.iloc[rows]), y[rows], X_val, y[val], n_classes, config, seed)
            probas_cal.append(_distribution(predict(X_val)))
            labels_cal.append(y[val])
            probas_test.append(_distribution(predict(transform.transform(X.iloc[test]))))
    cal, averaged = np.concatenate(probas_cal), np.mean(probas_test, axis=0)
    if model.after is not None:
        cal, averaged = (_distribution(model.after(p)) for p in (cal, averaged))
    return SplitPredictions.checked(
        cal,
        np.concatenate(labels_cal),
        averaged,
        y[test],
        where=f"{dataset.name}/{model.name}/{fold}",
    )


def _distribution(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale float32 rows to sum to one; rows that are not finite, of a model that diverged, become uniform."""
    p = np.asarray(p, dtype=np.float64)
    p = np.where(np.isfinite(p).all(axis=1, keepdims=True), p, 1.0)
    return p / p.sum(axis=1, keepdims=True)


def _log_loss(p: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean())
