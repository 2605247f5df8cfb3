"""A fitted classifier with its calibrator, the scores passed from one to the other, and their fits on folds.

Scores are log-probabilities, or decision values where a classifier has no probabilities. A class unknown to the
classifier has the score ``-inf``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.calibrators.score_scaling import find_scale
from calibrant.inputs.label_matrix import LabelMatrix
from calibrant.inputs.labels import encode
from calibrant.runtime import Map
from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_odds, log_softmax, softmax
from calibrant.sklearn_private import check_method_params, safe_split
from calibrant.steps import Scale
from calibrant.steps.map_documents import canonical
from calibrant.typing import AnyArray, FloatArray, IntArray

_LOGARITHMS_FIRST = ("predict_log_proba", "predict_proba", "decision_function")
_DECISIONS_FIRST = ("decision_function", "predict_log_proba", "predict_proba")
#: Decision values beyond this are no logits, and log-probabilities below about -87 are cut off: they are scaled.
_LARGEST_SCORE = 30.0


def response_method(estimator: BaseEstimator, *, decisions: bool = False) -> str:
    """The method of a classifier that gives its scores; `decisions` prefers decision values to log-probabilities."""
    return next(name for name in (_DECISIONS_FIRST if decisions else _LOGARITHMS_FIRST) if hasattr(estimator, name))


def log_scores(estimator: BaseEstimator, X: object, classes: AnyArray, *, decisions: bool = False) -> FloatArray:
    """Log-probabilities or decision values of a fitted classifier, one column for each of `classes`.

    Decision values of two classes are taken as log-odds, those of more as logits.
    """
    method = response_method(estimator, decisions=decisions)
    with np.errstate(divide="ignore"):
        scores = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
        if method == "predict_proba":
            scores = np.log(scores)
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    known = np.asarray(getattr(estimator, "classes_", classes))
    if scores.ndim != 2 or scores.shape[1] != len(known):
        raise ValueError(
            f"{type(estimator).__name__}.{method} gives scores of shape {scores.shape} for {len(known)} classes; one "
            "column per class is needed (decision_function_shape='ovr' for support vector machines)."
        )
    if len(known) == len(classes):
        return scores
    out = np.full((len(scores), len(classes)), -np.inf)
    out[:, encode(known, classes)] = scores
    return out


def score_scaling(estimator: BaseEstimator, sample: Sample, *, decisions: bool = False) -> Scale | None:
    """What makes logits of scores before they are calibrated: nothing, unless decision values are very large."""
    if response_method(estimator, decisions=decisions) != "decision_function":
        return None
    counted = sample if sample.counts is None else sample.take(sample.counts > 0.0)
    known = np.isfinite(counted.x)
    most = float(np.abs(counted.x).max(initial=0.0, where=known))
    if most <= _LARGEST_SCORE:
        return None
    k = sample.n_classes
    if not known.all():  # a class that a fold lacks
        return Scale(np.full(k, _LARGEST_SCORE / most), np.zeros(k))
    single = k == 2 and not counted.x[:, 0].any()
    return find_scale(counted.with_values(counted.x[:, 1:]) if single else counted).step(1 if single else k, k)


@dataclass
class CalibratedPair:
    """A fitted classifier and its calibrator: one entry of `CalibratedClassifier.calibrated_classifiers_`."""

    estimator: BaseEstimator
    #: The one calibrator, of all classes at once.
    calibrators: list[BaseEstimator]
    #: The labels of the columns of `predict_proba`.
    classes: AnyArray
    #: Whether decision values were preferred to log-probabilities.
    decisions: bool = False
    #: What makes logits of very large decision values: see `calibrant.calibrators.score_scaling`.
    scaling: Scale | None = None

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Calibrated probabilities of what the classifier takes, one column per class."""
        calibrator = self.calibrators[0]
        scores = log_scores(self.estimator, X, self.classes, decisions=self.decisions)
        scores = scores if self.scaling is None else self.scaling.apply(scores)
        if getattr(calibrator, "input", None) == "logits":
            return np.asarray(calibrator.predict_proba(scores), dtype=np.float64)
        p = np.asarray(calibrator.predict_proba(softmax(scores)), dtype=np.float64)
        if p.shape[1] == len(self.classes):
            return p
        out = np.zeros((len(p), len(self.classes)))
        out[:, calibrator.classes_] = p
        return out

    def to_map(self) -> Map:
        """The map from the scores of the classifier, as `log_scores` gives them, to calibrated probabilities."""
        fitted: Map = self.calibrators[0].to_map()
        return fitted if self.scaling is None else replace(fitted, scaling=self.scaling)


def common_map(pairs: Sequence[Any]) -> Map:
    """The map that all pairs of a classifier share; pairs with different maps are refused."""
    maps = [pair.to_map() for pair in pairs]
    if len({canonical(fitted.to_json()) for fitted in maps}) > 1:
        raise ValueError(
            f"This CalibratedClassifier has {len(maps)} calibrators, one for each fold, not a single map: each takes "
            "the scores of its own classifier. Fit it with ensemble='auto' or False for one calibrator, export the "
            "calibrators_ one by one, or write classifiers and calibrators as one ONNX graph: see "
            "calibrant.writers.whole_models."
        )
    return maps[0]


#: Whole weights become repeated rows up to this many rows, or this many times as many: beyond that copies are slow.
_MOST_ROWS, _MOST_TIMES = 10_000, 4
#: Decimals of the log-probabilities that calibrators are fitted to: the precision of float32.
_DIGITS = 7


def fit_fold(
    pair: CalibratedPair, data: tuple[Any, ...], train: IntArray, test: IntArray, params: Mapping[str, object]
) -> tuple[CalibratedPair, FloatArray]:
    """A pair whose classifier is fitted to the rows `train`, and its scores of the rows `test`.

    A pair that has a calibrator has it fitted to these scores, too.
    """
    X, labels, codes, weight, groups = data
    X_test = _fit_classifier(pair.estimator, X, labels, train, test, params)
    scores = log_scores(pair.estimator, X_test, pair.classes, decisions=pair.decisions)
    if pair.calibrators:
        counts, together = (None if part is None else part[test] for part in (weight, groups))
        fit_calibrator(pair, Sample(scores, codes[test], counts, together, logs=True))
    return pair, scores


def _fit_classifier(
    estimator: BaseEstimator, X: Any, y: AnyArray, train: IntArray, test: IntArray, params: Mapping[str, object]
) -> Any:
    """Fit a classifier to the rows `train`; returns what it takes of the rows `test`."""
    X_train, y_train = safe_split(estimator, X, y, train)
    estimator.fit(X_train, y_train, **check_method_params(X, params, indices=train))
    return safe_split(estimator, X, y, test, train)[0]


def fit_calibrator(pair: CalibratedPair, sample: Sample) -> None:
    """Fit the calibrator of a pair to scores; one from elsewhere gets probabilities and column numbers."""
    pair.scaling = score_scaling(pair.estimator, sample, decisions=pair.decisions)
    x = sample.x if pair.scaling is None else pair.scaling.apply(np.array(sample.x))
    # Matrix products round equal rows differently in the last digits, and trees split where they find a difference.
    with np.errstate(over="ignore", invalid="ignore"):  # NaN stays NaN, and the calibrator reports it
        scores = np.maximum(log_softmax(x), LOG_FLOOR)
    np.round(scores, _DIGITS, out=scores)
    sample = in_canonical_order(sample.with_values(scores))
    (calibrator,) = pair.calibrators
    known = calibrator.get_params(deep=False)
    settings = {"input": "logits", "classes": pair.classes}
    calibrator.set_params(**{name: value for name, value in settings.items() if name in known})
    X = sample.x if "input" in known else softmax(sample.x)
    y = pair.classes[sample.y] if "classes" in known else sample.y
    beside: dict[str, object] = {"sample_weight": sample.counts}
    if has_fit_parameter(calibrator, "groups"):
        beside["groups"] = sample.groups
    calibrator.fit(X, y, **{name: values for name, values in beside.items() if values is not None})


def in_canonical_order(sample: Sample) -> Sample:
    """The rows in an order that depends on their content only, with repetitions for whole counts."""
    direction = np.random.default_rng(0).random(sample.n_classes)
    # Not a matrix product, whose rounding depends on the place of a row.
    key = (np.clip(sample.x, -1e3, 1e3) * direction).sum(axis=1)
    ordered = sample.take(np.lexsort((key, sample.y)))
    counts = ordered.each
    if sample.total > max(_MOST_ROWS, _MOST_TIMES * sample.n_rows) or bool(np.any(counts != np.floor(counts))):
        return ordered
    return ordered.take(np.repeat(np.arange(sample.n_rows), counts.astype(np.int64))).with_counts(None)


@dataclass
class LabelPair:
    """A fitted classifier of independent labels and its one calibrator, of all labels at once, which takes log-odds."""

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
            delayed(_fit_label_fold)(clone(estimator), X, data.y, train, test, params) for train, test in splits
        )
        if not ensemble:
            whole = clone(estimator).fit(X, data.y, **check_method_params(X, params))
            found, tests = [(whole, np.concatenate([scores for _, scores in found]))], [np.concatenate(tests)]
    rows = data.rows.with_counts(weight)
    parts = [(scores, test, rows.take(test)) for (_, scores), test in zip(found, tests)]
    calibrators = [clone(calibrator).fit(z, data.y[test], part.counts, groups=part.groups) for z, test, part in parts]
    return [fitted for fitted, _ in found], calibrators


def _fit_label_fold(
    estimator: BaseEstimator, X: object, y: IntArray, train: IntArray, test: IntArray, params: Mapping[str, object]
) -> tuple[BaseEstimator, FloatArray]:
    """The classifier fitted to the rows `train`, and its log-odds of the rows `test`."""
    X_test = _fit_classifier(estimator, X, y, train, test, params)
    return estimator, label_log_odds(estimator, X_test, y.shape[1])
