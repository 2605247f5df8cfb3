"""Losses against scikit-learn and against pencil and paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from calibrant.metrics import (
    accuracy,
    auroc,
    brier,
    brier_skill_score,
    calibration_loss,
    confidence_gap,
    log_loss,
    ranked_probability_score,
    scaled_brier,
)

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


def test_skills_of_weighted_rows_by_hand() -> None:
    # Classes have shares of 1/6, 3/6 and 2/6; the second predicted row is far off.
    p = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]])
    y, each = np.array([0, 1, 2]), np.array([1.0, 3.0, 2.0])
    squares = np.array([0.25 + 0.09 + 0.04, 0.36 + 0.81 + 0.09, 0.01 + 0.04 + 0.09])
    score, share = each @ squares / 6, np.array([1, 3, 2]) / 6
    options = {"sample_weight": each}
    assert brier_skill_score(y, p, **options) == pytest.approx(1 - score / (1 - share @ share))
    past = np.array([0.0, 0.5, 0.5])
    worth = sum(f * ((past - np.eye(3)[j]) ** 2).sum() for j, f in enumerate(share))
    assert brier_skill_score(y, p, reference=past, **options) == pytest.approx(1 - score / worth)
    mean = each @ p / 6
    assert scaled_brier(y, p, **options) == pytest.approx(1 - score / (1 - mean @ mean))
    assert ranked_probability_score(y, p, **options) == pytest.approx((0.25 + 0.04 + 3 * (0.36 + 0.09) + 2 * 0.1) / 6)
    with pytest.raises(ValueError, match="reference must be 3 probabilities"):
        brier_skill_score(y, p, reference=[-0.5, 0.5, 1.0])


def test_losses_of_a_calibrator_have_two_names() -> None:
    with pytest.raises(ValueError, match="loss must be 'log_loss' or 'brier', got 'ece'"):
        calibration_loss([0, 0, 1, 1] * 3, [0.2, 0.7, 0.3, 0.6] * 3, loss="ece", cv=2)
