"""One rule for levels: a value finds its level by its text, or by the number, Boolean or date that it spells."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calibrant import CalibrationWarning, SegmentedCalibrator, runtime
from calibrant.inputs.segments import (
    SeenLevels,
    numbers_if_all_are,
    places_of,
    plain_number,
    read_segments,
    segment_numbers,
    texts_of,
)
from calibrant.steps import Columns

DAY = datetime.date(2024, 1, 31)
NOON = datetime.datetime(2024, 1, 31, 12)


def places(values, levels):
    """The level of each value, None for an unknown one."""
    frame = read_segments({"x": values}, len(values))
    numbers = segment_numbers(frame, {"x": levels})[:, 0].astype(int)
    return [levels[number] if number >= 0 else None for number in numbers]


def test_places_of_levels_in_the_spellings_of_other_programs():
    found = places_of(["007", "3.00", "True", "north"])
    assert found == {"007": 0, "3.00": 1, "True": 2, "north": 3, "7": 0, "3": 1, "true": 2, "TRUE": 2}
    assert places_of(["007", "7", "08", "8.0"]) == {"007": 0, "7": 1, "08": 2, "8.0": 3}


def test_numbers_of_segments_that_are_unknown_or_missing():
    frame = {"region": np.array(["b", "c"]), "age": np.array([31.0, np.nan])}
    assert segment_numbers(frame, {"region": ["a", "b"], "age": None}).tolist() == [[1.0, 31.0], [-1.0, -1e100]]


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


@pytest.mark.parametrize(
    "column",
    [
        np.array([0, 3, 7]),
        np.array([0, 3, 7], dtype=np.uint8),
        np.array([0.0, 3.0, 7.0]),
        np.array([0, 3, 7], dtype=np.float32),
        np.array(["0", "3", "7"]),
        np.array(["0.00", "3.00", "7.00"]),
        np.array(["000", "003", "007"]),
        np.array(["-0", "03.0", "7."]),
        objects(Decimal("0.00"), Decimal("3.00"), Decimal("7E+0")),
        objects(0, Decimal("3.00"), 7.0),
        objects("0.00", 3, np.float32(7)),
        pd.Series([0, 3, 7], dtype="Int64"),
        pd.Series([0, 3, 7], dtype="category"),
        pd.Series(["000", "003", "007"], dtype="category"),
        pl.Series([Decimal("0.00"), Decimal("3.00"), Decimal("7.00")]),
        pl.Series(["0", "3", "7"], dtype=pl.Categorical),
    ],
)
@pytest.mark.parametrize("levels", [["0", "3", "7"], ["0.00", "3.00", "7.00"], ["000", "003", "007"]])
def test_numbers_are_found_whatever_their_type_and_spelling(column, levels):
    assert places(column, levels) == levels


def test_codes_stay_apart_where_both_are_levels():
    levels = ["007", "7", "7.0", "north"]
    values = objects("007", "7", "7.0", 7, 7.0, Decimal("7.00"), "07", "north", "North", "7-", "0-7", "7e0", " 7")
    assert places(values, levels) == ["007", "7", "7.0", "7", "7", "7", "7", "north", None, None, None, None, None]
    # Two levels of the same number, neither spelled so: nobody can tell.
    assert places(objects("07", "007", 7, "7.0"), ["07", "007"]) == ["07", "007", None, None]


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1e-05, "0.00001", "1e-05", np.float32(1e-5), Decimal("0.00001")], ["1e-05"] * 5),
        ([0.1, np.float32(0.1), np.float16(0.1), Decimal("0.10"), "0.10", ".1", "00.1"], ["0.1"] * 7),
        ([-2.5, "-2.50", "-02.5", Decimal("-2.500")], ["-2.5"] * 4),
        ([2**63 + 1, str(2**63 + 1), Decimal(2**63 + 1), f"0{2**63 + 1}", 2**63], [str(2**63 + 1)] * 4 + [None]),
        ([True, np.True_, "true", "TRUE", "True", "tRUE", 1], ["True"] * 5 + [None] * 2),
        (
            [DAY, datetime.datetime(2024, 1, 31), pd.Timestamp(DAY), "2024-01-31", "2024-01-31 00:00:00"],
            ["2024-01-31"] * 5,
        ),
        ([NOON, pd.Timestamp(NOON), "2024-01-31 12:00:00", DAY], ["2024-01-31 12:00:00"] * 3 + [None]),
        ([None, np.nan, pd.NA, pd.NaT, "", "nan", Decimal("NaN"), Decimal("sNaN"), 0], [""] * 8 + [None]),
        ([np.inf, Decimal("Infinity"), -np.inf], ["inf", "inf", None]),
    ],
)
def test_values_of_every_type(values, levels):
    known = next(level for level in levels if level is not None)
    assert places(objects(*values), [known, "another"]) == levels


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_of_numpy(unit):
    column = np.array(["2024-01-31", "2024-02-01", "NaT"], dtype=f"M8[{unit}]")
    assert places(column, ["", "2024-01-31", "2024-02-01 00:00:00"]) == ["2024-01-31", "2024-02-01 00:00:00", ""]


def test_plain_numbers_are_equal_as_fractions_are():
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(1000):
        text = "".join(rng.choice(list("0012-.")) for _ in range(int(rng.integers(1, 7))))
        try:
            exact = None if text.startswith("+") else Fraction(text)
        except ValueError:
            exact = None
        plain = plain_number(text)
        if not plain:  # Fraction knows no number that ends with a point in every version of Python
            assert exact is None
            continue
        seen += 1
        assert Fraction(plain) == Fraction(text.rstrip(".") if text.endswith(".") else text)
        assert plain == plain_number(plain)
        assert not (plain.startswith(("00", "-0")) and not plain.startswith("-0.")) or plain == "0"
    assert seen > 300
    assert [plain_number(text) for text in (".5", "-0", "1e5", "1-2", "")] == ["0.5", "0", "", "", ""]


@cache
def fitted(spelled, n=200):
    """Levels that matter, since the second class is three times as likely in the first of them."""
    rng = np.random.default_rng(0)
    p, code = rng.random(n), rng.integers(0, 3, n)
    odds = p / (1 - p) * np.where(code == 0, 4.0, 0.5)
    y = rng.random(n) < odds / (1 + odds)
    frame = pd.DataFrame({"x": SPELLED[spelled](code)})
    return SegmentedCalibrator("ts", strength=1.0, trees=False).fit(p, y, segments=frame), p, code


SPELLED = {
    "int": lambda code: code + 3,
    "float": lambda code: code + 3.0,
    "float32": lambda code: (code + 3.0).astype(np.float32),
    "decimal": lambda code: objects(*(Decimal(f"{c + 3}.00") for c in code)),
    "text": lambda code: objects(*(str(c + 3) for c in code)),
    "padded": lambda code: objects(*(f"00{c + 3}" for c in code)),
    "decimals": lambda code: objects(*(f"{c + 3}.00" for c in code)),
    "categorical": lambda code: pd.Categorical(code + 3),
    "nullable": lambda code: pd.array(code + 3, dtype="Int64"),
}


@pytest.mark.parametrize("then", SPELLED)
@pytest.mark.parametrize("now", SPELLED)
def test_any_type_in_fit_and_any_in_prediction(then, now):
    calibrator, p, code = fitted(then)
    expected = calibrator.predict_proba(p, segments=pd.DataFrame({"x": SPELLED[then](code)}))
    assert np.abs(expected - calibrator.calibrator_.predict_proba(p)).max() > 0.1
    frame = pd.DataFrame({"x": SPELLED[now](code)})
    for again in (calibrator, calibrator.to_map()):
        np.testing.assert_array_equal(again.predict_proba(p, segments=frame), expected)


def test_many_decimals_are_numbers_and_many_categories_are_levels():
    rng = np.random.default_rng(0)
    p, y, x = rng.random(100), rng.random(100) < 0.5, np.arange(100) % 20
    for column, numeric in (
        (objects(*map(Decimal, x.tolist())), True),
        (pd.Categorical(x), False),
        (objects(*map(str, x)), False),
    ):
        found = SegmentedCalibrator("none", trees=False).fit(p, y, segments=pd.DataFrame({"x": column}))
        assert (found.segment_columns_["x"].dtype.kind == "f") is numeric


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            0,
            r"None of 40 rows has a known level of 'x': the global map is used\. Found: 'e0', .*'e4' and others",
        ),
        (1, r"Only 1 of 40 rows has a known level of 'x': the global map is used for the others\. Found: 'e0'"),
        (3, r"Only 3 of 40 rows have a known level .* Known: '3', '4', '5'\.$"),
        (4, None),
        (40, None),
    ],
)
def test_a_warning_names_levels_where_hardly_any_is_known(known, message):
    calibrator, p, _ = fitted("int")
    column = objects(*([3] * known), *(f"e{i}" for i in range(40 - known)))
    for again, kind in ((calibrator, CalibrationWarning), (calibrator.to_map(), UserWarning)):
        if message is None:
            again.predict_proba(p[:40], segments={"x": column})
        else:
            with pytest.warns(kind, match=message):
                again.predict_proba(p[:40], segments={"x": column})
        again.predict_proba(p[:19], segments={"x": column[-19:] if known < 20 else column[:19]})  # too few to tell


def test_whole_decimals_have_all_their_digits_up_to_a_limit_and_then_those_of_floats():
    assert texts_of(objects(Decimal(10) ** 30)) == ["1" + "0" * 30]
    assert texts_of(objects(Decimal(2) * 10**30)) == texts_of(np.array([2e30]))
    assert texts_of(objects(Decimal("3.00"), True, "3.00")) == ["3", "True", "3.00"]
    assert texts_of(np.array([0.1, np.nan], dtype=np.float32)) == ["0.1", ""]


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_long_levels_are_cut_in_a_warning(length, shown):
    seen = SeenLevels({"x": ["north"]})
    seen.add({"x": np.array(["x" * length] * 20)})
    assert seen.notes() == [
        f"None of 20 rows has a known level of 'x': the global map is used. Found: '{shown}'. Known: 'north'."
    ]


def test_a_warning_is_short_whatever_the_levels_are():
    levels = [f"{i} " + "x" * 1000 for i in range(1000)]
    map_ = runtime.Map(["a", "b"], [Columns(np.array([0, 1]))], segments={"x": levels, "n": None})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        map_.predict_proba(
            np.full(50, 0.5), segments={"x": [f"{text}!" for text in levels[:50]], "n": np.full(50, -1.0)}
        )
    assert len(caught) == 1
    assert len(str(caught[0].message)) < 700
    with pytest.warns(UserWarning, match="Found: missing"):
        map_.predict_proba(np.full(50, 0.5), segments={"x": [None] * 50, "n": np.full(50, -1.0)})


@pytest.mark.parametrize(
    ("segments", "name"),
    [
        (pd.Series(["a", "b"], name="region"), "region"),
        (pd.Series(["a", "b"]), "segment"),
        (["a", "b"], "segment"),
        (pd.DataFrame({7: ["a", "b"]}), "7"),
        (pl.DataFrame({"region": ["a", "b"]}), "region"),
        ({"region": ["a", "b"]}, "region"),
        (np.array([["a"], ["b"]]), "0"),
    ],
)
def test_segments_are_columns_however_they_are_given(segments, name):
    found = read_segments(segments, 2)
    assert {key: list(column) for key, column in found.items()} == {name: ["a", "b"]}


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["3.00", "", "-2"], True),
        (["007", "7"], False),
        (["-01", "7"], False),
        (["0.5", "0"], True),
        (["north", "7"], False),
        (["1E5", "2", "3"], False),  # few, in a spelling of their own: levels
        (["1E5", "2", "3", "4"], True),
    ],
)
def test_cells_of_files_are_numbers_if_all_are_and_none_is_a_code(cells, numeric):
    found = numbers_if_all_are(np.array(cells, dtype=object), 3)
    assert (found.dtype.kind == "f") is numeric
    assert found.tolist() == cells or found.tolist() == pytest.approx([float(c or "nan") for c in cells], nan_ok=True)
