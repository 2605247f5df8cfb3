"""Intervals of the delta method as steps, and as columns of SQL and outputs of ONNX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import DecisionRule, get_calibrator
from calibrant.simplex import softmax
from calibrant.steps import check_steps, decode, encode
from calibrant.writers.exporting import export_with_proof
from tests.needs import needs

METHODS = {
    2: ("ts", "affine", "linear", "quadratic", "logistic", "beta", "platt", "platt-logits", "vs", "svs", "sms"),
    3: ("ts", "vs", "svs", "sms", "dirichlet"),
    10: ("ts", "svs"),
}


def fitted(method: str, k: int, n: int = 600) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(k)
    p = softmax(1.5 * rng.normal(size=(n, k)))
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return get_calibrator(method, classes=range(k)).fit(p, y).fit_intervals(p, y), p


@pytest.mark.parametrize(("k", "method"), [(k, method) for k, methods in METHODS.items() for method in methods])
def test_steps_give_the_intervals_of_the_calibrator(k: int, method: str) -> None:
    calibrator, p = fitted(method, k)
    rng = np.random.default_rng(0)
    sure = np.eye(k) * (1 - 1e-8) + 1e-8 / k
    rows = np.vstack([p, sure / sure.sum(axis=1, keepdims=True), softmax(8 * rng.normal(size=(100, k)))])
    steps = decode(encode(calibrator.interval_steps(0.8)))
    assert check_steps(steps, k) == 2 * k
    found = replace(calibrator.to_map(), interval=steps).predict_interval(rows)
    # Covariances of many coefficients are summed in single precision by predict_interval.
    np.testing.assert_allclose(found, calibrator.predict_interval(rows, 0.8), rtol=0, atol=2e-6)
    ends, q = found, calibrator.predict_proba(rows)
    assert np.all((ends[..., 0] <= q + 1e-12) & (q <= ends[..., 1] + 1e-12))


@pytest.mark.export
@pytest.mark.parametrize("to", ["sql", "onnx"])
@pytest.mark.parametrize(("k", "method"), [(2, "quadratic"), (2, "platt"), (2, "sms"), (3, "ts"), (3, "svs")])
def test_exported_intervals_are_proven(k: int, method: str, to: str) -> None:
    needs("duckdb")
    needs("onnxruntime")
    calibrator, _ = fitted(method, k)
    assert export_with_proof(calibrator, to=to, interval=0.9).difference < 1e-9
    calibrator.set_rule(DecisionRule(1 - np.eye(k), classes=range(k)))
    assert export_with_proof(calibrator, to=to, interval=0.9).decides


@pytest.mark.export
def test_a_query_with_one_column_and_a_graph() -> None:
    duckdb, onnxruntime = needs("duckdb"), needs("onnxruntime")
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    calibrator = get_calibrator("affine").fit(p, y).fit_intervals(p, y)
    expected = calibrator.predict_interval([0.3, 0.8], 0.9)
    base = duckdb.connect()
    base.execute("CREATE TABLE predictions (p DOUBLE)")
    base.execute("INSERT INTO predictions VALUES (0.3), (0.8), (NULL)")
    query = calibrant.export(calibrator, to="sql", dialect="duckdb", columns=["p"], interval=0.9)
    found = base.execute(query)
    assert [column[0] for column in found.description] == ["p_cal", "p_cal_low", "p_cal_high"]
    *rows, last = found.fetchall()
    np.testing.assert_allclose([row[1:] for row in rows], expected[:, 1], rtol=1e-9)
    assert last == (None, None, None)
    model = calibrant.export(calibrator, to="onnx", interval=0.9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    low, high = session.run(["low", "high"], {"predictions": np.array([[0.7, 0.3], [0.2, 0.8]])})
    np.testing.assert_allclose(np.stack([low, high], axis=2), expected, rtol=1e-9)


def test_what_has_no_intervals_says_so() -> None:
    calibrator, p = fitted("ts", 2)
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, got 90"):
        export_with_proof(calibrator, to="sql", interval=90)
    with pytest.raises(ValueError, match="interval is an option of onnx and sql, not of python"):
        export_with_proof(calibrator, to="python", interval=0.9)
    isotonic = get_calibrator("isotonic").fit(p, np.arange(len(p)) % 2)
    with pytest.raises(ValueError, match="This IsotonicCalibrator has no delta-method intervals"):
        export_with_proof(isotonic, to="sql", interval=0.9)
    with pytest.raises(ValueError, match="This map has no intervals"):
        calibrator.to_map().predict_interval(p)
