"""One method on one experiment: fit on the calibration part, predict the test part, measure both.

Fitting and predicting are timed apart, after a fit to a few rows, during which imports and compilation happen.
A method that fails is a result as well: its message takes the place of the losses.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.bench.runs.method_spec import MethodSpec
from calibrant.files.prediction_sets.experiments import SplitPredictions
from calibrant.inputs.predictions import to_probabilities
from calibrant.inputs.words import Words
from calibrant.metrics import accuracy, brier, expected_calibration_error, log_loss
from calibrant.metrics.expected import expected_losses

WARM_UP_ROWS = 100
"""Rows of the fit during which imports and compilation happen: few, so that it takes little time itself."""

Outcome = dict[str, Any]


def evaluate(predictions: SplitPredictions, spec: MethodSpec, *, expected: bool = False) -> Outcome:
    """Fit, predict and measure.

    Parameters
    ----------
    predictions : SplitPredictions
    spec : MethodSpec
    expected : bool
        Whether the test predictions are the true probabilities, as they are where labels were drawn from them: losses
        are then expected ones, not those of the test labels.

    Returns
    -------
    dict
        `status` (`ok` or `failed`), `message`, `logloss`, `brier`, `accuracy`, `ece`, `fit_seconds`,
        `predict_seconds`, and `measure_seconds` for the losses.

    Examples
    --------
    >>> from calibrant.bench.runs.method_spec import make_spec
    >>> p = SplitPredictions.checked([[0.2, 0.8]], [1], [[0.5, 0.5]], [0])
    >>> outcome = evaluate(p, make_spec("none"))
    >>> outcome["status"], round(outcome["logloss"], 3)
    ('ok', 0.693)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Copies: a method that changes its input in place must not change that of the methods after it.
            cal, labels, test = (part.copy() for part in _handed_out(predictions))
            start = time.perf_counter()
            calibrator = spec.make().fit(cal, labels)
            fitted = time.perf_counter()
            probas = np.asarray(calibrator.predict_proba(test), dtype=np.float64)
            predicted = time.perf_counter()
            truth = predictions.probas_test if expected else None
            losses = measure(probas, predictions.labels_test, predictions.n_classes, truth)
            return {
                "status": "ok",
                "message": "",
                **losses,
                "fit_seconds": fitted - start,
                "predict_seconds": predicted - fitted,
                "measure_seconds": time.perf_counter() - predicted,
            }
        except Exception as error:
            return unfinished("failed", f"{type(error).__name__}: {error}")


def _handed_out(predictions: SplitPredictions) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return predictions.probas_cal, predictions.labels_cal, predictions.probas_test


def unfinished(status: str, message: str) -> Outcome:
    """Outcome of a method that gave no predictions.

    Examples
    --------
    >>> unfinished("timeout", "stopped after 1 s")["logloss"]
    nan
    """
    numbers = ("logloss", "brier", "accuracy", "ece", "fit_seconds", "predict_seconds", "measure_seconds")
    return {"status": status, "message": " ".join(message.split())[:500], **dict.fromkeys(numbers, float("nan"))}


def measure(
    probas: NDArray[np.float64],
    labels: NDArray[np.int64],
    n_classes: int,
    truth: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """Test losses of calibrated probabilities; expected ones where the true probabilities are known."""
    if probas.shape != (len(labels), n_classes):
        raise ValueError(f"predict_proba returned shape {probas.shape}, expected {(len(labels), n_classes)}")
    probas = np.asarray(to_probabilities(probas, words=Words("predict_proba's result")))
    if truth is not None:
        return {**expected_losses(truth, probas), "ece": float("nan")}
    names = range(n_classes)
    return {
        "logloss": log_loss(labels, probas, classes=names),
        # The sum over classes also for two of them, so that the numbers of all experiments compare.
        "brier": brier(labels, probas, scale_by_half=False, classes=names),
        "accuracy": accuracy(labels, probas, classes=names),
        "ece": expected_calibration_error(labels, probas, kind="top-label", n_bins=15, classes=names),
    }


def warm_up(predictions: SplitPredictions, spec: MethodSpec) -> None:
    """Fit to a few rows, so that imports and compilation are not part of the first timing."""
    small = [part[:WARM_UP_ROWS].copy() for part in _handed_out(predictions)[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            spec.make().fit(*small).predict_proba(small[0])
        except Exception:
            # The same error will be reported by the fit to all rows.
            return
