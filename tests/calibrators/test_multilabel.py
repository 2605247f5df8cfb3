"""Maps of many labels: the fit against another solver, weights, names, lists, storage, thresholds and sentences."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

import calibrant
from calibrant import AutoCalibrator, CalibrationWarning, DecisionRule, MultilabelCalibrator, get_calibrator, runtime
from calibrant.calibrators.label_shrinkage import shrunken_fit
from calibrant.inputs.label_matrix import label_matrix
from calibrant.metrics import log_loss, multilabel_metrics

NAMES = ["art", "news", "sports", "war"]


def drawn(n: int = 300, n_labels: int = 4, seed: int = 0) -> tuple[Any, Any]:
    """Labels, the later the rarer, whose log-odds are doubled and shifted by a little in each label."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_labels)) * 1.5 - np.linspace(0.5, 4.0, n_labels)
    y = (rng.random(z.shape) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    given = 2.0 * z + 0.5 * rng.normal(size=n_labels)
    return 1.0 / (1.0 + np.exp(-given)), y


@cache
def fitted_to_names() -> MultilabelCalibrator:
    """Fitted to what `drawn` gives; not to be changed."""
    return MultilabelCalibrator(NAMES).fit(*drawn())


def test_the_fit_is_the_minimum_that_another_solver_finds() -> None:
    rng = np.random.default_rng(0)
    t = rng.normal(size=(3, 40))
    features = np.stack([np.ones_like(t), t, 0.1 * t * t], axis=2)
    y, each = (rng.random((40, 3)) < 0.3).astype(int), rng.exponential(size=40)
    strengths, centre = np.array([2.0, 7.0, 7.0]), np.array([0.0, 1.0, 0.0])

    def objective(beta: Any) -> float:
        theta, mean = beta[:9].reshape(3, 3), beta[9:]
        z = np.einsum("lnd,ld->nl", features, theta)
        loss = np.sum(each[:, None] * (np.logaddexp(0, z) - y * z))
        return float(loss + 0.5 * np.sum((theta - mean) ** 2 * strengths) + 0.5 * np.sum((mean - centre) ** 2))

    found = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    theta, mean = shrunken_fit(features, y, each, strengths)
    assert objective(np.append(theta, mean)) <= found.fun + 1e-9
    assert np.allclose(np.append(theta, mean), found.x, atol=1e-4)


def test_strong_ridges_make_one_map_of_all_labels_and_weak_ones_make_each_its_own() -> None:
    p, y = drawn()
    t = np.log(p / (1 - p)).T
    features = np.stack([np.ones_like(t), t, 0.1 * t * t], axis=2)
    theta, mean = shrunken_fit(features, y, np.ones(len(y)), np.full(3, 1e9))
    assert np.allclose(theta, mean, atol=1e-5)
    alone, _ = shrunken_fit(features[:1], y[:, :1], np.ones(len(y)), np.full(3, 1e-9))
    z = features[0] @ alone[0]
    assert abs(np.sum(1 / (1 + np.exp(-z))) - y[:, 0].sum()) < 1e-3  # the score equation of an unpenalised intercept


def test_rare_labels_gain_over_a_calibrator_for_each_label() -> None:
    ours, alone = [], []
    for seed in range(2):
        p, y = drawn(2300, 12, seed)
        fit, test = slice(0, 300), slice(300, None)
        q = MultilabelCalibrator().fit(p[fit], y[fit]).predict_proba(p[test])
        ours.append(multilabel_metrics(y[test], q).macro["log_loss"])
        losses = []
        for j in range(12):
            some = 0 < y[fit, j].sum() < 300
            r = get_calibrator("auto").fit(p[fit, j], y[fit, j]).predict_proba(p[test, j])[:, 1] if some else p[test, j]
            losses.append(log_loss(y[test, j], r, classes=[0, 1]))
        alone.append(np.mean(losses))
    assert np.mean(ours) < np.mean(alone)


def test_weight_two_equals_a_repeated_row_and_weight_zero_an_absent_one() -> None:
    p, y = drawn(120)
    weight = np.tile([1.0, 2.0, 0.0], 40)
    weighted = MultilabelCalibrator().fit(p, y, weight)
    again = np.repeat(np.arange(120), weight.astype(int))
    repeated = MultilabelCalibrator().fit(p[again], y[again])
    assert np.allclose(weighted.predict_proba(p), repeated.predict_proba(p), atol=1e-6)
    assert np.array_equal(weighted.label_counts_, repeated.label_counts_)


def test_the_order_of_labels_does_not_matter() -> None:
    p, y = drawn()
    order = [2, 0, 3, 1]
    plain, turned = fitted_to_names(), MultilabelCalibrator().fit(p[:, order], y[:, order])
    assert np.allclose(plain.predict_proba(p)[:, order], turned.predict_proba(p[:, order]), atol=1e-9)


def test_matrices_sparse_ones_frames_and_lists_of_labels_are_one_thing() -> None:
    p, y = drawn(60)
    expected = MultilabelCalibrator().fit(p, y).predict_proba(p)
    lists = [[NAMES[j] for j in np.flatnonzero(row)] for row in y]
    frame = pd.DataFrame(p, columns=[f"p_{name}" for name in NAMES])
    truth = pd.DataFrame(y, columns=NAMES)
    for X, target in (
        (p, csr_matrix(y)),
        (p, y.astype(bool)),
        (p, y.tolist()),
        (p, lists),
        (p, [set(row) for row in lists]),
        (p, pd.Series(lists)),
        (p, truth),
        (frame, truth[["war", "art", "news", "sports"]]),
        (frame, lists),
        ([np.column_stack([1 - q, q]) for q in p.T], y),
    ):
        given = label_matrix(target, X)
        assert np.array_equal(given.y, y)
        assert np.allclose(given.on, p, atol=1e-12)
    fitted = MultilabelCalibrator().fit(frame, truth)
    assert fitted.classes_.tolist() == NAMES
    assert np.allclose(fitted.predict_proba(frame[frame.columns[::-1]]), expected, atol=1e-12)


def test_logits_are_what_probabilities_are_and_keep_their_digits() -> None:
    p, y = drawn()
    z = np.log(p) - np.log1p(-p)
    logits = MultilabelCalibrator(input="logits").fit(z, y)
    assert np.allclose(logits.predict_proba(z), fitted_to_names().predict_proba(p), atol=1e-9)
    ends = logits.predict_proba([[np.inf, -np.inf, 1e308, -1e308]])
    assert np.isfinite(ends).all()


def test_groups_stay_together_and_say_less() -> None:
    p, y = drawn(60)
    copies = np.repeat(np.arange(60), 5)
    single = MultilabelCalibrator().fit(p, y)
    grouped = MultilabelCalibrator().fit(p[copies], y[copies], groups=copies)
    free = MultilabelCalibrator().fit(p[copies], y[copies])
    assert abs(grouped.weights_[0] - single.weights_[0]) < abs(free.weights_[0] - single.weights_[0]) + 0.05
    one = MultilabelCalibrator().fit(p, y, groups=np.zeros(60))
    assert one.weights_.tolist() == [0.5, 0.5, 0.0]
    assert one.coefficients_.tolist() == [[0.0, 1.0, 0.0]] * 4


@pytest.mark.parametrize("n_labels", [1, 2, 30])
def test_any_number_of_labels_and_six_rows(n_labels: int) -> None:
    p, y = drawn(6, n_labels)
    y[0, 0] = 1
    q = MultilabelCalibrator().fit(p, y).predict_proba(p)
    assert q.shape == (6, n_labels)
    assert ((q >= 0) & (q <= 1)).all()


def test_labels_that_are_never_true_keep_low_probabilities_and_a_warning_says_if_none_is() -> None:
    p, y = drawn(60)
    y[:, 3] = 0
    q = MultilabelCalibrator().fit(p, y).predict_proba(p)
    assert q[:, 3].mean() < p[:, 3].mean() + 0.05
    with pytest.warns(CalibrationWarning, match="no label is true in any row"):
        MultilabelCalibrator().fit(p, 0 * y)
    with pytest.warns(CalibrationWarning, match="every label is true in all rows"):
        MultilabelCalibrator().fit(p, 0 * y + 1)


def test_calibrated_predictions_are_left_nearly_alone() -> None:
    rng = np.random.default_rng(1)
    p = rng.beta(0.5, 3.0, size=(2300, 20))
    y = (rng.random(p.shape) < p).astype(int)
    q = MultilabelCalibrator().fit(p[:300], y[:300]).predict_proba(p[300:])
    kl = p[300:] * np.log(p[300:] / q) + (1 - p[300:]) * np.log((1 - p[300:]) / (1 - q))
    assert kl.mean() < 0.003


def test_a_stored_calibrator_predicts_the_same_with_and_without_its_class(tmp_path: Path) -> None:
    p, y = drawn()
    frame = pd.DataFrame(p, columns=NAMES)
    fitted = MultilabelCalibrator().fit(frame, y)
    calibrant.save(fitted, tmp_path / "labels.json")
    twin, plain = calibrant.load(tmp_path / "labels.json"), runtime.load(tmp_path / "labels.json")
    assert np.array_equal(twin.predict_proba(frame), fitted.predict_proba(frame))
    assert np.array_equal(plain.predict_proba(frame[NAMES[::-1]]), fitted.predict_proba(frame))
    assert plain.independent
    assert plain.classes == NAMES
    assert twin.summary() == fitted.summary()
    twin.weights_ = np.array([0.5, 0.6, 0.2])
    with pytest.raises(ValueError, match="weights_ should sum to one"):
        calibrant.save(twin, tmp_path / "wrong.json")
    value = fitted.to_map().to_json()
    for changed in ({"independent": 2}, {"independent": False}, {"classes": []}, {"classes": NAMES[:3]}):
        with pytest.raises(runtime.FileError):
            runtime.Map.from_json({**value, **changed})


@pytest.mark.export
@pytest.mark.parametrize("given", ["probabilities", "logits"])
def test_exports_predict_the_same_and_refuse_rows_that_are_no_predictions(given: str) -> None:
    from tests.needs import needs

    onnxruntime, duckdb = needs("onnxruntime"), needs("duckdb")
    p, y = drawn()
    X = p if given == "probabilities" else np.log(p) - np.log1p(-p)
    fitted = MultilabelCalibrator(NAMES, input=given).fit(X, y)
    rows = X[:5].copy()
    rows[1, 2] = np.nan
    model = calibrant.export(fitted, to="onnx")
    out = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"predictions": rows})[0]
    kept = [0, 2, 3, 4]
    assert np.isnan(out[1]).all()
    assert np.allclose(out[kept], fitted.predict_proba(X[:5])[kept], atol=1e-12)
    query = calibrant.export(fitted, to="sql", dialect="duckdb")
    assert "4 independent labels" in query
    with duckdb.connect() as base:
        base.register("predictions", pd.DataFrame(rows, columns=NAMES))
        found = base.execute(query).df().to_numpy(dtype=float)
    assert np.isnan(found[1]).all()
    assert np.allclose(found[kept], fitted.predict_proba(X[:5])[kept], atol=1e-12)
    with pytest.raises(ValueError, match="to='js' cannot hold maps of independent labels: use onnx or sql"):
        calibrant.export(fitted, to="js")


def test_thresholds_by_number_by_rule_and_by_label() -> None:
    p, fitted = drawn()[0], fitted_to_names()
    q = fitted.predict_proba(p)
    rule = DecisionRule(false_positive=1, false_negative=4)
    assert np.array_equal(fitted.predict(p), q >= 0.5)
    assert np.array_equal(fitted.predict(p, threshold=rule), q >= 0.2)
    assert np.array_equal(fitted.predict(p, threshold={"war": rule, "art": 0.3}), q >= [0.3, 0.5, 0.5, 0.2])
    assert np.array_equal(fitted.predict(p, threshold=[0.1, 0.2, 0.3, 0.4]), q >= [0.1, 0.2, 0.3, 0.4])
    with pytest.raises(ValueError, match="threshold names 'peace', which is not one of the labels 'art', 'news'"):
        fitted.predict(p, threshold={"peace": 0.5})
    with pytest.raises(ValueError, match="one for each of the 4 labels"):
        fitted.predict(p, threshold=[0.5, 0.5])


def test_summary_says_how_much_there_was_and_what_leans_on_others() -> None:
    p, y = drawn()
    lines = fitted_to_names().summary().splitlines()
    low, high = y.sum(axis=0).min(), y.sum(axis=0).max()
    assert lines[0] == f"MultilabelCalibrator, fitted to 300 rows and 4 labels, true {low} to {high} times."
    assert lines[1].startswith("A probability of 50.0% becomes ")
    assert "the unchanged prediction." in lines[2]
    assert ("follow" in lines[-1]) == (low < 10)
    alone = MultilabelCalibrator().fit(p[:, :1], y[:, :1]).summary()
    assert "and 1 label, true" in alone
    assert "follow" not in alone
    assert "the most" not in alone


@pytest.mark.parametrize("renormalize", [False, True])
def test_labels_given_to_a_calibrator_of_classes_are_refused_and_the_advice_helps(renormalize: bool) -> None:
    p, y = drawn()
    for target in (y, y.tolist(), pd.DataFrame(y), csr_matrix(y)):
        with pytest.raises(ValueError, match=r"not classes, exactly one of which is\. Use Multilabel"):
            AutoCalibrator(renormalize=renormalize).fit(p, target)
    with pytest.raises(ValueError, match="Use multilabel_metrics"):
        log_loss(y, p)
    q = fitted_to_names().predict_proba(p)
    assert multilabel_metrics(y, q).macro["log_loss"] < multilabel_metrics(y, p).macro["log_loss"]


def test_votes_and_soft_labels_of_classes_still_pass() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoCalibrator().fit(p, rng.integers(0, 2, (100, 3)) | np.eye(3, dtype=int)[p.argmax(axis=1)])
        AutoCalibrator(renormalize=True).fit(3.0 * p, np.eye(3)[p.argmax(axis=1)])
    with pytest.warns(CalibrationWarning, match="read as votes for classes. If any number of labels"):
        get_calibrator("ts", input="logits").fit(rng.normal(size=(100, 3)), rng.integers(0, 2, (100, 3)))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([0.2, 0.3], [[1, 0], [0, 1]], "X has one dimension; a matrix is expected with one column per label"),
        ([[0.2, 1.3]], [[1, 0]], "X holds 1.3 at row 0, column 1: probabilities lie between 0 and 1"),
        ([[20.0, 70.0]], [[1, 0]], "These look like percentages: divide them by 100"),
        ([[0.2, np.nan]], [[1, 0]], "Input X contains NaN: nan at row 0, column 1"),
        ([[0.2, 0.3]], [[1, 2]], "y holds 2 at row 0, column 1: 1 is expected where a label is true"),
        ([[0.2, 0.3]], [[1, 0, 0]], r"y has shape \(1, 3\), expected \(1, 2\)"),
        ([[0.2, 0.3]], [["a"]], "y names 1 labels .'a'., and X has 2 columns"),
        ([[0.2, 0.3]], None, "y is None"),
        ([np.ones((3, 1)), np.ones((3, 2))], [[1, 0]] * 3, "is a list of arrays of the shapes"),
        (pd.DataFrame({"a": [0.1], "b": [0.2]}), pd.DataFrame({"c": [1], "d": [0]}), "have names that do not match"),
    ],
)
def test_errors_say_what_where_and_what_to_do(X: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MultilabelCalibrator().fit(X, y)


def test_labels_name_columns_once() -> None:
    p, y = drawn()
    with pytest.raises(ValueError, match="labels names 3 columns"):
        MultilabelCalibrator(["a", "b", "c"]).fit(p, y)
    with pytest.raises(ValueError, match="X has 3 columns; this map was fitted to 4 labels"):
        fitted_to_names().predict_proba(p[:, :3])
