from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from calibrant import get_calibrator
from calibrant.inputs.observations import observations, repeated_rows
from calibrant.metrics import brier, log_loss
from tests.samples import sharpened


def votes(n, k, seed=0):
    p, y = sharpened(n, k, seed=seed)
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 4, (n, k)).astype(float)
    matrix[np.arange(n), y] += 3.0
    matrix[0] = 0.0
    return p, matrix


@pytest.mark.parametrize("name", ["ts", "svs", "sms", "sqs", "dirichlet", "logistic", "ets", "isotonic", "auto-fast"])
def test_a_matrix_of_votes_is_each_row_once_per_class_with_the_votes_as_weights(name):
    p, matrix = votes(120, 3)
    weight = np.random.default_rng(1).integers(0, 3, 120)
    soft = get_calibrator(name).fit(p, matrix, sample_weight=weight)
    rows, columns = np.repeat(np.arange(120), 3), np.tile(np.arange(3), 120)
    hard = get_calibrator(name).fit(p[rows], columns, sample_weight=(matrix * weight[:, None]).ravel())
    np.testing.assert_allclose(soft.predict_proba(p), hard.predict_proba(p), rtol=1e-9)
    np.testing.assert_allclose(soft.class_counts_, weight @ matrix)


def test_one_hot_labels_are_labels_and_a_single_column_has_two_classes():
    p, y = sharpened(100, 3)
    expected = get_calibrator("sms").fit(p, y).predict_proba(p)
    np.testing.assert_allclose(get_calibrator("sms").fit(p, np.eye(3)[y]).predict_proba(p), expected, rtol=1e-9)
    q, t = sharpened(100, 2)
    chances = np.column_stack([1.0 - 0.8 * t, 0.8 * t])
    one, two = (get_calibrator("ts").fit(x, chances) for x in (q[:, 1], q))
    np.testing.assert_allclose(one.predict_proba(q), two.predict_proba(q), rtol=1e-9)


def test_columns_of_a_data_frame_name_the_classes():
    p, matrix = votes(80, 3)
    frame = pd.DataFrame(p, columns=["p_a", "p_b", "p_c"])
    named = pd.DataFrame(matrix[:, [2, 0, 1]], columns=["c", "a", "b"])
    fitted = get_calibrator("ts").fit(frame, named)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(fitted.predict_proba(frame), get_calibrator("ts").fit(p, matrix).predict_proba(p))


def test_losses_are_means_over_votes():
    p, matrix = votes(50, 4)
    total = matrix.sum()
    assert log_loss(matrix, p) == pytest.approx(-(matrix * np.log(p)).sum() / total)
    squares = ((p[:, None, :] - np.eye(4)) ** 2).sum(axis=2)
    assert brier(matrix, p) == pytest.approx((matrix * squares).sum() / total)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones((4, 2)), r"shape \(4, 2\), expected \(4, 3\)"),
        (np.array([["a", "b", "c"]] * 4), "numbers are expected"),
        ([[0.5, 0.5, np.nan]] + [[1, 0, 0]] * 3, "nan at row 0, column 2"),
        ([[1, 0, 0]] * 3 + [[2, -1, 0]], "-1 at row 3, column 1"),
        (np.zeros((4, 3)), "0 sample|no row|weights are zero"),
    ],
)
def test_bad_matrices_are_explained(y, message):
    with pytest.raises(ValueError, match=message):
        get_calibrator("ts").fit(np.full((4, 3), 1 / 3), y)


def test_votes_whose_weight_overflows_are_explained():
    with pytest.raises(ValueError, match="weights sum to inf"):
        get_calibrator("ts").fit([[0.2, 0.8], [0.6, 0.4]], [[1e308, 0.0], [0.0, 1e308]], [10.0, 10.0])


def test_metrics_name_the_row_of_the_predictions_not_of_an_observation():
    p, matrix = votes(20, 3)
    p[5] = [0.5, 0.7, 0.9]
    with pytest.raises(ValueError, match=r"Row 5 of y_prob sums to 2\.1"):
        log_loss(matrix, p)
    with pytest.raises(ValueError, match="weights are zero"):
        log_loss(np.zeros((20, 3)), np.full((20, 3), 1 / 3))


def test_observations_of_votes_and_weights():
    rows, labels, counts = repeated_rows([[3, 1, 0], [0, 0, 1]], 2, 3)
    assert (rows.tolist(), labels.tolist(), counts.tolist()) == ([0, 0, 1], [0, 1, 2], [3.0, 1.0, 1.0])
    found = observations([0, 1, 1], (3, 2), [1.0, 0.0, 2.0])[:3]
    assert [part.tolist() for part in found] == [[0, 2], [0, 1], [1.0, 2.0]]
