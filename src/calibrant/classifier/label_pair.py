"""A fitted multi-output classifier with its `MultilabelCalibrator`, and how the two are fitted on folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.parallel import Parallel, delayed

from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.inputs.label_matrix import LabelMatrix
from calibrant.runtime import Map
from calibrant.simplex import log_odds
from calibrant.sklearn_private import check_method_params, safe_split
from calibrant.typing import FloatArray, IntArray


@dataclass
class LabelPair:
    """A fitted classifier of independent labels and its calibrator.

    Attributes
    ----------
    estimator : classifier
        The fitted classifier.
    calibrators : list
        The one calibrator, of all labels at once, which takes log-odds.
    """

    estimator: BaseEstimator
    calibrators: list[MultilabelCalibrator]

    def predict_proba(self, X: object) -> FloatArray:
        """Calibrated probabilities, one column per label."""
        calibrator = self.calibrators[0]
        return calibrator.predict_proba(label_log_odds(self.estimator, X, len(calibrator.classes_)))

    def to_map(self) -> Map:
        """The map from log-odds to calibrated probabilities."""
        return self.calibrators[0].to_map()


def label_log_odds(estimator: BaseEstimator, X: object, n_labels: int) -> FloatArray:
    """Log-odds (n, L) of a fitted classifier; decision values where it has no probabilities.

    Classifiers with several outputs give a list of arrays, one for each label, with the columns of `classes_`.
    """
    if not hasattr(estimator, "predict_proba"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    else:
        p = estimator.predict_proba(X)
        if isinstance(p, list):
            # A label that was never, or always, true in training has one column.
            ones = [np.asarray(known) == 1 for known in estimator.classes_]
            p = np.column_stack([part[:, one].sum(axis=1) for part, one in zip(p, ones)])
        scores = log_odds(p)
    if scores.shape != (len(scores), n_labels):
        raise ValueError(
            f"{type(estimator).__name__} gives predictions of shape {scores.shape} for {n_labels} labels: one column "
            "per label is needed. Put a classifier of one label into a sklearn.multiclass.OneVsRestClassifier."
        )
    return scores


def label_splits(data: LabelMatrix, n_folds: int) -> list[tuple[IntArray, IntArray]]:
    """The rows of the two parts of each fold, which keep groups together and spread rare labels."""
    if data.rows.n_groups < 2:
        raise ValueError(
            "All rows belong to one group, and folds keep groups together: no row would be left to calibrate on. Give "
            "groups that differ, or leave them out."
        )
    folds = data.rows.folds(min(n_folds, data.rows.n_groups), 0)
    return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]


def fit_label_pairs(
    pair: tuple[BaseEstimator, MultilabelCalibrator],
    X: object,
    data: LabelMatrix,
    weight: FloatArray | None,
    splits: list[tuple[IntArray, IntArray]] | None,
    params: Mapping[str, object],
    ensemble: bool,
    n_jobs: int | None,
) -> tuple[list[BaseEstimator], list[MultilabelCalibrator]]:
    """Fitted classifiers and calibrators: one of each per fold, or one; without folds the classifier is fitted already.

    The probabilities in `data` are not looked at.
    """
    estimator, calibrator = pair
    if splits is None:
        found = [(estimator, label_log_odds(estimator, X, len(data.labels)))]
        tests = [np.arange(data.rows.n_rows)]
    else:
        tests = [test for _, test in splits]
        found = Parallel(n_jobs=n_jobs)(
            delayed(_fit_fold)(clone(estimator), X, data.y, train, test, params) for train, test in splits
        )
        if not ensemble:
            whole = clone(estimator).fit(X, data.y, **check_method_params(X, params))
            found, tests = [(whole, np.concatenate([scores for _, scores in found]))], [np.concatenate(tests)]
    rows = data.rows.with_counts(weight)
    parts = [(scores, test, rows.take(test)) for (_, scores), test in zip(found, tests)]
    calibrators = [clone(calibrator).fit(z, data.y[test], part.counts, groups=part.groups) for z, test, part in parts]
    return [fitted for fitted, _ in found], calibrators


def _fit_fold(
    estimator: BaseEstimator, X: object, y: IntArray, train: IntArray, test: IntArray, params: Mapping[str, object]
) -> tuple[BaseEstimator, FloatArray]:
    """The classifier fitted to the rows `train`, and its log-odds of the rows `test`."""
    X_train, y_train = safe_split(estimator, X, y, train)
    estimator.fit(X_train, y_train, **check_method_params(X, params, indices=train))
    return estimator, label_log_odds(estimator, safe_split(estimator, X, y, test, train)[0], y.shape[1])
