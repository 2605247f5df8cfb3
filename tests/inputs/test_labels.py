"""Labels of any type that can be told apart, and weights that can be added up; all else is refused in plain words."""

from __future__ import annotations

import datetime
import enum
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrant import CalibrationWarning, effective_counts, get_calibrator
from calibrant.inputs.labels import check_labels, column_numbers, distinct, encode, is_matrix, name_columns
from calibrant.inputs.observations import check_sample_weight
from calibrant.metrics import log_loss

P = np.array([[0.7, 0.3], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8]])
CODES = np.array([0, 1, 1, 1])


class Colour(enum.Enum):
    RED = "z"
    BLUE = "a"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 5


class Animal(str, enum.Enum):  # noqa: UP042 - what people have written for years
    CAT = "cat"
    DOG = "dog"


class Grade(enum.Enum):
    """Compares the other way round than it is defined."""

    GOOD = 2
    BAD = 1

    def __lt__(self, other: Grade) -> bool:
        return bool(self.value < other.value)


DAY = datetime.date(2026, 1, 1)
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)

#: The two labels in the order of their columns.
LABELS: dict[str, tuple[Any, Any]] = {
    "enum": (Colour.RED, Colour.BLUE),
    "int-enum": (Size.SMALL, Size.LARGE),
    "text-enum": (Animal.CAT, Animal.DOG),
    "ordered-enum": (Grade.BAD, Grade.GOOD),
    "date": (DAY, DAY + datetime.timedelta(days=1)),
    "datetime": (MOMENT, MOMENT + HOUR),
    "timedelta": (HOUR, 2 * HOUR),
    "datetime64": (np.datetime64("2026-01-01"), np.datetime64("2026-01-02")),
    "timestamp": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")),
    "large": (2**70, 2**70 + 1),
    "negative-large": (-(2**63) - 1, 2**64),
    "unsigned": (2**63, 2**63 + 1),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("container", [list, lambda y: np.array(y, dtype=object), pd.Series])
def test_labels_that_can_be_told_apart(kind: str, container: Any) -> None:
    pair = LABELS[kind]
    y = container([pair[code] for code in CODES])
    expected = get_calibrator("ts").fit(P, CODES)
    for classes in (None, list(pair)):
        fitted = get_calibrator("ts", classes=classes).fit(P, y)
        np.testing.assert_array_equal(fitted.predict_proba(P), expected.predict_proba(P))
        assert list(fitted.predict(P) == fitted.classes_[1]) == list(expected.predict(P) == 1)
        assert log_loss(y, P, classes=classes) == log_loss(CODES, P)
    names = list(pair) if kind != "datetime64" else None
    if names is not None and container is not pd.Series:
        assert [label == name for label, name in zip(fitted.classes_.tolist(), names)] == [True, True]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"), "missing label: .*NaT.* at row 1"),
        (np.array([1, "NaT"], dtype="timedelta64[s]"), "missing label: .*NaT.* at row 1"),
        ([pd.Timestamp("2026-01-01"), pd.NaT], "missing label: NaT at row 1"),
        ([1.0, np.nan], "missing label: nan at row 1"),
        (pd.Series(["2026-01-01", None], dtype="datetime64[ns]"), "missing label"),
        ([Colour.RED, Size.SMALL], "mixes labels of the types Colour, Size"),
        ([DAY, MOMENT], "mixes labels of the types date, datetime"),
        ([MOMENT, datetime.datetime(2026, 1, 2)], "cannot be sorted or told apart"),
        ([object(), object()], "of type object; such labels cannot be sorted"),
        ([{"a": 1}, {"b": 2}], "of type dict; such labels cannot be sorted"),
        ([2.0**53, 2.0**53 + 2], "too large to be distinguished from its neighbours"),
        ([-1, 2**63], "too large to be distinguished from its neighbours"),
        ([1j, 2j], "Complex data not supported"),
    ],
)
def test_labels_that_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_calibrator("ts").fit(P[:2], y)
    with pytest.raises(ValueError, match=message.replace(" y ", " y_true ")):
        log_loss(y, P[:2])


@pytest.mark.parametrize("classes", [[None, "a"], [np.nan, 1.0], ["a", "a"], ["a"], "a"])
def test_classes_that_do_not_name_every_column(classes: Any) -> None:
    with pytest.raises(ValueError, match="must name each of the 2 columns of X once"):
        get_calibrator("ts", classes=classes)._take_names(np.array(["a"]), 2, 2)


def test_an_array_of_objects_keeps_integers_that_a_list_would_lose() -> None:
    y = np.array([2**63, -1, -1, 2**63], dtype=object)
    assert get_calibrator("ts").fit(P, y).classes_.tolist() == [-1, 2**63]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64])
def test_distinct_labels_of_narrow_and_wide_integers(dtype: type) -> None:
    info = np.iinfo(dtype)
    labels = np.array([info.min, info.max] * 200, dtype=dtype)
    assert distinct(labels).tolist() == [info.min, info.max]
    assert distinct(labels[1::2]).tolist() == [info.max]


def test_distinct_and_encode_are_inverse() -> None:
    labels, _ = check_labels([Colour.BLUE, Colour.RED, Colour.BLUE], 3)
    classes = distinct(labels)
    assert classes.tolist() == [Colour.RED, Colour.BLUE]  # the order of their definition
    assert encode(labels, classes).tolist() == [1, 0, 1]


@pytest.mark.parametrize("weight", [[1e308, 1e308, 1e308, 1e308], [1e101, 1, 1, 1]])
def test_weights_whose_sum_is_too_large(weight: list[float]) -> None:
    for call in (
        lambda: get_calibrator("ts").fit(P, CODES, sample_weight=weight),
        lambda: log_loss(CODES, P, sample_weight=weight),
    ):
        with pytest.raises(ValueError, match=r"sample weights sum to (inf|1e\+101).*Scale them down"):
            call()


def test_weights_whose_sum_is_too_small() -> None:
    for call in (
        lambda: get_calibrator("auto").fit(P, CODES, sample_weight=np.full(4, 5e-324)),
        lambda: log_loss(CODES, P, sample_weight=np.full(4, 5e-324)),
    ):
        with pytest.raises(ValueError, match=r"sample weights sum to 1.98e-323.*Scale them up"):
            call()


def test_large_weights_that_can_be_computed_with() -> None:
    ts = get_calibrator("ts").fit(P, CODES, sample_weight=np.full(4, 1e90))
    assert np.isfinite(ts.predict_proba(P)).all()
    assert check_sample_weight(np.full(4, 1e90), 4) is not None


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 2], "y holds 2 at row 1, which is not in 0..1"),
        ([0, -1], "y holds -1 at row 1"),
        ([0, 0.5], "y holds 0.5 at row 1"),
        ([0, np.nan], "y holds nan at row 1"),
        ([0, 1e300], "y holds 1e.300 at row 1"),
        (["a", "b"], "expected the column numbers"),
        ([0], r"shape \(1,\), expected \(2,\)"),
    ],
)
def test_labels_that_are_no_column_numbers(y: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        column_numbers(y, 2, 2)


def test_column_numbers() -> None:
    for y in ([1, 0], [1.0, 0.0], [True, False], np.array([[1], [0]], dtype=np.uint8)):
        found = column_numbers(y, 2, 2)
        assert found.dtype == np.int64
        assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**63, 2**63], dtype=np.uint64),
        np.array([2**63 - 1, 2**63 - 1, 2**63 - 2]),
        np.array([-(2**63), 2**63 - 1]),
        np.array([3, 1, 1, 3]),
        np.array([2, 0], dtype=np.uint8),
        np.array([], dtype=np.int64),
    ],
)
def test_distinct_integers_are_found_whatever_their_size(labels):
    found = distinct(labels)
    assert found.dtype == labels.dtype
    assert found.tolist() == sorted(set(labels.tolist()))


def test_integers_beyond_64_bits_are_named_exactly():
    labels = np.array([2**63 + 1, -1], dtype=object)
    columns, order = name_columns(labels, 2, classes=[2**63 + 1, -1])  # which NumPy would make floating-point numbers
    assert (columns.tolist(), order) == ([2**63 + 1, -1], None)
    with pytest.raises(ValueError, match=f"holds the label {2**63 + 1}, which classes= does not name"):
        name_columns(labels, 2, classes=[2**63 + 2, -1])


def test_column_numbers_without_zero_are_doubted_if_there_are_more_than_two():
    with pytest.warns(CalibrationWarning, match="lacks the label 0 and 2 of 4 classes"):
        assert name_columns(np.array([1, 2]), 4)[0].tolist() == [0, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert name_columns(np.array([0, 2]), 4)[0].tolist() == [0, 1, 2, 3]
        assert name_columns(np.array([1]), 2)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([[0.2, 0.8]], True),
        (([1, 0], [0, 1]), True),
        ([np.array([1, 0])], True),
        ([], False),
        ([[1], [0]], False),
        (["ab", "cd"], False),
        (np.ones((3, 1)), False),
        (np.ones((1, 2)), True),
    ],
)
def test_matrices_of_labels_have_several_columns(y, expected):
    assert is_matrix(y) is expected


def test_importance_weights_that_are_all_zero_count_nothing():
    with pytest.raises(ValueError, match="All weights are zero"):
        effective_counts([0.0, 0.0])
    np.testing.assert_allclose(effective_counts([0.0, 5.0, 5.0]), [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([7, 8], dtype=np.int8), ["p_8", "p_7"]),
        (np.array([-1, 2**63 + 1], dtype=object), [f"p_{2**63 + 1}", "p_-1"]),
        (np.array(["cat", "dog"]), ["p_dog", "p_cat"]),
    ],
)
def test_labels_keep_their_type_when_columns_name_them(labels, names):
    columns, order = name_columns(labels, 2, names=names)
    assert (columns.tolist(), columns.dtype, order.tolist()) == (labels.tolist(), labels.dtype, [1, 0])
