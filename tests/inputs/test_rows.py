"""The rules for rows against a reading of each number by itself, and the words in which all callers speak of them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from calibrant.files.prediction_sets.experiments import SplitPredictions
from calibrant.inputs.predictions import as_matrix, label_predictions, to_log_probabilities, to_probabilities
from calibrant.inputs.rows import (
    ROUNDING,
    are_percentages,
    complete,
    examine,
    find_fault,
    may_be_probabilities,
    saturate,
    total_of_one,
    whole_of_probabilities,
)
from calibrant.inputs.words import METRIC, Words
from calibrant.metrics import log_loss
from calibrant.simplex import FLOOR, LOG_FLOOR

NUMBERS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.004, 1.5, -0.5, 1e308, math.inf, -math.inf, math.nan]


def usable(row: tuple[float, ...], logits: bool, renormalize: bool) -> bool:
    """The rules of the documentation, number by number."""
    if logits:
        real = [z for z in row if not math.isnan(z) and z < math.inf]
        return len(real) == len(row) and (len(row) == 1 or any(z > -math.inf for z in row))
    if not all(math.isfinite(p) and p >= 0 for p in row):
        return False
    if len(row) == 1:
        return row[0] <= 1 + ROUNDING
    return any(row) if renormalize else abs(sum(row) - 1) <= ROUNDING


def test_a_single_row_is_judged_as_among_others_and_divided_by_the_same_sum() -> None:
    rows = np.array(list(product(NUMBERS, repeat=3)))
    wrong, _ = examine(rows)
    assert [total_of_one(row[None], ROUNDING) is None for row in rows] == wrong.tolist()
    p = np.random.default_rng(0).dirichlet(np.ones(31), 500).round(5)
    together = to_log_probabilities(p, logits=False, renormalize=False, log=None)
    alone = [to_log_probabilities(row[None], logits=False, renormalize=False, log=None)[0] for row in p]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(("logits", "renormalize"), [(False, False), (False, True), (True, False)])
def test_rows_that_can_be_used(columns: int, logits: bool, renormalize: bool) -> None:
    rows = list(product(NUMBERS, repeat=columns))
    wrong, _ = examine(np.array(rows), logits=logits, renormalize=renormalize)
    expected = [not usable(row, logits, renormalize) for row in rows]
    assert wrong.tolist() == expected
    for row in np.array(rows)[~wrong][:200]:
        assert not examine(row[None, :], logits=logits, renormalize=renormalize)[0][0]
        p = complete(row[None, :], logits=logits)
        assert p.shape == (1, max(columns, 2))
        assert p.sum() == pytest.approx(1)
    for row in np.array(rows)[wrong][:200]:
        kind, column, value = find_fault(row, logits=logits, renormalize=renormalize)
        assert kind in ("missing", "infinite", "range", "sum", "impossible")
        assert column is None or row[column] == value or math.isnan(value)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ([0.5, 0.6], "Row 1 of {} sums to 1.1, not to 1"),
        ([np.nan, 0.5], "Input {} contains NaN or infinity: nan at row 1, column 0"),
        ([1.5, -0.5], "{} holds 1.5 at row 1, column 0: probabilities lie between 0 and 1"),
    ],
)
def test_every_caller_speaks_of_its_own_argument(row: list[float], text: str) -> None:
    rows = np.array([[0.5, 0.5], row])
    with pytest.raises(ValueError, match=text.format("X")):
        to_log_probabilities(rows, logits=False, renormalize=False)
    with pytest.raises(ValueError, match=text.format("y_prob")):
        log_loss([0, 1], rows)
    with pytest.raises(ValueError, match=text.format("probas_test in coins.h5")):
        SplitPredictions.checked([0.5], [1], rows, [0, 1], where="coins.h5")


def test_metrics_advise_what_they_can_do() -> None:
    with pytest.raises(ValueError, match="Normalise the rows first"):
        to_probabilities(np.array([[0.5, 0.6]]), words=METRIC)
    with pytest.raises(TypeError, match="the file holds 'x' at row 0"):
        as_matrix(["x"], Words("the file"))


def test_float32_and_exact_rows_are_not_copied() -> None:
    for dtype in (np.float32, np.float64):
        p = np.full((3, 4), 0.25, dtype=dtype)
        assert to_probabilities(p) is p
    rounded = np.array([[0.333, 0.333, 0.333]])
    np.testing.assert_allclose(to_probabilities(rounded), 1 / 3)
    assert rounded[0, 0] == 0.333


def test_logits_at_the_end_of_all_numbers_saturate_without_a_warning() -> None:
    assert saturate(np.array([[1e308, -1e308], [-1e308, 1e308]]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[100.0], [3.0]], True),
        ([[100.1], [3.0]], False),
        ([[10.0]], False),
        ([[10.5], [0.0], [math.nan]], True),
        ([[-0.1], [50.0]], False),
        ([[50.0, 45.0], [1.0, 1.0]], True),
        ([[50.0, 44.9], [1.0, 1.0]], False),
        ([[105.0, 0.0]], True),
        ([[105.1, -0.0]], False),
        ([[math.nan, 1.0]], False),
    ],
)
def test_percentages_are_told_by_their_range_and_sums(values: list[list[float]], expected: bool) -> None:
    assert are_percentages(np.array(values)) is expected


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_rows_have_a_whole_if_all_but_one_in_a_hundred_sum_to_it(whole: float) -> None:
    rows = np.full((101, 2), whole / 2)
    rows[0] = math.nan
    assert whole_of_probabilities(rows) == whole
    rows[1, 0] *= 1.009  # within rounding
    assert whole_of_probabilities(rows) == whole
    rows[1] *= 2
    assert whole_of_probabilities(rows) == whole
    rows[2] *= 2
    assert whole_of_probabilities(rows) == 0.0
    assert whole_of_probabilities(np.array([[-0.5, 1.5]])) == whole_of_probabilities(np.full((9, 1), whole)) == 0.0


def test_logits_saturate_if_nine_of_ten_rows_lead_by_more_than_any_logarithm() -> None:
    far, near = 1.001 - LOG_FLOOR, 0.999 - LOG_FLOOR
    for lead, n_far, expected in ((far, 9, True), (far, 8, False), (near, 10, False)):
        single = np.array([[-lead]] * n_far + [[0.0]] * (10 - n_far))
        assert saturate(single) is saturate(np.hstack([single, np.zeros((10, 1)), single - 5])) is expected
    assert saturate(np.full((3, 1), math.inf)) is False


def test_one_column_of_twenty_numbers_that_could_be_probabilities_may_be() -> None:
    column = np.linspace(0.0, 1.0, 20)[:, None]
    assert may_be_probabilities(column)
    assert may_be_probabilities(100 * column)
    assert not may_be_probabilities(column[1:])
    assert not may_be_probabilities(column - 0.01)
    assert not may_be_probabilities(2 * column)
    assert not may_be_probabilities(np.hstack([column, 1 - column]))


def test_arrays_without_numbers_are_named_by_what_they_lack() -> None:
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 2\)\)"):
        as_matrix(np.empty((0, 2)))
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\)"):
        as_matrix(np.empty((3, 0)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [[0.5, 1.5], [0.2, 0.1]],
            "X holds 1.5 at row 0, column 1: probabilities lie between 0 and 1. Negative values",
        ),
        ([[50.0, 15.0], [0.2, 100.0]], "X holds 50 at row 0, column 0: .* These look like percentages: divide them by"),
        ([[0.5, math.nan]], "Input X contains NaN: nan at row 0, column 1"),
    ],
)
def test_probabilities_of_labels_are_checked_one_by_one(values: list[list[float]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        label_predictions(np.array(values))


def test_labels_may_be_log_odds() -> None:
    off, on, _ = label_predictions(np.array([[0.0, -800.0, 2.0, math.inf, -math.inf]]), logits=True)
    np.testing.assert_allclose(on, [[0.5, FLOOR, 1 / (1 + math.exp(-2)), 1.0, FLOOR]], rtol=1e-15)
    np.testing.assert_allclose(off, [[0.5, 1.0, 1 / (1 + math.exp(2)), FLOOR, 1.0]], rtol=1e-15)


def test_masked_arrays_are_arrays_unless_a_value_is_masked() -> None:
    assert as_matrix(np.ma.array([[0.5, 0.5]]))[0].tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="Input X contains NaN: a masked value at row 0, column 1"):
        as_matrix(np.ma.array([[0.5, 0.5]], mask=[[False, True]]))


def test_a_row_is_divided_by_its_sum_and_a_single_column_is_that_of_the_second_class() -> None:
    assert complete(np.array([[1.0, 3.0]])).tolist() == [[0.25, 0.75]]
    assert complete(np.array([[0.25]])).tolist() == [[0.75, 0.25]]
