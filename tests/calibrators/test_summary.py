"""`summary()` of every calibrator: rows, temperature, and what the map does to a few predictions."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from calibrant import get_calibrator, list_calibrators
from calibrant.calibrators.summary import temperature_sentence
from calibrant.inputs.words import ClassOrderWarning
from tests.combinations import one_per_class, with_classes
from tests.samples import sharpened

#: Methods with the summary of all; the flagship has one of its own.
PLAIN = [info for info in list_calibrators() if info.extra is None and not info.name.startswith("auto")]


@pytest.mark.parametrize(("name", "k"), with_classes(PLAIN, 2, 4, often=one_per_class(PLAIN)))
def test_the_summary_tells_what_the_map_does(name: str, k: int) -> None:
    p, y = sharpened(120, k, 2.0)
    labels = np.array(["ant", "bee", "cat", "dog"])[:k]
    fitted = get_calibrator(name, classes=labels).fit(p, labels[y])
    lines = fitted.summary().splitlines()
    assert "fitted to 120 rows" in lines[0]
    if k == 2:
        row, said = [0.1, 0.9], re.search(r"90% becomes ([\d.]+)%", fitted.summary())
        expected = fitted.predict_proba([row])[0, 1]
    else:
        rows = np.full((k, k), 0.1 / (k - 1)) + np.eye(k) * (0.9 - 0.1 / (k - 1))
        expected = np.diag(fitted.predict_proba(rows)).mean()
        said = re.search(r"gets ([\d.]+)%", lines[-1])
    assert said is not None
    assert float(said.group(1)) == pytest.approx(100 * expected, abs=0.51)


@pytest.mark.parametrize("name", ["ts", "auto"])
def test_a_class_without_rows_is_said_to_get_almost_no_probability(name: str) -> None:
    p, y = sharpened(60, 3, 2.0)
    names = np.array(["ant", "bee", "cat"])
    said = [get_calibrator(name, classes=names).fit(p, labels).summary() for labels in (names[y], names[y % 2])]
    words = "No row is of cat: most methods give such a class almost no probability. Calibrate with rows of every"
    assert [words in text for text in said] == [False, True]


def test_columns_in_another_order_logits_and_single_columns() -> None:
    p, y = sharpened(300, 2, 2.0)
    labels = np.array(["no", "yes"])[y]
    plain = get_calibrator("ts").fit(p, labels).summary()
    assert "The probabilities of yes were too extreme" in plain
    logits = np.log(p)
    for X, options in (
        (p[:, 1], {}),
        (logits, {"input": "logits"}),
        (logits[:, 1] - logits[:, 0], {"input": "logits"}),
        (p[:, ::-1], {"classes": ["yes", "no"]}),
    ):
        turned = "classes" in options
        with pytest.warns(ClassOrderWarning, match="in the order 'yes', 'no'") if turned else nullcontext():
            found = get_calibrator("ts", **options).fit(X, labels).summary()
        if not turned:
            assert found == plain
        else:
            assert "The probabilities of no were too extreme" in found


def test_an_unfitted_calibrator_has_no_summary() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        get_calibrator("ts").summary()


def test_a_temperature_after_a_mixture_is_no_verdict_unless_both_draw_extremes_in() -> None:
    p, y = sharpened(300, 2, 2.0)
    said = get_calibrator("ts", input_smoothing=0.03).fit(p, y).summary()
    assert "too extreme overall" in said
    assert "3.0% of the uniform distribution was also mixed in." in said
    right, y = sharpened(300, 2, 1.0)
    said = get_calibrator("ts", input_smoothing=0.03).fit(right, y).summary()
    assert "3.0% of the uniform distribution was mixed into the probabilities, which pulls in extreme ones;" in said
    assert "too close to the average" not in said


@pytest.mark.parametrize(
    ("proba", "labels", "said"),
    [
        # A class that occurs in 3 of 4 rows above 0.5 and in 1 of 4 below: pooled, no others are left.
        ([0.2, 0.3, 0.3, 0.4, 0.6, 0.7, 0.7, 0.8], [1, 0, 0, 0, 1, 1, 1, 0], "between 25.0% and 75.0%."),
        ([0.2, 0.3, 0.3, 0.4, 0.6, 0.7, 0.7, 0.8], [0, 0, 0, 0, 1, 1, 1, 0], "between 0.0% and 75.0%."),
        ([0.2, 0.3, 0.3, 0.4, 0.6, 0.7, 0.7, 0.8], [0, 0, 0, 0, 1, 1, 1, 1], ""),
    ],
)
def test_a_narrow_range_is_told(proba: list[float], labels: list[int], said: str) -> None:
    text = get_calibrator("isotonic").fit(proba, labels).summary()
    assert text.endswith(f"The map keeps probabilities of class 1 {said}") if said else "keeps" not in text


def test_the_flagship_of_few_rows_tells_its_range() -> None:
    fitted = get_calibrator("auto").fit([0.1, 0.9, 0.2, 0.8, 0.7, 0.4], [0, 1, 0, 1, 1, 0])
    low, high = 100 * fitted.predict_proba([1e-15, 1.0 - 1e-15])[:, 1]
    assert f"The map keeps probabilities of class 1 between {low:.1f}% and {high:.1f}%." in fitted.summary()


def test_what_an_inverse_temperature_is_fitted_with() -> None:
    found = SimpleNamespace(inverse_temperature_=0.5, classes_=np.array(["no", "yes"]))
    assert "(inverse temperature 0.5, fitted without intercepts; ideal: 1)" in temperature_sentence(found)
    found.input_factors_ = np.array([1.0, 1.1])
    assert "(inverse temperature 0.5, fitted after the class means were corrected;" in temperature_sentence(found)
