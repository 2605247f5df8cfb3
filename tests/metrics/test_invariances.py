"""What no metric may depend on: the order of the rows, weights or repetition, absent rows, the names of classes."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import evaluate, list_metrics

from .conftest import Flatten

Data = tuple[np.ndarray, np.ndarray]
NAMES = sorted(list_metrics())
WITH_CALIBRATOR = {"calibration_loss", "refinement_loss", "lp_calibration_error"}
#: Which speaks of the last column, and which of classes in their order.
OF_COLUMNS = {"positive_gap", "ranked_probability_score"}
#: What one row cannot have: two classes to tell apart, or a reference that makes an error.
OF_SEVERAL_ROWS = {"auroc", "gini", "ks_separation", "brier_skill_score"}
#: What weighs a weak prior against observations, or rests each point of a curve on whole ones.
OF_OBSERVATIONS = {"calibration_slope", "integrated_calibration_index"}
BINNED = {"ece", "rms_calibration_error", "maximum_calibration_error"}


def value(name: str, y: object, p: object, **arguments: object) -> float:
    options: dict = {"method": Flatten()} if name in WITH_CALIBRATOR else {}
    return evaluate(y, p, [name], options={name: options | arguments.pop("options", {})}, **arguments)[name]  # type: ignore[arg-type, operator]


@pytest.fixture(params=["binary", "multiclass"])
def data(request: pytest.FixtureRequest) -> Data:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_rows(name: str, data: Data) -> None:
    y, p = data
    order = np.random.default_rng(0).permutation(len(y))
    assert value(name, y[order], p[order]) == pytest.approx(value(name, y, p), abs=1e-9)


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITH_CALIBRATOR - OF_OBSERVATIONS))
def test_the_unit_of_weights(name: str, binary: Data) -> None:
    y, p = (part[:100] for part in binary)
    weight = np.random.default_rng(0).random(100)
    tiny, usual = (value(name, y, p, sample_weight=unit * weight) for unit in (1e-298, 1.0))
    assert tiny == pytest.approx(usual, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_weights_equal_repetition_and_zero_equals_absence(name: str, data: Data) -> None:
    y, p = data
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    variants: list[dict] = [{}]
    if name in BINNED:
        variants = [{"strategy": "uniform"}, {"strategy": "quantile"}]
        if name != "maximum_calibration_error":
            variants += [{"strategy": "quantile", "debias": True}]
    for options in variants:
        weighted = value(name, y, p, sample_weight=weight, options=options)
        assert weighted == pytest.approx(value(name, y[repeated], p[repeated], options=options), abs=1e-9)


@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_COLUMNS))
def test_names_and_order_of_classes(name: str, multiclass: Data) -> None:
    y, p = multiclass
    names = np.array(["d", "b", "c", "a"])
    expected = value(name, y, p)
    assert value(name, names[y], p, classes=names) == pytest.approx(expected, abs=1e-12)
    order = np.argsort(names)
    assert value(name, names[y], p[:, order]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", sorted(WITH_CALIBRATOR))
def test_one_row_is_too_few_to_cross_validate(name: str) -> None:
    with pytest.raises(ValueError, match=r"cv must lie between 2 and the number of rows \(1\)"):
        value(name, [1], [0.3])


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITH_CALIBRATOR - OF_SEVERAL_ROWS))
def test_one_row(name: str) -> None:
    assert np.isfinite(value(name, [1], [0.3]))
    assert np.isfinite(value(name, [2], [[0.2, 0.2, 0.6]], classes=[0, 1, 2]))


@pytest.mark.parametrize("name", NAMES)
def test_float32_is_close_to_float64(name: str, multiclass: Data) -> None:
    y, p = multiclass
    tolerance = 0.02 if name in BINNED else 2e-5
    assert value(name, y, p.astype(np.float32)) == pytest.approx(value(name, y, p), abs=tolerance)
