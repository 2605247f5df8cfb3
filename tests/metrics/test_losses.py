"""Losses against scikit-learn and against pencil and paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from calibrant.metrics import accuracy, auroc, brier, confidence_gap, log_loss

Data = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("weighted", [False, True])
def test_like_scikit_learn_multiclass(multiclass: Data, weighted: bool) -> None:
    y, p = multiclass
    w = np.random.default_rng(0).random(len(y)) if weighted else None
    hit = p.argmax(axis=1)
    assert log_loss(y, p, sample_weight=w) == pytest.approx(sklearn_log_loss(y, p, sample_weight=w), abs=1e-12)
    assert accuracy(y, p, sample_weight=w) == pytest.approx(accuracy_score(y, hit, sample_weight=w), abs=1e-12)
    for average in ("macro", "weighted"):
        theirs = roc_auc_score(y, p, multi_class="ovr", average=average, sample_weight=w)
        assert auroc(y, p, average=average, sample_weight=w) == pytest.approx(theirs, abs=1e-12)
    for half in ("auto", True, False):
        theirs = brier_score_loss(y, p, sample_weight=w, scale_by_half=half)
        assert brier(y, p, scale_by_half=half, sample_weight=w) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_like_scikit_learn_binary(binary: Data, weighted: bool) -> None:
    y, p = binary
    w = np.random.default_rng(0).random(len(y)) if weighted else None
    assert auroc(y, p, sample_weight=w) == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-12)
    for half in ("auto", True, False):
        theirs = brier_score_loss(y, p, sample_weight=w, scale_by_half=half)
        assert brier(y, p, scale_by_half=half, sample_weight=w) == pytest.approx(theirs, abs=1e-12)
    inner = np.clip(p, 1e-6, 1 - 1e-6)
    assert log_loss(y, inner, sample_weight=w) == pytest.approx(sklearn_log_loss(y, inner, sample_weight=w), abs=1e-12)


def test_floor_of_the_log_loss() -> None:
    assert log_loss([1], [0.0]) == pytest.approx(-math.log(1e-15))
    assert log_loss([1], [0.0], floor=1e-3) == pytest.approx(-math.log(1e-3))
    assert log_loss([1], [0.0], floor=0) == math.inf
    assert log_loss([1], [1.0]) == 0.0
    for outside in (-1, 1):
        with pytest.raises(ValueError, match="floor"):
            log_loss([1], [0.5], floor=outside)


def test_brier_of_certain_and_uniform_predictions() -> None:
    assert brier([0, 1, 2], np.eye(3)) == 0.0
    assert brier([1, 2, 0], np.eye(3)) == 2.0
    assert brier([0, 1, 2], np.full((3, 3), 1 / 3)) == pytest.approx(2 / 3)


def test_squares_of_float32_tables_are_summed_in_double_precision() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(40), size=2000).astype(np.float32)
    y = rng.integers(0, 40, len(p))
    exact = np.mean(np.sum((p.astype(np.float64) - np.eye(40)[y]) ** 2, axis=1))
    assert brier(y, p) == pytest.approx(exact, abs=1e-12)


def test_confidence_gap_tells_the_direction(multiclass: Data) -> None:
    y, p = multiclass
    assert confidence_gap(y, p) == pytest.approx(p.max(axis=1).mean() - np.mean(p.argmax(axis=1) == y))
    assert confidence_gap(y, p) > 0.05
    assert confidence_gap([0, 0], [[0.5, 0.5], [0.6, 0.4]]) < 0


def test_auroc_without_a_class() -> None:
    assert math.isnan(auroc([1, 1], [0.2, 0.3]))
    p = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
    assert auroc([0, 1, 0], p) == 1.0
