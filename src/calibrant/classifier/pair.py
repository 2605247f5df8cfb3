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
from sklearn.base import BaseEstimator
from sklearn.utils.validation import has_fit_parameter

from calibrant.calibrators.score_scaling import find_scale
from calibrant.inputs.labels import encode
from calibrant.runtime import Map, canonical
from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_softmax, softmax
from calibrant.sklearn_private import check_method_params, safe_split
from calibrant.steps import Scale
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
    """A fitted classifier and its calibrator: one entry of `CalibratedClassifier.calibrated_classifiers_`.

    Attributes
    ----------
    estimator : classifier
        The fitted classifier.
    calibrators : list
        The one calibrator, of all classes at once.
    classes : ndarray of shape (k,)
        The labels of the columns of `predict_proba`.
    decisions : bool
        Whether decision values were preferred to log-probabilities.
    scaling : Scale or None
        What makes logits of very large decision values: see `calibrant.calibrators.score_scaling`.
    """

    estimator: BaseEstimator
    calibrators: list[BaseEstimator]
    classes: AnyArray
    decisions: bool = False
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
    """The map that all pairs of a classifier have; pairs with maps of their own are refused."""
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
    X_train, y_train = safe_split(pair.estimator, X, labels, train)
    pair.estimator.fit(X_train, y_train, **check_method_params(X, params, indices=train))
    X_test, _ = safe_split(pair.estimator, X, labels, test, train)
    scores = log_scores(pair.estimator, X_test, pair.classes, decisions=pair.decisions)
    if pair.calibrators:
        counts, together = (None if part is None else part[test] for part in (weight, groups))
        fit_calibrator(pair, Sample(scores, codes[test], counts, together, logs=True))
    return pair, scores


def fit_calibrator(pair: CalibratedPair, sample: Sample) -> None:
    """Fit the calibrator of a pair to scores; one from elsewhere gets probabilities and column numbers."""
    pair.scaling = score_scaling(pair.estimator, sample, decisions=pair.decisions)
    x = sample.x if pair.scaling is None else pair.scaling.apply(np.array(sample.x))
    # Matrix products round equal rows differently in the last digits, and trees split where they find a difference.
    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number stays so, and the calibrator says it
        scores = np.maximum(log_softmax(x), LOG_FLOOR)
    np.round(scores, _DIGITS, out=scores)
    sample = in_canonical_order(sample.with_values(scores))
    (calibrator,) = pair.calibrators
    known = calibrator.get_params(deep=False)
    settings = {"input": "logits", "classes": pair.classes}
    calibrator.set_params(**{name: value for name, value in settings.items() if name in known})
    X = sample.x if "input" in known else softmax(sample.x)
    y = pair.classes[sample.y] if "classes" in known else sample.y
    beside: dict[str, Any] = {"sample_weight": sample.counts}
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
