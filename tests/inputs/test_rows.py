"""The rules for rows against a reading of each number by itself, and the words in which all callers speak of them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from calibrant.files.prediction_sets.experiments import SplitPredictions
from calibrant.inputs.predictions import as_matrix, to_log_probabilities, to_probabilities
from calibrant.inputs.rows import ROUNDING, complete, examine, find_fault, saturate, total_of_one
from calibrant.inputs.words import METRIC, Words
from calibrant.metrics import log_loss

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
