"""Predictions that the tests of the metrics share, and a calibrator with nothing hidden in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from calibrant.metrics import hypothesis
from tests.samples import draw_labels


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nineteen draws behind a p-value, which hold the level 0.05 exactly: for tests of many samples."""
    monkeypatch.setattr(hypothesis, "DRAWS", 19)


@pytest.fixture
def binary() -> tuple[np.ndarray, np.ndarray]:
    """Over-confident scores of 700 rows, some equal, some exactly 0 or 1."""
    rng = np.random.default_rng(11)
    truth = rng.random(700)
    score = np.clip(1.4 * (truth - 0.5) + 0.5, 0, 1)
    score[:200] = score[:200].round(1)
    return (rng.random(700) < truth).astype(int), score


@pytest.fixture
def multiclass() -> tuple[np.ndarray, np.ndarray]:
    """Over-confident probabilities of 600 rows and 4 classes."""
    rng = np.random.default_rng(12)
    logits = rng.normal(size=(600, 4))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = draw_labels(truth, rng)
    sharp = np.exp(2 * logits)
    return y, sharp / sharp.sum(axis=1, keepdims=True)


class ClassFrequencies(ClassifierMixin, BaseEstimator):
    """Predicts the weighted class frequencies of its training rows, whatever the input."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ClassFrequencies:
        self.classes_ = np.arange(np.shape(X)[1])
        self.frequencies_ = np.bincount(y, weights=sample_weight, minlength=len(self.classes_)) / (
            len(y) if sample_weight is None else np.sum(sample_weight)
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self.frequencies_, (len(X), 1))


class Flatten(ClassifierMixin, BaseEstimator):
    """Halves the log-probabilities: a calibration map that ignores the labels."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Flatten:
        self.classes_ = np.arange(np.shape(X)[1])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        root = np.sqrt(X)
        return root / root.sum(axis=1, keepdims=True)
