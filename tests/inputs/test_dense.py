"""Dense outputs: the same numbers as the rows laid out by hand, in the shape of the predictions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from calibrant import get_calibrator
from calibrant.metrics import evaluate
from tests.needs import needs

SHAPES = {"segmentation": ((2, 4, 5, 6), 1), "sequence": ((3, 7, 4), -1), "volume": ((4, 3, 2, 5, 2), 0)}


def dense(shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, labels of which a tenth is 255, and both as a matrix and a vector without those."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=shape)
    p = np.exp(2 * z) / np.exp(2 * z).sum(axis=axis, keepdims=True)
    y = (z + rng.gumbel(size=shape)).argmax(axis=axis)
    y[rng.random(y.shape) < 0.1] = 255
    rows = np.stack([np.take(p, j, axis=axis).ravel() for j in range(4)], axis=1)
    return p, y, rows[y.ravel() != 255], y.ravel()[y.ravel() != 255]


@pytest.mark.parametrize(("shape", "axis"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", ["ts", "sms", "isotonic"])
def test_places_are_rows(name: str, shape: tuple[int, ...], axis: int) -> None:
    p, y, rows, labels = dense(shape, axis)
    weight = np.random.default_rng(1).integers(1, 3, y.shape).astype(float)
    expected = get_calibrator(name).fit(rows, labels, weight.ravel()[y.ravel() != 255])
    found = get_calibrator(name).fit(p, y, weight, axis=axis, ignore_index=255)
    q = found.predict_proba(p, axis=axis)
    assert q.shape == p.shape
    np.testing.assert_allclose(q.sum(axis=axis), 1.0)
    np.testing.assert_allclose(
        np.moveaxis(q, axis, -1).reshape(-1, 4)[y.ravel() != 255], expected.predict_proba(rows), rtol=1e-12
    )
    assert found.predict(p, axis=axis).shape == y.shape
    np.testing.assert_array_equal(found.predict(p, axis=axis), q.argmax(axis=axis))
    np.testing.assert_allclose(np.exp(found.predict_log_proba(p, axis=axis)), q, rtol=1e-12)


def test_metrics_of_places_are_those_of_rows() -> None:
    p, y, rows, labels = dense(*SHAPES["segmentation"])
    assert evaluate(y, p, axis=1, ignore_index=255) == evaluate(labels, rows)
    assert evaluate(np.append(labels, 255), np.vstack([rows, rows[:1]]), ignore_index=255) == evaluate(labels, rows)


@pytest.mark.torch
def test_tensors_keep_their_shape() -> None:
    torch = needs("torch")
    p, y, rows, labels = dense(*SHAPES["segmentation"])
    svs = get_calibrator("svs", tol=1e-14)
    found = clone(svs).fit(torch.as_tensor(p), torch.as_tensor(y), axis=1, ignore_index=255)
    q = found.predict_proba(torch.as_tensor(p), axis=1)
    np.testing.assert_allclose(q, svs.fit(rows, labels).predict_proba(p, axis=1), atol=1e-8)


def test_errors_name_the_shapes() -> None:
    p, y, _, _ = dense(*SHAPES["segmentation"])
    with pytest.raises(ValueError, match=r"axis=7 does not name the classes of X, which has shape \(2, 4, 5, 6\)"):
        get_calibrator("ts").fit(p, y, axis=7)
    with pytest.raises(ValueError, match=r"y has shape \(2, 5\), expected \(2, 5, 6\)"):
        get_calibrator("ts").fit(p, y[..., 0], axis=1)
    for axis, labels in ((1, y), (None, y.ravel())):
        rows = p if axis else np.moveaxis(p, 1, -1).reshape(-1, 4)
        for beside in ("sample_weight", "groups"):
            with pytest.raises(ValueError, match=rf"{beside} has shape \(7,\), expected"):
                get_calibrator("ts").fit(rows, labels, axis=axis, ignore_index=255, **{beside: np.ones(7)})
            with pytest.raises(ValueError, match=rf"{beside} has shape \(7,\), expected"):
                evaluate(labels, rows, axis=axis, ignore_index=255, **{beside: np.ones(7)})
    with pytest.raises(ValueError, match="blocks are consecutive rows"):
        evaluate(y, p, axis=1, blocks=2)
    with pytest.raises(ValueError, match="y holds nothing but ignore_index=255"):
        get_calibrator("ts").fit(p, np.full_like(y, 255), axis=1, ignore_index=255)


def test_one_weight_for_all_places_counts() -> None:
    p, y, _, _ = dense(*SHAPES["segmentation"])
    found = [get_calibrator("ts").fit(p, y, w, axis=1, ignore_index=255) for w in (2.0, np.full(y.shape, 2.0))]
    assert found[0].class_counts_.sum() == 2.0 * (y != 255).sum()
    assert found[0].inverse_temperature_ == found[1].inverse_temperature_


def test_rows_of_every_kind_may_be_ignored() -> None:
    rows, labels = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.6, 0.4]], [0, 1, 255, 1]
    expected = get_calibrator("ts").fit([rows[i] for i in (0, 1, 3)], [0, 1, 1]).inverse_temperature_
    frame = needs("pandas").DataFrame(rows, columns=["p_0", "p_1"])
    frames = (frame, needs("polars").DataFrame(frame.to_dict("list")), needs("pyarrow").Table.from_pandas(frame))
    for X in (rows, np.array(rows), *frames):
        assert get_calibrator("ts").fit(X, labels, ignore_index=255).inverse_temperature_ == expected
