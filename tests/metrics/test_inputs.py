"""What metrics accept and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import accuracy, brier, evaluate, log_loss
from tests.needs import needs

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
Y = np.array([0, 1, 2, 1])


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_class(shape: tuple[int, ...]) -> None:
    p = np.array([0.2, 0.9, 0.4])
    assert log_loss([0, 1, 1], p.reshape(shape)) == log_loss([0, 1, 1], np.column_stack([1 - p, p]))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "c", "a"], ["b", "a", "c"]),
        ([10, 20, 5, 20], [10, 20, 5]),
        ([True, False, True, False], None),
        ([1, 2, 3, 2], None),
        ([-1, 0, 1, 0], None),
        (["x", "y", "z", "y"], None),
        ([0.0, 1.0, 2.0, 1.0], None),
    ],
)
def test_labels_of_any_kind(y: list, classes: list | None) -> None:
    p = P if len(set(y)) == 3 else P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    wanted = Y if len(set(y)) == 3 else np.array([1, 0, 1, 0])
    assert log_loss(y, p, classes=classes) == log_loss(wanted, p)


def test_absent_class_keeps_its_column() -> None:
    assert accuracy([0, 2, 2, 0], P) == 0.75
    with pytest.warns(CalibrationWarning, match="lacks the label 0"):
        assert accuracy([1, 1, 2, 1], P) == 0.5


def test_data_frame_columns_are_matched_by_name() -> None:
    pandas = needs("pandas")
    frame = pandas.DataFrame(P[:, [2, 0, 1]], columns=["p_c", "p_a", "p_b"])
    assert log_loss(["a", "b", "c", "b"], frame) == log_loss(Y, P)


@pytest.mark.torch
def test_tensors() -> None:
    torch = needs("torch")
    assert brier(torch.tensor(Y), torch.tensor(P, requires_grad=True)) == brier(Y, P)
    coarse = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]
    assert brier([0, 2], torch.tensor(coarse, dtype=torch.bfloat16)) == brier([0, 2], coarse)


def test_integers_as_certain_probabilities() -> None:
    assert brier([0, 1], [[1, 0], [1, 0]]) == 0.5


def test_rounded_rows_are_normalised_and_float32_is_not_touched() -> None:
    assert brier(Y, P * 1.0004) == pytest.approx(brier(Y, P), abs=1e-12)
    single = P.astype(np.float32)
    exact = np.mean(np.sum((single.astype(np.float64) - np.eye(3)[Y]) ** 2, axis=1))
    assert brier(Y, single) == pytest.approx(exact, abs=1e-15)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        (Y, np.where(np.arange(12).reshape(4, 3) == 5, np.nan, P), "nan at row 1, column 2"),
        (Y, np.where(np.arange(12).reshape(4, 3) == 5, -0.1, P), "-0.1 at row 1, column 2"),
        ([0, 1], [0.3, 1.2], "1.2 at row 1"),
        (Y, P * [[1], [1], [1.1], [1]], "Row 2 of y_prob sums to 1.1"),
        (Y[:3], P, "y_prob has 4 rows, y_true has 3"),
        ([0, 1, 2, 3], P, "no column stands for the label 3"),
        (["a", "b", "a", "b"], P, "classes="),
        ([0.2, 0.7], [0, 1], "Labels come first"),
        (P, Y, "Labels come first"),
        ([0, 1], np.empty((0, 2)), "0 sample"),
        ([0, np.nan], [0.1, 0.2], "row 1"),
        (None, [0.1, 0.2], "y_true is None"),
    ],
)
def test_errors_say_what_and_where(y: object, p: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_loss(y, p)  # type: ignore[arg-type]


def test_what_is_not_a_number_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"y_prob holds 'half' at row 1"):
        log_loss([0, 1], np.array([0.1, "half"], dtype=object))


@pytest.mark.parametrize(
    ("weight", "message"),
    [([1, 1, -1, 1], "row 2"), ([1, np.nan, 1, 1], "row 1"), ([1, 1], r"expected \(4,\)"), ([0, 0, 0, 0], "zero")],
)
def test_bad_weights(weight: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_loss(Y, P, sample_weight=weight)


def test_inputs_are_left_alone() -> None:
    y, p = Y.copy(), np.asfortranarray(P)
    y.flags.writeable = p.flags.writeable = False
    for name in ("log_loss", "brier", "ece", "auroc", "smooth_ece", "kuiper"):
        lists = metrics.evaluate(Y.tolist(), P.tolist(), [name])
        assert metrics.evaluate(y, p, [name])[name] == pytest.approx(lists[name], abs=1e-15)


def test_rows_with_an_ignored_label_are_left_out() -> None:
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    found = evaluate([0, 1, 255], p, ["log_loss"], ignore_index=255)
    assert found == evaluate([0, 1], p[:2], ["log_loss"])
