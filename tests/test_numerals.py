"""Numbers as text: signs, digits and plurals."""

from __future__ import annotations

from calibrant.numerals import amount, class_text, count, near_ends, number, p_text, percent, power_of_ten, signed


def test_numbers_of_tables_have_a_true_minus_sign() -> None:
    assert [number(0.12345), number(-0.5, 2), number(float("nan"))] == ["0.1235", "−0.50", ""]
    assert [signed(value, 2) for value in (0.01, -0.01, 0.0)] == ["+0.01", "−0.01", "0.00"]
    assert power_of_ten(-6) == "10⁻⁶"


def test_shares_near_0_or_1_and_p_values_have_the_digits_that_tell() -> None:
    assert [percent(0.8125), percent(0.00234), percent(0.5, 0)] == ["81.2%", "0.23%", "50%"]
    assert [near_ends(0.25), near_ends(0.99988), near_ends(0.50012, 4)] == ["25.0%", "99.988%", "50.01%"]
    assert p_text(0.2345) == "p = 0.23"


def test_counts_are_rounded_and_named_in_the_plural() -> None:
    assert [count(2070.4), count(3.25)] == ["2,070", "3.2"]
    assert [amount(1, "row"), amount(2070, "row"), amount(3, "class")] == ["1 row", "2,070 rows", "3 classes"]


def test_a_class_that_is_a_number_has_a_word_before_it() -> None:
    assert [class_text("fraud"), class_text(1)] == ["fraud", "class 1"]
