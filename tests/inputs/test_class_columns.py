"""Names and order of columns mean the same in Python as in files, and what cannot be right is refused with advice."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, softmax

from calibrant import CalibrationWarning, get_calibrator, load, metrics
from calibrant.inputs.class_columns import are_numbered, classes_of_names
from tests.cli.test_commands import ok, run

RNG = np.random.default_rng(0)
N = 400
RISK = expit(2.0 * RNG.normal(size=N) - 1.0)
OUTCOME = np.where(RNG.random(N) < RISK, "defaulted", "paid")
Z = RNG.normal(size=(N, 3))
P = softmax(2.0 * Z, axis=1)
CODES = (softmax(Z, axis=1).cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
ANIMALS = np.array(["bird", "cat", "dog"])


@pytest.mark.parametrize(
    ("method", "kind"), [("auto", "pandas"), ("isotonic", "pandas"), ("ts", "series"), ("ts", "polars")]
)
def test_a_single_column_is_that_of_the_class_it_is_named_after(tmp_path: Path, kind: str, method: str) -> None:
    frame = pd.DataFrame({"p_defaulted": RISK, "outcome": OUTCOME})
    one = {
        "pandas": frame[["p_defaulted"]],
        "series": frame["p_defaulted"],
        "polars": pl.DataFrame({"p_defaulted": RISK}),
    }
    with pytest.warns(CalibrationWarning, match="in the order 'paid', 'defaulted'"):
        fitted = get_calibrator(method).fit(one[kind], frame["outcome"])
    assert fitted.classes_.tolist() == ["paid", "defaulted"]
    expected = get_calibrator(method).fit(RISK, OUTCOME == "defaulted").predict_proba(RISK)
    np.testing.assert_array_equal(fitted.predict_proba(one[kind]), expected)
    # The command line reads the same file in the same way.
    frame.to_csv(tmp_path / "t.csv", index=False)
    ok("fit", tmp_path / "t.csv", "--label", "outcome", "-m", method, "-o", tmp_path / "c.json")
    stored = load(tmp_path / "c.json")
    assert stored.classes_.tolist() == ["paid", "defaulted"]
    np.testing.assert_allclose(stored.predict_proba(one[kind]), expected, atol=1e-12)


def test_a_number_at_the_end_of_a_name_is_checked() -> None:
    """It may be that of a class or that of the column: whichever does not fit the labels is refused."""
    y = (OUTCOME == "defaulted").astype(int)
    with pytest.raises(ValueError, match=r"x_0 = 0 is far worse than x_0 = 1.*classes=") as refused:
        get_calibrator("ts").fit(pd.DataFrame({"x_0": RISK}), y)
    assert "both labels, that of the column last" in str(refused.value)
    fitted = get_calibrator("ts", classes=[0, 1]).fit(pd.DataFrame({"x_0": RISK}), y)
    expected = get_calibrator("ts").fit(RISK, y).predict_proba(RISK)
    np.testing.assert_array_equal(fitted.predict_proba(pd.DataFrame({"x_0": RISK})), expected)
    with pytest.warns(CalibrationWarning, match="in the order 1, 0"):
        fitted = get_calibrator("ts").fit(pd.DataFrame({"p_0": 1 - RISK}), y)
    np.testing.assert_allclose(fitted.predict_proba(1 - RISK)[:, ::-1], expected, atol=1e-9)


def test_metrics_read_a_single_named_column_likewise() -> None:
    expected = metrics.log_loss(OUTCOME == "defaulted", RISK)
    for column in (pd.DataFrame({"p_defaulted": RISK}), pd.Series(RISK, name="p_defaulted")):
        assert metrics.log_loss(OUTCOME, column) == pytest.approx(expected, abs=1e-12)


def test_the_other_class_is_refused_in_predict() -> None:
    with pytest.warns(CalibrationWarning, match="sorted order"):
        fitted = get_calibrator("ts").fit(pd.DataFrame({"p_defaulted": RISK}), OUTCOME)
    with pytest.raises(ValueError, match="'p_paid'; the probability of 'defaulted' is expected, not that of 'paid'"):
        fitted.predict_proba(pd.DataFrame({"p_paid": 1 - RISK}))
    renamed = fitted.predict_proba(pd.DataFrame({"score": RISK}))
    np.testing.assert_array_equal(renamed, fitted.predict_proba(RISK))


@pytest.mark.parametrize("pattern", ["{}", "p_{}", "{}_prob", "P({})", "model {} score"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_permuted_columns_are_matched_by_name(pattern: str, order: list[int]) -> None:
    y = ANIMALS[CODES]
    frame = pd.DataFrame(P[:, order], columns=[pattern.format(name) for name in ANIMALS[order]])
    fitted, expected = get_calibrator("sms").fit(frame, y), get_calibrator("sms").fit(P, y)
    np.testing.assert_array_equal(fitted.classes_, ANIMALS)
    np.testing.assert_allclose(fitted.predict_proba(frame), expected.predict_proba(P), atol=1e-12)
    shuffled = frame[frame.columns[::-1]]
    np.testing.assert_allclose(fitted.predict_proba(shuffled), expected.predict_proba(P), atol=1e-12)
    assert metrics.log_loss(y, frame) == pytest.approx(metrics.log_loss(y, P), abs=1e-12)


def test_numbers_in_names_are_those_of_the_labels() -> None:
    p = np.random.default_rng(1).dirichlet(np.full(12, 0.2), 600)
    codes = (p.cumsum(axis=1) > np.random.default_rng(2).random((600, 1))).argmax(axis=1)
    y = np.array([f"class_{code}" for code in codes])  # sorted as text, class_10 comes before class_2
    frame = pd.DataFrame(p, columns=[f"p_{j}" for j in range(12)])
    assert metrics.log_loss(y, frame) == pytest.approx(metrics.log_loss(codes, p), abs=1e-12)


@pytest.mark.parametrize("names", [["p_1", "p_0", "p_2"], ["p_7", "p_3", "p_5"]])
def test_numbers_out_of_order_are_refused_and_the_advice_helps(names: list[str]) -> None:
    frame = pd.DataFrame(P, columns=names)
    with pytest.raises(ValueError, match=r"Cannot tell which label.*as an array together with classes=") as refused:
        get_calibrator("ts").fit(frame, ANIMALS[CODES])
    assert "'bird', 'cat', 'dog'" in str(refused.value)
    fitted = get_calibrator("ts", classes=list(ANIMALS)).fit(frame.to_numpy(), ANIMALS[CODES])
    expected = get_calibrator("ts").fit(P, CODES)
    np.testing.assert_array_equal(fitted.predict_proba(P), expected.predict_proba(P))


def test_an_order_that_does_not_fit_the_labels_is_refused_and_the_advice_helps() -> None:
    frame = pd.DataFrame(P[:, [2, 0, 1]], columns=["first", "second", "third"])
    with pytest.raises(ValueError, match="first = bird, second = cat, third = dog is far worse than first = dog") as no:
        get_calibrator("ts").fit(frame, ANIMALS[CODES])
    assert "Pass classes=[...] with the label of each column." in str(no.value)
    with pytest.warns(CalibrationWarning, match="far worse than first = dog, second = bird, third = cat"):
        metrics.log_loss(ANIMALS[CODES], frame)
    with pytest.warns(CalibrationWarning, match="sorted order"):
        fitted = get_calibrator("ts", classes=["dog", "bird", "cat"]).fit(frame, ANIMALS[CODES])
    expected = get_calibrator("ts").fit(P, CODES).predict_proba(P)
    np.testing.assert_allclose(fitted.predict_proba(frame)[:, [1, 2, 0]], expected, atol=1e-12)
    # In the right order the same names pass.
    get_calibrator("ts").fit(pd.DataFrame(P, columns=["first", "second", "third"]), ANIMALS[CODES])


def test_a_score_of_the_first_class_is_refused_and_the_advice_helps() -> None:
    score = pd.Series(RISK, name="score")
    with pytest.raises(ValueError, match=r"score = paid is far worse than score = defaulted.*both labels") as refused:
        get_calibrator("ts").fit(score, OUTCOME)
    assert "the column last" in str(refused.value)
    with pytest.warns(CalibrationWarning, match="sorted order"):
        fitted = get_calibrator("ts", classes=["paid", "defaulted"]).fit(score, OUTCOME)
    expected = get_calibrator("ts").fit(RISK, OUTCOME == "defaulted")
    np.testing.assert_array_equal(fitted.predict_proba(score), expected.predict_proba(RISK))


def test_metrics_of_classes_in_another_order_are_right_if_told() -> None:
    with pytest.warns(CalibrationWarning, match=r"pass them classes=calibrator\.classes_") as caught:
        fitted = get_calibrator("ts", classes=["paid", "defaulted"]).fit(RISK, OUTCOME)
    assert len(caught) == 1
    q = fitted.predict_proba(RISK)
    right = metrics.log_loss(OUTCOME == "defaulted", q)
    assert metrics.log_loss(OUTCOME, q, classes=fitted.classes_) == pytest.approx(right, abs=1e-12)
    assert metrics.log_loss(OUTCOME, pd.DataFrame(q, columns=fitted.classes_)) == pytest.approx(right, abs=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_calibrator("ts", classes=["defaulted", "paid"]).fit(1 - RISK, OUTCOME)


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_probabilities_are_no_logits_and_the_advice_helps(whole: float) -> None:
    with pytest.raises(ValueError, match=rf"sum to {whole:g} .*probabilities, not logits\. Leave out") as refused:
        get_calibrator("ts", input="logits").fit(whole * P, CODES)
    assert ("divide by 100" in str(refused.value)) is (whole == 100.0)
    with pytest.raises(ValueError, match="probabilities, not logits"):
        get_calibrator("ts", input="logits").fit_batches((whole * P, CODES))
    fitted = get_calibrator("ts").fit(P, CODES)
    same = get_calibrator("ts", input="logits").fit(np.log(P), CODES)  # log-probabilities are logits
    np.testing.assert_allclose(same.predict_proba(np.log(P)), fitted.predict_proba(P), atol=1e-9)


def test_a_single_column_of_logits_without_a_negative_number_is_doubted() -> None:
    with pytest.warns(CalibrationWarning, match="these may be probabilities, not logits"):
        get_calibrator("ts", input="logits").fit(RISK, CODES == 0)


@pytest.mark.parametrize("p", [P, RISK[:, None], RISK], ids=["three", "one", "flat"])
def test_percentages_get_the_advice_to_divide(p: np.ndarray) -> None:
    y: Any = CODES if p.ndim == 2 and p.shape[1] == 3 else OUTCOME == "defaulted"
    for call in (lambda x: get_calibrator("ts").fit(x, y).predict_proba(p), lambda x: metrics.log_loss(y, x)):
        with pytest.raises(ValueError, match=r"look like percentages: divide them by 100\."):
            call(100.0 * p)
        np.testing.assert_allclose(call(100.0 * p / 100), call(p), atol=1e-12)
    with pytest.raises(ValueError, match="logits") as refused:
        get_calibrator("ts").fit(Z, CODES)
    assert "percentages" not in str(refused.value)


def test_files_give_the_same_answers(tmp_path: Path) -> None:
    frame = pd.DataFrame(P[:, [2, 0, 1]], columns=["p_dog", "p_bird", "p_cat"]).assign(y=ANIMALS[CODES])
    frame.to_csv(tmp_path / "t.csv", index=False)
    ok("fit", tmp_path / "t.csv", "--label", "y", "-m", "ts", "-o", tmp_path / "c.json")
    wide = frame[["p_dog", "p_bird", "p_cat"]]
    python = get_calibrator("ts").fit(wide, frame["y"])
    stored = load(tmp_path / "c.json")
    order = [stored.classes_.tolist().index(name) for name in ANIMALS]
    np.testing.assert_allclose(stored.predict_proba(wide)[:, order], python.predict_proba(wide), atol=1e-12)
    refused = run("fit", tmp_path / "t.csv", "--label", "y", "--logits", "-m", "ts", "-o", tmp_path / "d.json")
    assert "they are probabilities, not logits. Leave out --logits" in refused.stderr


def test_what_names_say_of_labels() -> None:
    assert classes_of_names(["dog_p", "cat_p"], ["cat", "dog"]) == ["dog", "cat"]
    assert classes_of_names(["u", "v"], ["cat", "dog"]) is None
    assert classes_of_names(["p_0", "p_2", "p_1"], [0, 1]) == [0, 2, 1]
    assert are_numbered(["p_0", "p_1"], ["no", "yes"]) is True
    assert are_numbered(["p_1", "p_0"], ["no", "yes"]) is False
