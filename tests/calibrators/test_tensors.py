"""Fits and predictions of torch tensors: those of arrays, on the tensors' device."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import get_calibrator
from calibrant.inputs.words import CalibrationWarning
from tests.calibrators.homes import ANY, CASES, TIGHT, assert_same, predictions
from tests.needs import needs

torch = needs("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::calibrant.inputs.words.ClassOrderWarning"),
]


@pytest.mark.parametrize(("name", "k"), CASES)
def test_fits_are_those_of_arrays(name: str, k: int) -> None:
    p, y, weight = predictions(700, k)
    labels = np.array(["d", "b", "c", "a"])[:k]
    options = {"classes": labels, **TIGHT.get(name, {})}
    expected = get_calibrator(name, **options).fit(p, labels[y], weight)
    found = get_calibrator(name, **options).fit(torch.as_tensor(p), labels[y], weight)
    assert_same(found, expected)
    tensor = found.predict_proba(torch.as_tensor(p))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float64
    np.testing.assert_allclose(tensor.numpy(), found.predict_proba(p), atol=1e-12)
    assert found.predict(torch.as_tensor(p)).tolist() == found.predict(p).tolist()


@pytest.mark.parametrize("name", ["ts", "sms", "svs", "dirichlet", "logistic"])
@pytest.mark.filterwarnings("ignore::calibrant.inputs.words.CalibrationWarning")
def test_absent_classes_and_logits(name: str) -> None:
    p, y, _ = predictions(500, 5)
    y = np.where(y == 3, 1, y)
    # Slopes of Dirichlet calibration have no penalty: the optimum is at infinity for a class that never occurs.
    finite = name != "dirichlet"
    options = {"input": "logits", "classes": range(5), **(TIGHT.get(name, {}) if finite else {})}
    expected, found = (get_calibrator(name, **options) for _ in range(2))
    expected.fit(np.log(p), y)
    found.fit(torch.log(torch.as_tensor(p)), torch.as_tensor(y))
    np.testing.assert_allclose(found.predict_proba(np.log(p)), expected.predict_proba(np.log(p)), atol=1e-4)
    if finite:
        assert_same(found, expected)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-3), ("bfloat16", 2e-3), ("float16", 2e-3)])
@pytest.mark.parametrize("name", ANY)
def test_narrow_tensors_are_computed_in_single_precision(name: str, dtype: str, rtol: float) -> None:
    p, y, _ = predictions(700, 3)
    logits = torch.log(torch.as_tensor(p)).to(getattr(torch, dtype))
    expected = get_calibrator(name, input="logits").fit(logits.to(torch.float64).numpy(), y)
    found = get_calibrator(name, input="logits").fit(logits, y)
    assert_same(found, expected, rtol=rtol)
    out = found.predict_proba(logits)
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out.numpy(), expected.predict_proba(logits.to(torch.float64).numpy()), atol=1e-4)


@pytest.mark.parametrize("name", ["ts", "sms", "isotonic", "auto", "venn-abers", "histogram"])
def test_every_method_predicts_tensors(name: str) -> None:
    p, y, _ = predictions(300, 3)
    calibrator = get_calibrator(name).fit(p, y)
    found = calibrator.predict_proba(torch.as_tensor(p))
    np.testing.assert_allclose(found.numpy(), calibrator.predict_proba(p), atol=1e-12)
    np.testing.assert_array_equal(
        calibrator.predict_log_proba(torch.as_tensor(p)).exp().argmax(1).numpy(), found.argmax(1).numpy()
    )


def test_gradients_flow_through_prediction_if_asked() -> None:
    p, y, _ = predictions(300, 3)
    calibrator = get_calibrator("sms", input="logits").fit(np.log(p), y)
    logits = torch.log(torch.as_tensor(p[:4])).requires_grad_()
    assert torch.autograd.gradcheck(calibrator.predict_proba, (logits,))
    assert not calibrator.predict_proba(logits.detach()).requires_grad


@pytest.mark.parametrize(
    ("row", "column", "value", "match"),
    [
        (3, 1, np.nan, "nan at row 3, column 1"),
        (2, 0, 1.4, "1.4 at row 2, column 0"),
        (1, 2, 0.9, "Row 1 of X sums to"),
    ],
)
def test_errors_are_those_of_arrays(row: int, column: int, value: float, match: str) -> None:
    p = np.tile([0.2, 0.3, 0.5], (5, 1))
    p[row, column] = value
    for X in (p, torch.as_tensor(p)):
        with pytest.raises(ValueError, match=match):
            get_calibrator("ts").fit(X, [0, 1, 2, 0, 1])
    with pytest.raises(ValueError, match="3 dimensions"):
        get_calibrator("ts").fit(torch.zeros((2, 3, 4)), [0, 1])
    fitted = get_calibrator("ts").fit(*predictions(50, 3)[:2])
    with pytest.raises(ValueError, match="X has 2 features"):
        fitted.predict_proba(torch.full((2, 2), 0.5))


@pytest.mark.parametrize("name", ["ts", "sms", "beta"])
def test_soft_labels_are_those_of_arrays(name: str) -> None:
    p, y, weight = predictions(300, 3)
    votes = np.random.default_rng(1).integers(0, 3, p.shape) + 2.0 * np.eye(3)[y]
    options = TIGHT.get(name, {})
    expected = get_calibrator(name, **options).fit(p, votes, weight)
    found = get_calibrator(name, **options).fit(torch.as_tensor(p), torch.as_tensor(votes), torch.as_tensor(weight))
    assert_same(found, expected)


def test_single_columns_and_one_class() -> None:
    p, y, _ = predictions(200, 2)
    expected, found = get_calibrator("ts").fit(p[:, 1], y), get_calibrator("ts").fit(torch.as_tensor(p[:, 1]), y)
    assert_same(found, expected)
    assert found.predict_proba(torch.as_tensor(p[:3, 1])).shape == (3, 2)
    with pytest.warns(CalibrationWarning, match="All 200 calibration rows have the label 1"):
        get_calibrator("ts", classes=[0, 1]).fit(torch.as_tensor(p), np.ones(200, dtype=int))
