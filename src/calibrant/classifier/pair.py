"""A fitted classifier with its calibrator, and the scores that go from the one to the other.

Scores are log-probabilities, or decision values where a classifier has nothing better. A class unknown to the
classifier has the score ``-inf``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from calibrant.calibrators.score_scaling import find_scale
from calibrant.inputs.labels import encode
from calibrant.runtime import Map, canonical
from calibrant.sample import Sample
from calibrant.simplex import softmax
from calibrant.steps import Scale
from calibrant.typing import AnyArray, FloatArray

_LOGARITHMS_FIRST = ("predict_log_proba", "predict_proba", "decision_function")
_DECISIONS_FIRST = ("decision_function", "predict_log_proba", "predict_proba")
#: Decision values beyond this are no logits, and log-probabilities below about -87 are cut off: they are scaled.
_LARGEST_SCORE = 30.0


def response_method(estimator: BaseEstimator, *, decisions: bool = False) -> str:
    """The method of a classifier that gives its scores; `decisions` prefers decision values to log-probabilities.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> response_method(LogisticRegression()), response_method(LogisticRegression(), decisions=True)
    ('predict_log_proba', 'decision_function')
    """
    return next(name for name in (_DECISIONS_FIRST if decisions else _LOGARITHMS_FIRST) if hasattr(estimator, name))


def log_scores(estimator: BaseEstimator, X: Any, classes: AnyArray, *, decisions: bool = False) -> FloatArray:
    """Log-probabilities or decision values of a fitted classifier, one column for each of `classes`.

    Decision values of two classes are taken as log-odds, those of more as logits.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> log_scores(DecisionTreeClassifier().fit([[0], [1]], ["a", "c"]), [[1]], np.array(["a", "b", "c"]))
    array([[-inf, -inf,   0.]])
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

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities, one column per class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            What the classifier takes.

        Returns
        -------
        p : ndarray of shape (n, k)
        """
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
            f"This CalibratedClassifier has {len(maps)} calibrators, one for each fold, which are no single map: each "
            "takes the scores of its own classifier. Fit it with ensemble='auto' or False for one calibrator, export "
            "the calibrators_ one by one, or write classifiers and calibrators as one ONNX graph: see "
            "calibrant.writers.whole_models."
        )
    return maps[0]
