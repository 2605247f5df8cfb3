"""Tables and lists of names as text."""

from __future__ import annotations

from calibrant.text_table import aligned, as_cell, encodable, from_cell, list_names


def test_columns_are_aligned_to_the_left_first_and_then_to_the_right() -> None:
    rows = [["method", "rank"], ["ts", "2.0"], ["sms", "1.5"]]
    assert aligned(rows).splitlines() == ["method  rank", "ts       2.0", "sms      1.5"]


def test_a_cell_is_no_formula_and_gives_its_text_back() -> None:
    assert [as_cell("=1+1"), from_cell(as_cell("=1+1")), as_cell("it's plain")] == ["'=1+1", "=1+1", "it's plain"]
    assert encodable("caf\udce9") == r"caf\udce9"


def test_a_long_list_of_names_says_how_many_are_left_out() -> None:
    assert list_names(["a", "b", "c"], limit=2) == "'a', 'b' and 1 more"
    assert list_names(["p_cat = cat", "p_dog = dog"], write=str) == "p_cat = cat, p_dog = dog"
