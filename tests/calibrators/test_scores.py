"""Scores of any direction and scale: one reading, the same logits after any affine change, the same map everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import calibrant
from calibrant import CalibratedClassifier, SegmentedCalibrator, adapt, get_calibrator, list_calibrators, runtime
from calibrant.calibrators.score_scaling import find_scale
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import brier
from calibrant.sample import Sample
from calibrant.writers.exporting import export_with_proof
from tests.combinations import one_per_class, with_classes
from tests.needs import needs, needs_program

NATIVE = [info for info in list_calibrators() if info.extra is None]


def credit(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Credit scores from 300 to 850, and who defaults: the lower the score, the likelier."""
    rng = np.random.default_rng(seed)
    score = np.clip(rng.normal(620, 90, n), 300, 850).round()
    return score, (rng.random(n) < 1 / (1 + np.exp(1.9 + (score - 620) / 60))).astype(int)


def distances(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances to the centres of four classes: the smaller, the likelier."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    x = np.eye(4)[y] + rng.normal(0, 0.7, (n, 4))
    return 1000 * ((x[:, None] - np.eye(4)) ** 2).sum(axis=2), y


@pytest.mark.parametrize(("method", "k"), with_classes(NATIVE, 2, 4, often=one_per_class(NATIVE)))
def test_affine_changes_of_scores_change_nothing(method: str, k: int) -> None:
    data = credit if k == 2 else distances
    X, y = data(200)
    new = data(100, seed=1)[0]
    expected = get_calibrator(method, input="scores").fit(X, y).predict_proba(new)
    for factor, shift in ((-0.01, 5.0), (37.0, -300.0)):
        found = get_calibrator(method, input="scores").fit(factor * X + shift, y).predict_proba(factor * new + shift)
        np.testing.assert_allclose(found, expected, atol=1e-9)


class Scored(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are what it is given."""

    def fit(self, X: Any, y: Any) -> Scored:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return np.asarray(X)[:, 0] if len(self.classes_) == 2 else np.asarray(X)


@pytest.mark.parametrize(
    ("data", "method"),
    [
        *(
            (data, method)
            for data in (credit, distances)
            for method in ("sigmoid", "isotonic", "temperature", "beta", "sms")
        ),
        (credit, "affine"),  # a method of two classes
    ],
)
def test_a_classifier_with_such_decision_values_gets_the_same_probabilities(method: str, data: Any) -> None:
    X, y = data(300)
    new = data(150, seed=1)[0]
    table, rows = (X.reshape(len(X), -1), new.reshape(len(new), -1))
    model = CalibratedClassifier(FrozenEstimator(Scored().fit(table, y)), method=method).fit(table, y)
    name = "platt-logits" if method == "sigmoid" else method
    found = get_calibrator(name, input="scores").fit(X, y).predict_proba(new)
    np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-6)


def test_credit_scores_are_calibrated_in_either_reading() -> None:
    X, y = credit(2000)
    new, truth = credit(20_000, seed=1)
    best = brier(truth, 1 / (1 + np.exp(1.9 + (new - 620) / 60)))  # isotonic regression may predict 0 exactly
    for name in ("auto", "logistic", "isotonic", "platt-logits", "ts"):
        assert brier(truth, get_calibrator(name, input="scores").fit(X, y).predict_proba(new)) < 1.02 * best
        flipped = get_calibrator(name, input="scores").fit(X, 1 - y).predict_proba(new)
        assert brier(1 - truth, flipped) < 1.02 * best


def test_the_advice_of_the_errors_leads_to_the_right_result() -> None:
    X, y = credit(500)
    with pytest.raises(
        ValueError, match="such as credit scores, margins or distances, are scores: pass input='scores'"
    ):
        get_calibrator("auto").fit(X, y)
    with pytest.raises(ValueError, match=r"so large that nearly every row would be certain.* Pass input='scores'"):
        get_calibrator("auto", input="logits").fit(X, y)
    with pytest.raises(ValueError, match="so large that nearly every row would be certain"):
        get_calibrator("ts", input="logits").fit(distances(100)[0], distances(100)[1])
    p = get_calibrator("auto", input="scores").fit(X, y).predict_proba(X)[:, 1]
    assert np.corrcoef(p, X)[0, 1] < -0.8


def test_large_logits_that_tell_rows_apart_are_taken() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 40, 500)
    get_calibrator("ts", input="logits").fit(z, (z > 0).astype(int))


def test_the_scale_of_one_column_is_that_of_a_logistic_regression_with_platts_targets() -> None:
    X, y = credit(300)
    found = find_scale(Sample(X[:, None], y))
    n1, n0 = y.sum(), (1 - y).sum()
    target = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(b: np.ndarray) -> float:
        z = b[0] * (X - 620) / 90 + b[1]
        return float(np.sum(np.logaddexp(0, z) - target * z))

    slope, shift = minimize(loss, np.zeros(2), tol=1e-12).x
    assert found.factor == pytest.approx(slope / 90, rel=1e-4)
    assert found.factor * 620 + found.shift == pytest.approx(shift, abs=1e-4)


def test_an_outlier_decides_nothing_and_weights_are_repetitions() -> None:
    X, y = credit(300)
    far = find_scale(Sample(np.append(X, -1e9)[:, None], np.append(y, 1)))
    assert far.factor == pytest.approx(find_scale(Sample(X[:, None], y)).factor, rel=0.2)
    weight = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    times = np.repeat(np.arange(300), weight.astype(int))
    for data in (credit(300), distances(300)):
        scores, labels = data[0].reshape(300, -1), data[1]
        once, often = find_scale(Sample(scores, labels, weight)), find_scale(Sample(scores[times], labels[times]))
        np.testing.assert_allclose(once[:2], often[:2], rtol=1e-9)


@pytest.mark.filterwarnings("error")
def test_the_direction_is_said_or_given_or_in_doubt() -> None:
    X, y = credit(500)
    labels = np.where(y == 1, "defaulted", "paid")
    found = get_calibrator("isotonic", input="scores").fit(X, labels)
    assert "The higher the score, the more likely is paid (found from the labels)." in found.summary()
    assert "A score of 4" in found.summary()
    assert (
        "The lower the score, the more likely is True"
        in get_calibrator("auto", input="scores").fit(X, y == 1).summary()
    )
    given = get_calibrator("ts", input="falling-scores").fit(X, y)
    assert "(as given)" in given.summary()
    with pytest.warns(
        CalibrationWarning, match="said to be rising, but in these rows low scores make a class more likely"
    ):
        wrong = get_calibrator("ts", input="rising-scores").fit(X, y)
    assert wrong.score_factor_ > 0 > given.score_factor_
    noise = np.random.default_rng(0).normal(size=200)
    with pytest.warns(CalibrationWarning, match="do not show whether high scores make a class more or less likely"):
        get_calibrator("ts", input="scores").fit(noise, np.arange(200) % 2)
    several = get_calibrator("ts", input="scores").fit(*distances(300))
    assert "The lower the score of a class, the more likely it is (found from the labels)." in several.summary()


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_doubt_about_the_direction_is_as_rare_as_it_says(columns: int) -> None:
    # Without any relation, the labels speak clearly for a direction once in a hundred samples.
    rng = np.random.default_rng(0)
    samples = (Sample(rng.normal(size=(200, columns)), rng.integers(max(2, columns), size=200)) for _ in range(400))
    assert 1 <= np.count_nonzero([find_scale(sample).direction for sample in samples]) <= 10


@pytest.mark.parametrize(("X", "y"), [([700.0] * 6, [0, 1] * 3), ([1.0, 2, 3, 4, 5, 6], [0] * 3 + [1] * 3)])
@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_few_and_constant_scores(X: list[float], y: list[int]) -> None:
    for method in (info.name for info in NATIVE):
        p = get_calibrator(method, input="scores").fit(X, y).predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_one_class_and_what_is_not_a_score() -> None:
    one = get_calibrator("isotonic", input="scores", classes=[0, 1]).fit([300.0, 500, 700], [0, 0, 0])
    assert np.all(one.predict_proba([400.0])[:, 0] > 0.5)
    with pytest.raises(ValueError, match=r"nan at row 1, column 0\. Scores are finite numbers"):
        get_calibrator("ts", input="scores").fit([300.0, np.nan, 700], [0, 1, 0])
    with pytest.raises(ValueError, match="expecting 1 features"):
        get_calibrator("ts", input="scores").fit(*credit(50)).predict_proba([[300.0, 500.0]])
    with pytest.raises(ValueError, match="Scores have to be in memory"):
        get_calibrator("ts", input="scores").fit_batches(lambda: iter([credit(50)]))


@pytest.mark.parametrize("method", ["auto", "isotonic", "sms"])
@pytest.mark.parametrize(
    ("to", "program"),
    [
        ("python", None),
        pytest.param("js", "node", marks=pytest.mark.program),
        pytest.param("c", "cc", marks=pytest.mark.program),
    ],
)
def test_scores_are_exported_as_source_code(method: str, to: str, program: str | None) -> None:
    if program is not None:
        needs_program(program)
    for X, y in (credit(300), distances(300)):
        done = export_with_proof(get_calibrator(method, input="scores").fit(X, y), to=to)
        assert done.difference is not None
        assert done.difference < 1e-9


@pytest.mark.parametrize(
    "to",
    [
        pytest.param("onnx", marks=pytest.mark.export),
        pytest.param("torch", marks=pytest.mark.torch),
        pytest.param("sql", marks=pytest.mark.export),
    ],
)
def test_scores_are_exported_as_graphs_and_queries(to: str) -> None:
    for package in {"onnx": ("onnx", "onnxruntime"), "torch": ("torch",), "sql": ("duckdb", "sqlglot")}[to]:
        needs(package)
    for X, y in (credit(300), distances(300)):
        done = export_with_proof(get_calibrator("auto", input="scores").fit(X, y), to=to)
        assert done.difference is not None
        assert done.difference < 1e-9


def test_scores_by_name_stored_adapted_and_by_segment(tmp_path: Path) -> None:
    X, y = distances(400)
    frame = pd.DataFrame(X, columns=list("abcd"))[list("bdac")]
    labels = np.array(list("abcd"))[y]
    fitted = get_calibrator("auto", input="scores").fit(frame, labels)
    calibrant.save(fitted, tmp_path / "c.json")
    for twin in (calibrant.load(tmp_path / "c.json"), runtime.load(tmp_path / "c.json")):
        np.testing.assert_array_equal(twin.predict_proba(frame), fitted.predict_proba(frame))
        np.testing.assert_allclose(twin.predict_proba(frame[list("abcd")]), fitted.predict_proba(frame), rtol=1e-12)
    rare = adapt(fitted, prior={"a": 0.7, "b": 0.1, "c": 0.1, "d": 0.1})
    assert rare.predict_proba(frame)[:, 0].mean() > fitted.predict_proba(frame)[:, 0].mean()
    calibrant.save(rare, tmp_path / "rare.json")
    np.testing.assert_array_equal(runtime.load(tmp_path / "rare.json").predict_proba(frame), rare.predict_proba(frame))
    score, default = credit(600)
    region = {"region": np.arange(600) % 3 == 0}
    parts = SegmentedCalibrator("ts", input="scores").fit(score, default, segments=region)
    other = SegmentedCalibrator("ts", input="scores").fit(-score, default, segments=region)
    np.testing.assert_allclose(
        parts.predict_proba(score, segments=region), other.predict_proba(-score, segments=region), atol=1e-9
    )


def test_a_refit_to_probabilities_forgets_the_scale(tmp_path: Path) -> None:
    fitted = get_calibrator("ts", input="scores").fit(*credit(100))
    fitted.set_params(input="probabilities").fit([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1])
    calibrant.save(fitted, tmp_path / "c.json")
    assert not hasattr(fitted, "score_factor_")


def test_a_changed_scaling_in_a_file_is_refused(tmp_path: Path) -> None:
    stored = get_calibrator("ts", input="scores").fit(*credit(100)).to_map().to_json()
    assert stored["input"] == "scores"
    for change in ({"scaling": []}, {"scaling": [{"step": "softmax"}]}, {"input": "logits"}):
        with pytest.raises(runtime.FileError, match="scaling"):
            runtime.Map.from_json({**stored, **change})


@pytest.mark.torch
def test_tensors_of_scores() -> None:
    torch = needs("torch")
    X, y = credit(200)
    fitted = get_calibrator("sms", input="scores").fit(torch.as_tensor(X), y)
    np.testing.assert_allclose(fitted.predict_proba(torch.as_tensor(X)).numpy(), fitted.predict_proba(X), atol=1e-12)
