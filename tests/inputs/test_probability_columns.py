"""Which columns are found as the probabilities, by names and numbers alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from calibrant.inputs.probability_columns import find_columns
from calibrant.inputs.words import RequestError


def uniform(names: Sequence[str]) -> np.ndarray:
    return np.full((30, len(names)), 1 / max(len(names), 2))


def no_numbers(names: Sequence[str]) -> None:
    return None


@pytest.mark.parametrize("name", ["p_{}", "{}_p", "{}.score", "score {}"])
def test_classes_without_a_row_have_columns_named_alike(name: str) -> None:
    columns = ["id", *(name.format(label) for label in ("owl", "cat", "dog")), "truth"]
    found = find_columns(columns, ["cat", "dog"], peek=uniform, reserved=["truth"])
    assert found.names == tuple(columns[1:4])
    assert found.classes == ("owl", "cat", "dog")
    # Without numbers that sum to one, a third column of that name is something else.
    found = find_columns(columns, ["cat", "dog"], peek=no_numbers, reserved=["truth"])
    assert found.names == tuple(columns[2:4])


def test_labels_themselves_are_the_best_names() -> None:
    found = find_columns(["p_cat", "p_dog", "dog", "cat"], ["cat", "dog"], peek=uniform)
    assert (found.names, found.classes) == (("dog", "cat"), ("dog", "cat"))


def test_of_two_groups_the_one_that_sums_to_one_is_taken() -> None:
    def peek(names: Sequence[str]) -> np.ndarray:
        return uniform(names) if names[0].startswith("p_") else np.full((30, len(names)), 0.9)

    columns = ["p_cat", "p_dog", "n_cat", "n_dog"]
    assert find_columns(columns, ["cat", "dog"], peek=peek).names == ("p_cat", "p_dog")
    with pytest.raises(RequestError, match="several groups of columns may be the probabilities: 'n_cat', 'n_dog'; or"):
        find_columns(columns, ["cat", "dog"], peek=uniform)


@pytest.mark.parametrize(("bad", "found"), [(15, True), (16, False)])
def test_half_of_the_rows_must_be_distributions(bad: int, found: bool) -> None:
    def peek(names: Sequence[str]) -> np.ndarray:
        values = uniform(names)
        values[:bad] = 0.9 if len(names) > 1 else 1.5
        return values

    for columns, labels in ((["score"], ["no", "yes"]), (["q1", "q2"], ["no", "yes"])):
        if found:
            assert find_columns(columns, labels, peek=peek).names == tuple(columns)
        else:
            with pytest.raises(RequestError, match="no columns look like probabilities") as error:
                find_columns(columns, labels, peek=peek)
            assert error.value.hints == (("probs", "logits") if columns == ["score"] else ("probs",))


def test_the_only_label_seen_of_zero_and_one_names_both() -> None:
    found = find_columns(["score"], [1], peek=uniform)
    assert (found.classes, found.by_order) == ((0, 1), False)
    with pytest.raises(RequestError, match=r"single probability column \('score'\) needs two labels, there are 1: '7'"):
        find_columns(["score"], [7], peek=uniform)


def test_certain_predictions_are_probabilities() -> None:
    def peek(names: Sequence[str]) -> np.ndarray:
        return np.eye(2)[np.arange(30) % 2][:, : len(names)]

    assert find_columns(["q1", "q2"], ["no", "yes"], peek=peek).names == ("q1", "q2")
    assert find_columns(["score"], ["no", "yes"], peek=peek).names == ("score",)


def test_a_single_column_may_be_called_like_a_class() -> None:
    found = find_columns(["id", "legit"], ["fraud", "legit"], peek=uniform)
    assert (found.names, found.classes, found.by_order) == (("legit",), ("fraud", "legit"), False)
    # Usual names come first, and zeros and ones alone are the truth, not a probability of it.
    assert find_columns(["fraud", "p_fraud"], ["fraud", "legit"], peek=uniform).names == ("p_fraud",)
    with pytest.raises(RequestError, match="no columns look like probabilities"):
        find_columns(["fraud"], ["fraud", "legit"], peek=lambda names: np.array([[0.0], [np.nan], [1.0]]))
