"""One fold of a calibrated classifier: fit, score the rows left out, calibrate the scores.

Calibration rows are put into an order of their own and whole weights become repetitions, so that neither the order of
rows nor the choice between a weight of two and a repeated row changes anything, not even in calibrators with
cross-validation inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from calibrant.classifier.pair import CalibratedPair, log_scores, score_scaling
from calibrant.sample import Sample
from calibrant.simplex import LOG_FLOOR, log_softmax, softmax
from calibrant.sklearn_private import check_method_params, safe_split
from calibrant.typing import FloatArray, IntArray

#: Whole weights become repeated rows up to this many rows, or this many times as many: beyond that copies are slow.
_MOST_ROWS, _MOST_TIMES = 10_000, 4
#: Decimals of the log-probabilities that calibrators are fitted to: the precision of float32.
_DIGITS = 7


def fit_fold(
    pair: CalibratedPair, data: tuple[Any, ...], train: IntArray, test: IntArray, params: dict[str, Any]
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
    sample = canonical(sample.with_values(scores))
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


def canonical(sample: Sample) -> Sample:
    """The rows in an order that depends on their content only, with repetitions for whole counts.

    Examples
    --------
    >>> canonical(Sample(np.array([[0.0, 3.0], [2.0, 1.0]]), np.array([1, 0]), np.array([2.0, 1.0]), logs=True)).y
    array([0, 1, 1])
    """
    direction = np.random.default_rng(0).random(sample.n_classes)
    # Not a matrix product, whose rounding depends on the place of a row.
    key = (np.clip(sample.x, -1e3, 1e3) * direction).sum(axis=1)
    ordered = sample.take(np.lexsort((key, sample.y)))
    counts = ordered.each
    if sample.total > max(_MOST_ROWS, _MOST_TIMES * sample.n_rows) or bool(np.any(counts != np.floor(counts))):
        return ordered
    return ordered.take(np.repeat(np.arange(sample.n_rows), counts.astype(np.int64))).with_counts(None)
