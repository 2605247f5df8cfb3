"""One fold of a calibrated classifier: fit, score the rows left out, calibrate the scores.

Scores are log-probabilities, or decision values where a classifier has nothing better. Calibration rows are put into
an order of their own and whole weights become repetitions, so that neither the order of rows nor the choice between
a weight of two and a repeated row changes anything, not even in calibrators with cross-validation inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from calibrant.inputs.labels import encode
from calibrant.simplex import LOG_FLOOR, log_softmax, softmax
from calibrant.typing import FloatArray

IntArray = NDArray[np.int64]

#: Weights become repetitions if that makes at most this many rows, or this many times as many.
_MOST_ROWS, _MOST_TIMES = 10_000, 4
#: Decimals of log-probabilities that calibrators are fitted to: what single precision carries.
_DIGITS = 7


def log_scores(estimator: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Log-probabilities or decision values of a fitted classifier, a column for each of `classes`.

    Decision values of two classes are taken as log-odds, those of more as logits; a class unknown to the classifier
    has ``-inf``.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> log_scores(DecisionTreeClassifier().fit([[0], [1]], ["a", "c"]), [[1]], np.array(["a", "b", "c"]))
    array([[-inf, -inf,   0.]])
    """
    with np.errstate(divide="ignore"):
        if hasattr(estimator, "predict_log_proba"):
            scores = np.asarray(estimator.predict_log_proba(X), dtype=np.float64)
        elif hasattr(estimator, "predict_proba"):
            scores = np.log(np.asarray(estimator.predict_proba(X), dtype=np.float64))
        else:
            scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
            if scores.ndim == 1:
                scores = np.column_stack([np.zeros_like(scores), scores])
    known = np.asarray(getattr(estimator, "classes_", classes))
    if scores.ndim != 2 or scores.shape[1] != len(known):
        raise ValueError(
            f"{type(estimator).__name__} gives scores of shape {scores.shape} for {len(known)} classes; one column a "
            "class is needed (decision_function_shape='ovr' for support vector machines)."
        )
    if len(known) == len(classes):
        return scores
    out = np.full((len(scores), len(classes)), -np.inf)
    out[:, encode(known, classes)] = scores
    return out


def fit_fold(
    estimator: Any, calibrator: Any, data: tuple[Any, ...], train: IntArray, test: IntArray, params: dict[str, Any]
) -> tuple[Any, Any]:
    """A classifier fitted to the rows `train`, with its calibrator for the rows `test`, or its scores without one."""
    X, labels, codes, weight, classes = data
    X_train, y_train = _safe_split(estimator, X, labels, train)
    estimator.fit(X_train, y_train, **_check_method_params(X, params, indices=train))
    X_test, _ = _safe_split(estimator, X, labels, test, train)
    scores = log_scores(estimator, X_test, classes)
    if calibrator is None:
        return estimator, scores
    share = None if weight is None else weight[test]
    return estimator, fit_calibrator(calibrator, scores, codes[test], share, classes)


def fit_calibrator(
    calibrator: Any, scores: FloatArray, codes: IntArray, weight: FloatArray | None, classes: NDArray[Any]
) -> Any:
    """A calibrator fitted to scores; one from elsewhere gets probabilities and column numbers."""
    # Matrix products round equal rows differently in the last digits, and trees split where they find a difference.
    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number stays so, and the calibrator says it
        scores = np.maximum(log_softmax(scores), LOG_FLOOR)
    np.round(scores, _DIGITS, out=scores)
    rows, weight = canonical_rows(scores, codes, weight)
    scores, codes = scores[rows], codes[rows]
    known = calibrator.get_params(deep=False)
    settings = {"input": "logits", "classes": classes}
    calibrator.set_params(**{name: value for name, value in settings.items() if name in known})
    X = scores if "input" in known else softmax(scores)
    y = classes[codes] if "classes" in known else codes
    return calibrator.fit(X, y) if weight is None else calibrator.fit(X, y, sample_weight=weight)


def canonical_rows(
    scores: FloatArray, codes: IntArray, weight: FloatArray | None
) -> tuple[IntArray, FloatArray | None]:
    """Row numbers in an order that depends on the rows' content only, with repetitions for whole weights.

    Examples
    --------
    >>> canonical_rows(np.array([[0.0, 3.0], [2.0, 1.0]]), np.array([1, 0]), np.array([2.0, 1.0]))
    (array([1, 0, 0]), None)
    """
    direction = np.random.default_rng(0).random(scores.shape[1])
    # Not a matrix product, whose rounding depends on the place of a row.
    key = (np.clip(scores, -1e3, 1e3) * direction).sum(axis=1)
    rows = np.lexsort((key, codes))
    if weight is None:
        return rows, None
    total = weight.sum()
    if total <= max(_MOST_ROWS, _MOST_TIMES * len(rows)) and bool(np.all(weight == np.floor(weight))):
        return np.repeat(rows, weight[rows].astype(np.int64)), None
    return rows, weight[rows]


def calibrated(calibrator: Any, scores: FloatArray, k: int) -> FloatArray:
    """Calibrated probabilities of scores, a column for each of `k` classes."""
    if getattr(calibrator, "input", None) == "logits":
        return np.asarray(calibrator.predict_proba(scores), dtype=np.float64)
    p = np.asarray(calibrator.predict_proba(softmax(scores)), dtype=np.float64)
    if p.shape[1] == k:
        return p
    out = np.zeros((len(p), k))
    out[:, calibrator.classes_] = p
    return out
