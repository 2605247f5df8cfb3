"""One fold of a calibrated classifier: fit, score the rows left out, calibrate the scores.

Calibration rows are put into an order of their own and whole weights become repetitions, so that neither the order of
rows nor the choice between a weight of two and a repeated row changes anything, not even in calibrators with
cross-validation inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from calibrant.classifier.pair import CalibratedPair, log_scores, score_scale
from calibrant.simplex import LOG_FLOOR, log_softmax, softmax
from calibrant.typing import FloatArray, IntArray

#: Weights become repetitions if that makes at most this many rows, or this many times as many.
_MOST_ROWS, _MOST_TIMES = 10_000, 4
#: Decimals of log-probabilities that calibrators are fitted to: what single precision carries.
_DIGITS = 7


def fit_fold(
    pair: CalibratedPair, data: tuple[Any, ...], train: IntArray, test: IntArray, params: dict[str, Any]
) -> tuple[CalibratedPair, FloatArray]:
    """A pair whose classifier is fitted to the rows `train`, and its scores of the rows `test`.

    A pair that has a calibrator has it fitted to these scores, too.
    """
    X, labels, codes, weight = data
    X_train, y_train = _safe_split(pair.estimator, X, labels, train)
    pair.estimator.fit(X_train, y_train, **_check_method_params(X, params, indices=train))
    X_test, _ = _safe_split(pair.estimator, X, labels, test, train)
    scores = log_scores(pair.estimator, X_test, pair.classes, decisions=pair.decisions)
    if pair.calibrators:
        fit_calibrator(pair, scores, codes[test], None if weight is None else weight[test])
    return pair, scores


def fit_calibrator(pair: CalibratedPair, scores: FloatArray, codes: IntArray, weight: FloatArray | None) -> None:
    """Fit the calibrator of a pair to scores; one from elsewhere gets probabilities and column numbers."""
    pair.scale = score_scale(pair.estimator, scores, weight, decisions=pair.decisions)
    # Matrix products round equal rows differently in the last digits, and trees split where they find a difference.
    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number stays so, and the calibrator says it
        scores = np.maximum(log_softmax(scores / pair.scale), LOG_FLOOR)
    np.round(scores, _DIGITS, out=scores)
    rows, weight = canonical_rows(scores, codes, weight)
    scores, codes = scores[rows], codes[rows]
    (calibrator,) = pair.calibrators
    known = calibrator.get_params(deep=False)
    settings = {"input": "logits", "classes": pair.classes}
    calibrator.set_params(**{name: value for name, value in settings.items() if name in known})
    X = scores if "input" in known else softmax(scores)
    y = pair.classes[codes] if "classes" in known else codes
    if weight is None:
        calibrator.fit(X, y)
    else:
        calibrator.fit(X, y, sample_weight=weight)


def canonical_rows(
    scores: FloatArray, codes: IntArray, weight: FloatArray | None
) -> tuple[NDArray[np.intp], FloatArray | None]:
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
