"""Rows of listed classes are calibrated as the full rows that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import TopK, get_calibrator
from calibrant.metrics import evaluate


def listed(n: int = 400, k: int = 12, m: int = 3) -> tuple[TopK, np.ndarray, np.ndarray]:
    """The m best classes of rows whose other classes are equally likely, these rows, and labels."""
    rng = np.random.default_rng(0)
    z = np.zeros((n, k))
    columns = np.argsort(rng.random((n, k)), axis=1)[:, :m]
    np.put_along_axis(z, columns, 2.0 + 2.0 * rng.random((n, m)), axis=1)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (0.6 * z + rng.gumbel(size=(n, k))).argmax(axis=1)
    return TopK(np.log(np.take_along_axis(p, columns, axis=1)), columns, k), p, y


@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("name", ["ts", "svs", "sms", "isotonic"])
def test_exact_where_the_rest_is_uniform(name: str, input: str) -> None:
    rows, p, y = listed()
    weight = np.random.default_rng(1).integers(1, 3, len(y)).astype(float)
    np.testing.assert_allclose(rows.full(), p, rtol=1e-12)
    X = p if input == "probabilities" else np.log(p)
    expected = get_calibrator(name, input=input).fit(X, y, weight)
    found = get_calibrator(name, input=input).fit(rows, y, weight)
    full = expected.predict_proba(X)
    q = found.predict_proba(rows)
    assert isinstance(q, TopK)
    np.testing.assert_allclose(q.probabilities, np.take_along_axis(full, rows.columns, axis=1), atol=1e-8)
    np.testing.assert_allclose(q.probabilities.sum(axis=1) + q.remaining, 1.0)
    np.testing.assert_array_equal(found.predict(rows), expected.classes_[full.argmax(axis=1)])


def test_what_remains_may_be_given_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _, y = listed()
    same = TopK(np.log(rows.probabilities), rows.columns, 12, remaining=rows.remaining)
    expected = get_calibrator("ts").fit(rows, y).inverse_temperature_
    monkeypatch.setattr("calibrant.inputs.top_k._BLOCK_ELEMENTS", 500)
    assert get_calibrator("ts").fit(same, y).inverse_temperature_ == pytest.approx(expected, rel=1e-9)


def test_absent_classes_are_no_matter() -> None:
    rows, p, y = listed()
    y = np.where(y == 0, 1, y)
    found = get_calibrator("ts").fit(rows, y)
    assert found.classes_.tolist() == list(range(12))
    expected = get_calibrator("ts", classes=range(12)).fit(p, y)
    assert found.inverse_temperature_ == pytest.approx(expected.inverse_temperature_, rel=1e-9)


def test_metrics_are_those_of_full_rows() -> None:
    rows, p, y = listed()
    found = evaluate(y, rows)
    assert found == pytest.approx(evaluate(y, p, list(found)), rel=1e-9)


@pytest.mark.parametrize(
    ("logs", "columns", "match"),
    [
        ([[-0.1, -3.0]], [[0, 7]], r"Row 0 names a class outside 0\.\.4"),
        ([[-0.1, -3.0]], [[2, 2]], "Row 0 names a class twice"),
        ([[-0.9, -3.0], [-0.1, -0.2]], [[0, 1], [0, 1]], "Row 1 does not hold log-probabilities"),
        ([[np.nan, -3.0]], [[0, 1]], "Row 0 does not hold log-probabilities"),
        ([[800.0, -3.0]], [[0, 1]], "Row 0 does not hold log-probabilities"),
        ([[-0.1, -3.0]], [[0.0, 1.0]], "columns are whole numbers"),
    ],
)
def test_errors_name_the_row(logs: object, columns: object, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TopK(logs, columns, 5)


def test_nothing_remains_where_all_classes_are_listed() -> None:
    with pytest.raises(ValueError, match="Row 0 does not hold log-probabilities"):
        TopK([[-np.inf, -np.inf]], [[0, 1]], 2, remaining=[1.0])


@pytest.mark.parametrize("name", ["ts", "svs"])
def test_large_arrays_are_read_block_by_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, p, y = listed()
    expected = get_calibrator(name).fit(p, y, np.full(len(y), 2.0))
    monkeypatch.setattr("calibrant.calibrators.dispatch.LARGE", 100)
    found = get_calibrator(name).fit(p, y.tolist(), [2.0] * len(y))
    assert found.batches_["rows"] == len(y)
    np.testing.assert_allclose(found.predict_proba(p), expected.predict_proba(p), atol=1e-7)


def test_the_flagship_takes_a_vocabulary() -> None:
    rows = TopK(np.log(np.full((20, 1), 0.5)), np.arange(20)[:, None], 10_001)
    calibrated = get_calibrator("auto").fit(rows, np.arange(20)).predict_proba(rows)  # always right, and too modest
    assert np.all(calibrated.probabilities > 0.5)
