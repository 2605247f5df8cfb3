"""Calibrators in child processes, however these are made: fitted there and here they predict the same, bit for bit."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import joblib
import numpy as np
import pytest

import calibrant
from tests.samples import sharpened

METHODS = ("ts", "sms", "isotonic", "beta", "auto-fast")


def fit(method: str) -> Any:
    p, y = sharpened(200, 3)
    return calibrant.get_calibrator(method, classes=np.arange(3)).fit(p, y)


def predict(calibrator: Any) -> np.ndarray:
    return np.asarray(calibrator.predict_proba(sharpened(50, 3, seed=1)[0]))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "spawn", "joblib"])
def test_fit_and_predict_in_child_processes(way: str) -> None:
    if way not in ("joblib", *multiprocessing.get_all_start_methods()):
        pytest.skip("no such processes here")
    here = [fit(method) for method in METHODS]  # before the fork: compiled code and threads are in use already
    if way == "joblib":
        run = joblib.Parallel(n_jobs=2)
        there = run(joblib.delayed(fit)(method) for method in METHODS)
        predicted = run(joblib.delayed(predict)(calibrator) for calibrator in here)
    else:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(way)) as pool:
            there, predicted = list(pool.map(fit, METHODS)), list(pool.map(predict, here))
    for method, one, other, found in zip(METHODS, here, there, predicted, strict=True):
        np.testing.assert_array_equal(predict(one), predict(other), err_msg=f"{method}, fitted there")
        np.testing.assert_array_equal(predict(one), found, err_msg=f"{method}, predicted there")


@pytest.mark.parametrize("method", METHODS)
def test_pickles_of_all_protocols(method: str) -> None:
    fitted = fit(method)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        np.testing.assert_array_equal(predict(pickle.loads(pickle.dumps(fitted, protocol))), predict(fitted))
