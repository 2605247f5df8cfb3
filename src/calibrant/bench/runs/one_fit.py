"""One method on one experiment: fit on the calibration part, predict the test part, measure the predictions.

Fitting and predicting are timed apart, after a fit to a few rows, during which imports and compilation happen.
A method that fails is a result as well: its message takes the place of the losses.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.bench.runs.drawn_rows import Draw, subsampled
from calibrant.bench.runs.method_spec import MethodSpec
from calibrant.files.prediction_sets.experiments import PARTS, Experiment, PredictionSource, SplitPredictions
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.inputs.predictions import to_probabilities
from calibrant.inputs.words import Words
from calibrant.metrics import accuracy, brier, expected_calibration_error, log_loss
from calibrant.metrics.losses import expected_losses

WARM_UP_ROWS = 100
"""Rows of the fit during which imports and compilation happen: few, so that it takes little time itself."""

Outcome = dict[str, Any]
_warm: set[tuple[str, bool]] = set()
"""Methods that this process has fitted before."""


@dataclass(frozen=True)
class Options:
    """How fits are made.

    Attributes
    ----------
    time_limit : float or None
        Seconds for one fit with its predictions.
    max_cal_rows : int or None
        Subsample larger calibration sets to this many rows.
    seed : int
        Seed of the subsamples.
    draw : Draw or None
        Draw calibration rows and test on the others, instead of the experiments as they are.
    """

    time_limit: float | None = 600.0
    max_cal_rows: int | None = None
    seed: int = 0
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if self.draw is not None and self.max_cal_rows is not None:
            raise ValueError("draws have the size asked for: leave out the limit of calibration rows")

    @property
    def expected(self) -> bool:
        """Whether test predictions are the true probabilities."""
        return self.draw is not None and self.draw.labels == "drawn"

    def n_cal(self, experiment: Experiment) -> int:
        """Calibration rows used of an experiment."""
        return experiment.n_cal if self.max_cal_rows is None else min(experiment.n_cal, self.max_cal_rows)

    def fingerprint(self, spec: MethodSpec, experiment: Experiment) -> str:
        """What a stored row must carry to count as this method on these rows."""
        seed = f"-{self.seed}" if self.n_cal(experiment) < experiment.n_cal else ""
        sizes = f"{self.n_cal(experiment)}-{experiment.n_test}-{experiment.n_classes}{seed}"
        return f"{spec.fingerprint}-{sizes}-{experiment.digest}"


def fit_method(experiment: Experiment, given: str | SplitPredictions, options: Options, spec: MethodSpec) -> Outcome:
    """Fit a method to an experiment, `given` by arrays or a file; the process remembers what it read and warmed up."""
    try:
        if isinstance(given, str):
            # On a cluster a process outlives the run, and the file may be replaced before the next one.
            given = _load(given, Path(given).stat().st_mtime_ns, experiment)
        predictions = subsampled(given, experiment, options.max_cal_rows, options.seed)
    except Exception as error:
        raise ValueError(f"cannot read the predictions: {type(error).__name__}: {error}") from error
    kind = (spec.fingerprint, predictions.n_classes == 2)
    start = time.perf_counter()
    if kind not in _warm:
        _warm_up(predictions, spec)
        _warm.add(kind)
    warm = time.perf_counter() - start
    return {**evaluate(predictions, spec, expected=options.expected), "warm_up_seconds": warm}


def evaluate(predictions: SplitPredictions, spec: MethodSpec, *, expected: bool = False) -> Outcome:
    """Fit, predict and measure.

    Where labels were drawn from the predictions, these are the true probabilities, and losses are `expected` ones.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Copies: a method that changes its input in place must not change that of the methods after it.
            cal, labels, test = (getattr(predictions, part).copy() for part in PARTS[:3])
            start = time.perf_counter()
            calibrator = spec.make().fit(cal, labels)
            fitted = time.perf_counter()
            probas = np.asarray(calibrator.predict_proba(test), dtype=np.float64)
            predicted = time.perf_counter()
            truth = predictions.probas_test if expected else None
            return {
                "status": "ok",
                "message": "",
                **_measure(probas, predictions.labels_test, predictions.n_classes, truth),
                "fit_seconds": fitted - start,
                "predict_seconds": predicted - fitted,
                "measure_seconds": time.perf_counter() - predicted,
            }
        except Exception as error:
            return unfinished("failed", f"{type(error).__name__}: {error}")


def unfinished(status: str, message: str) -> Outcome:
    """Outcome of a method that gave no predictions."""
    numbers = ("logloss", "brier", "accuracy", "ece", "fit_seconds", "predict_seconds", "measure_seconds")
    return {"status": status, "message": " ".join(message.split())[:500], **dict.fromkeys(numbers, float("nan"))}


def _measure(
    probas: NDArray[np.float64], labels: NDArray[np.int64], n_classes: int, truth: NDArray[np.float64] | None
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


def _warm_up(predictions: SplitPredictions, spec: MethodSpec) -> None:
    """Fit to a few rows, so that imports and compilation are not part of the first timing."""
    small = [getattr(predictions, part)[:WARM_UP_ROWS].copy() for part in PARTS[:2]]
    # An error here will be reported by the fit to all rows.
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        spec.make().fit(*small).predict_proba(small[0])


@lru_cache(1)
def _load(path: str, changed: int, experiment: Experiment) -> SplitPredictions:
    return _opened(path, changed).load(experiment)


@lru_cache(8)
def _opened(path: str, changed: int) -> PredictionSource:
    return open_predictions(path)
