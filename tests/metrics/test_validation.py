"""The table of named tests and measures: each row is what its function says, and every sentence has its case."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from calibrant import metrics
from calibrant.metrics import CalibrationTest, Estimate, ValidationTable, validation_table
from calibrant.metrics.validation import MEASURES, TESTS, ValidationRow

Data = tuple[np.ndarray, np.ndarray]


def binary(shift: float = 0.0, slope: float = 1.0, n: int = 600) -> Data:
    """Labels, and predictions whose log-odds are moved and stretched."""
    rng = np.random.default_rng(1)
    z = rng.normal(0, 1.5, n)
    return (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int), 1 / (1 + np.exp(-slope * z - shift))


def table(y: np.ndarray, p: np.ndarray, **options: object) -> ValidationTable:
    return validation_table(y, p, n_resamples=60, **options)


@cache
def binary_table(shift: float, slope: float) -> ValidationTable:
    return table(*binary(shift, slope), classes=[0, 1])


def test_rows_are_what_their_functions_say() -> None:
    y, p = binary()
    weight, groups = np.random.default_rng(0).integers(1, 4, 600), np.arange(600) // 3
    given = {"sample_weight": weight, "groups": groups}
    found = table(y, p, **given)
    assert [row.name for row in found.rows[:5]] == list(TESTS)
    assert [row.name for row in found.rows[5:]] == ["E:O", "Cox intercept", "Cox slope", *list(MEASURES)[:-1]]
    cox = metrics.cox_calibration(y, p, **given)
    tests = {
        "Hosmer-Lemeshow": metrics.hosmer_lemeshow(y, p, **given),
        "Hosmer-Lemeshow e-test": metrics.hosmer_lemeshow(y, p, e_test=True, **given),
        "split likelihood ratio": metrics.split_likelihood_ratio(y, p, **given),
        "Spiegelhalter z": metrics.spiegelhalter(y, p, **given),
        "Cox joint test": cox.test,
    }
    for name, test in tests.items():
        assert isinstance(test, CalibrationTest)
        assert (found[name].value, found[name].p_value) == (test.statistic, test.p_value)
        assert found[name].n_resamples == test.n_resamples
    measures = {"E:O": metrics.expected_observed_ratio(y, p, **given), "Cox intercept": cox.intercepts[1]}
    measures["Cox slope"] = cox.slope
    for name, (metric, options, _, _) in list(MEASURES.items())[:-1]:
        measures[name] = metrics.confidence_interval(metric, y, p, n_resamples=60, **given, **options)
    for name, one in measures.items():
        assert found[name].value == pytest.approx(one.value)
        assert (found[name].low, found[name].high) == pytest.approx((one.low, one.high), abs=0.05), name
    assert found["E:O"].p_value == metrics.calibration_in_the_large(y, p, **given).p_value[1]


def test_calibrated_predictions() -> None:
    found = binary_table(0.0, 1.0)
    for name in TESTS:
        assert found[name].says == "not enough evidence against calibration"
    assert found["E:O"].says == found["Cox intercept"].says == "the mean of class 1 may be right"
    assert found["Cox slope"].says == "the slope may be right"
    assert found["AUROC"].says == found["Gini"].says == "ranks better than chance"
    assert found["Brier skill score"].says == "better than the class frequencies"
    assert found["ICI"].says == f"off by {found['ICI'].value:.3g} on average, chance included"


@pytest.mark.parametrize(
    ("name", "low", "high", "said"),
    [
        ("AUROC", 0.51, 0.9, "ranks better than chance"),
        ("AUROC", 0.5, 0.9, "not enough evidence that it ranks at all"),
        ("AUROC", 0.1, 0.5, "not enough evidence that it ranks at all"),
        ("AUROC", 0.1, 0.49, "ranks worse than chance"),
        ("Gini", 0.01, 0.4, "ranks better than chance"),
        ("Brier skill score", 0.01, 0.4, "better than the class frequencies"),
        ("scaled Brier score", -0.4, -0.01, "worse than their mean"),
        ("scaled Brier score", np.nan, np.nan, "unknown: too few observations"),
        ("KS", 0.1, 0.2, "the best cut-off separates a class from the rest by 0.123"),
    ],
)
def test_what_an_interval_says(name: str, low: float, high: float, said: str) -> None:
    assert MEASURES[name][2](Estimate(0.12345, low, high, 0.95)) == said


def test_quantiles_of_the_calibration_index_are_those_of_their_names() -> None:
    options = {name: MEASURES[name][1].get("quantile") for name in ("ICI", "E50", "E90", "Emax")}
    assert options == {"ICI": None, "E50": 0.5, "E90": 0.9, "Emax": 1.0}


def test_the_table_as_text_leaves_out_what_is_unknown() -> None:
    rows = (
        ValidationRow("a test", 3.14159, np.nan, np.nan, 0.25, "nothing", "here"),
        ValidationRow("a measure", 0.5, 0.123456, 0.9, np.nan, "something", "there"),
        ValidationRow("the smallest", 9.0, np.nan, np.nan, 0.0025, "off", "nowhere", 399),
    )
    assert ValidationTable(rows, 0.9).table() == [
        ["", "value", "90% interval", "p-value", "what it says", "where it misleads"],
        ["a test", "3.142", "", "0.25", "nothing", "here"],
        ["a measure", "0.5", "0.1235 to 0.9", "", "something", "there"],
        ["the smallest", "9", "", "≤ 0.0025, as small as 399 draws can tell", "off", "nowhere"],
    ]


@pytest.mark.parametrize(
    ("shift", "slope", "said"),
    [
        (1.0, 1.0, {"E:O": "class 1 is predicted too often", "Cox intercept": "class 1 is predicted too often"}),
        (-1.0, 1.0, {"E:O": "class 1 is predicted too rarely", "Cox intercept": "class 1 is predicted too rarely"}),
        (
            0.0,
            3.0,
            {"Cox slope": "too extreme", "Spiegelhalter z": "too extreme: the Brier score is worse than promised"},
        ),
        (0.0, 0.2, {"Cox slope": "too close to the average"}),
        (0.0, 0.2, {"Spiegelhalter z": "too close to the average: the Brier score is better than promised"}),
        (0.0, -1.0, {"AUROC": "ranks worse than chance", "Brier skill score": "worse than the class frequencies"}),
        (0.0, 3.0, {"Hosmer-Lemeshow": "counts in groups of similar predictions are not those expected"}),
        (0.0, 3.0, {"Cox joint test": "intercept or slope is off"}),
        (1.5, 3.0, {"split likelihood ratio": "a map fitted to one half makes the labels of the other more probable"}),
    ],
)
def test_what_it_says(shift: float, slope: float, said: dict[str, str]) -> None:
    found = binary_table(shift, slope)
    assert {name: found[name].says for name in said} == said


def test_many_classes_name_the_one_that_is_off() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 500)
    y = np.array(["a", "b", "c", "d"])[(p.cumsum(axis=1) < rng.random((500, 1))).sum(axis=1)]
    moved = p * [1, 1, 3, 1]
    moved /= moved.sum(axis=1, keepdims=True)
    found = table(y, moved, ordered=True)
    assert found["E:O"].says == found["Cox intercept"].says == "class c is predicted too often"
    exact = metrics.calibration_in_the_large(y, moved)
    assert found["E:O"].p_value == min(1.0, 4 * exact.p_value[2])
    wide = metrics.expected_observed_ratio(y, moved, pos_label="c", level=1 - 0.05 / 4)
    assert (found["E:O"].low, found["E:O"].high) == (wide.low, wide.high)
    assert found["RPS"].value == metrics.ranked_probability_score(y, moved)
    assert len(found.to_dict()["name"]) == len(found.rows) == len(found.table()) - 1


def test_a_p_value_of_several_classes_is_at_most_one() -> None:
    found = validation_table(np.tile([0, 1, 2], 5), np.full((15, 3), 1 / 3), n_resamples=5)
    assert found["E:O"].p_value == 1.0


def test_six_rows_and_one_class_prove_nothing() -> None:
    few = table(np.array([0, 1, 0, 0, 1, 1]), np.array([0.2, 0.7, 0.4, 0.1, 0.9, 0.5]))
    assert {few[name].says for name in TESTS} == {"not enough evidence against calibration"}
    assert few["AUROC"].says == "not enough evidence that it ranks at all"
    assert few["Brier skill score"].says == "not shown to be better than the class frequencies"
    one = table(np.zeros(30, dtype=int), np.full(30, 0.1), classes=[0, 1])
    assert one["AUROC"].says == "unknown: all rows are of one class"
    assert one["E:O"].value == np.inf
    assert one["E:O"].says == "the mean of class 1 may be right"
    with pytest.raises(KeyError):
        few["nothing"]


def test_what_needs_two_classes_says_that_there_is_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.6, 0.99, 120)
    table = validation_table(np.ones(120, dtype=int), np.column_stack([1 - p, p]), classes=[0, 1], n_resamples=20)
    unknown = {row.name for row in table.rows if row.says == "unknown: all rows are of one class"}
    assert unknown == {"Cox slope", "Brier skill score", "AUROC", "Gini", "KS"}
    assert not any("nan" in row.says.split() or "too few" in row.says for row in table.rows)
