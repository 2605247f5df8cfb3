"""Metrics on real predictions: exact zeros and ones, absent classes, up to a thousand columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss

from calibrant.metrics import (
    accuracy,
    brier,
    calibration_test,
    evaluate,
    expected_calibration_error,
    list_metrics,
    reliability_table,
    rms_calibration_error,
)
from tests.needs import needs

FITTED = {"calibration_loss", "refinement_loss", "lp_calibration_error"}

pytestmark = pytest.mark.predictions


def experiments(path: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    h5py = needs("h5py")
    with h5py.File(path) as source:
        for dataset in source:
            for model in source[dataset]:
                group = source[dataset][model]["0"]
                yield f"{dataset}/{model}", group["probas_test"][:], group["labels_test"][:]


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["tabular-binary.h5", "tabular-multiclass.h5", "vision-text.h5"])
def test_every_metric_is_finite_and_like_scikit_learn(file: str, every: int, predictions_folder: Path) -> None:
    names = [name for name in list_metrics() if name not in FITTED]
    for experiment, p, y in islice(experiments(predictions_folder / file), 0, None, every):
        values = evaluate(y, p, names)
        values["debiased"] = expected_calibration_error(y, p, debias=True)
        values["debiased rms"] = rms_calibration_error(y, p, debias=True, strategy="quantile")
        values["test"] = calibration_test(y, p, "temperature", n_resamples=1).statistic
        assert all(np.isfinite(list(values.values()))), (experiment, values)
        both = np.column_stack([1 - p.astype(float), p]) if p.ndim == 1 else p.astype(float)
        both /= both.sum(axis=1, keepdims=True)
        labels = np.arange(both.shape[1])
        theirs = brier_score_loss(y, both, labels=labels, scale_by_half=False)
        assert brier(y, p, scale_by_half=False) == pytest.approx(theirs, abs=1e-5), experiment
        assert accuracy(y, both) == accuracy_score(y, both.argmax(axis=1)), experiment
        table = reliability_table(y, p, strategy="quantile")
        assert table.weight.sum() == table.histogram.sum() == len(y)
