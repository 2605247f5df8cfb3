"""Costs of actions: expected costs, ties, amounts, other orders of classes, and what a file may hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.steps.actions import CostTable, cheapest, column_cells, costs_of_rows

ROWS = [[0.0, "loss"], [2.0, 0.5], ["fee", 1.0]]
TABLE = costs_of_rows(ROWS, ["lend", "refuse", "ask"], ["good", "bad"])
AMOUNTS = {"loss": np.array([10.0, 0.0]), "fee": np.array([1.0, 3.0])}
P = np.array([[0.9, 0.1], [0.25, 0.75]])


def test_expected_costs_are_sums_over_classes() -> None:
    expected = [
        [p[0] * 0.0 + p[1] * loss, p[0] * 2.0 + p[1] * 0.5, p[0] * fee + p[1] * 1.0]
        for p, loss, fee in zip(P, AMOUNTS["loss"], AMOUNTS["fee"])
    ]
    np.testing.assert_allclose(TABLE.expected(P, AMOUNTS), expected)
    assert TABLE.rows() == ROWS
    assert TABLE.names == ["lend", "refuse", "ask"]
    assert costs_of_rows([[0.0, 1.0], [1.0, 0.0]], None, None).names == [0, 1]
    assert np.isnan(costs_of_rows([[None, 1.0], [1.0, "x"]], None, None).numbers[0, 0])


def test_the_first_of_equally_cheap_actions_is_taken() -> None:
    costs = np.array([[1.0, 1.0 - 1e-10, 2.0], [1.0, 1.0 - 1.5e-9, 2.0], [3.0, 2.0, 2.0], [3.0, 0.0, 0.0]])
    assert cheapest(costs).tolist() == [0, 1, 1, 1]


def test_columns_in_another_order() -> None:
    turned = TABLE.ordered([1, 0], ["bad", "good"])
    np.testing.assert_allclose(turned.expected(P[:, ::-1], AMOUNTS), TABLE.expected(P, AMOUNTS))
    assert turned.names == TABLE.names
    assert turned.classes == ["bad", "good"]
    square = costs_of_rows([[0.0, 1.0], [2.0, 0.0]], None, None)
    assert square.ordered([0, 1], ["a", "b"]).names == ["a", "b"]
    wide = costs_of_rows([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], None, None)
    assert wide.ordered([0, 1], ["a", "b"]).names == [0, 1, 2]


def test_amounts_are_one_number_for_each_row() -> None:
    found = TABLE.check_amounts({**AMOUNTS, "other": [1]}, 2)
    assert {name: values.tolist() for name, values in found.items()} == {"loss": [10.0, 0.0], "fee": [1.0, 3.0]}
    for given, message in (
        (None, "name the amount 'loss', which was not given"),
        ({"loss": [1.0, 2.0]}, "name the amount 'fee', which was not given"),
        ({**AMOUNTS, "fee": [1.0]}, r"'fee' has shape \(1,\), there are 2 rows"),
        ({**AMOUNTS, "fee": [1.0, -0.5]}, "'fee' is -0.5 in row 1"),
        ({**AMOUNTS, "loss": [np.inf, 1.0]}, "'loss' is inf in row 0"),
        ({**AMOUNTS, "loss": [1.0, np.nan]}, "'loss' is nan in row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            TABLE.check_amounts(given, 2)


def test_a_file_holds_what_was_given() -> None:
    again = CostTable.from_json(TABLE.to_json(), ["good", "bad"])
    assert again.rows() == ROWS
    assert again.names == TABLE.names
    mixed = costs_of_rows([[0.0, 1e100], [1.0, 0.0]], [1, "ask"], None)
    assert mixed.to_json() == {"costs": [[0.0, 1e100], [1.0, 0.0]], "actions": [1, "ask"]}
    assert CostTable.from_json(mixed.to_json(), [0, 1]).numbers[0, 1] == 1e100
    assert costs_of_rows([[0.0], [1.0]], [None, (1, 2)], None).to_json()["actions"] == ["None", "(1, 2)"]
    assert column_cells([0, 1, "ask"]) == ["0", "1", "ask"]
    assert column_cells([0, 1]) == [0, 1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "should hold costs and actions"),
        ({"costs": []}, "should hold costs and actions"),
        ({"costs": [[0.0, 1.0]], "actions": ["a"]}, "at least two actions"),
        ({"costs": [[0.0, 1.0], [1.0]], "actions": ["a", "b"]}, "a column for each class"),
        ({"costs": [[0.0, 1.0], 1.0], "actions": ["a", "b"]}, "a column for each class"),
        ({"costs": [[0.0, -1.0], [1.0, 0.0]], "actions": ["a", "b"]}, "numbers from 0 to 1e"),
        ({"costs": [[0.0, 2e100], [1.0, 0.0]], "actions": ["a", "b"]}, "numbers from 0 to 1e"),
        ({"costs": [[0.0, True], [1.0, 0.0]], "actions": ["a", "b"]}, "numbers from 0 to 1e"),
        ({"costs": [[0.0, 1.0], [1.0, 0.0]], "actions": ["a", "a"]}, "one name per row"),
        ({"costs": [[0.0, 1.0], [1.0, 0.0]], "actions": ["a"]}, "one name per row"),
        ({"costs": [[0.0, 1.0], [1.0, 0.0]], "actions": ["a", "b", "c"]}, "one name per row"),
        ({"costs": [[0.0, 1.0], [1.0, 0.0]], "actions": ["a", None]}, "one name per row"),
        ({"costs": [[0.0, 1.0], [1.0, 0.0]], "actions": "ab"}, "one name per row"),
    ],
)
def test_what_is_no_rule_in_a_file_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CostTable.from_json(value, ["good", "bad"])
