"""What every registered method promises: valid distributions whatever the data, weights as repetition, any labels."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from calibrant import CalibrationWarning, get_calibrator, list_calibrators
from tests.combinations import each, one_per_class, with_classes
from tests.needs import needs
from tests.samples import sharpened

ALL = list_calibrators()
EACH_CLASS = one_per_class(ALL)
EXTRA = {info.name: info.extra for info in list_calibrators()}
METHODS = each(ALL, EACH_CLASS)

#: Methods with trees, whose thresholds and samples of rows depend on the number of rows.
ROW_FOLDS = {"lightgbm", "xgboost", "catboost", "auto", "auto-fast"}


def make(name):
    extra = EXTRA[name]
    if extra is not None:
        needs(name)
    return get_calibrator(name)


def check_distribution(q, shape):
    assert q.shape == shape
    assert np.isfinite(q).all()
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-9)


def quiet_fit(calibrator, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # an unpenalised fit may have no optimum here
        return calibrator.fit(*args)


HARD = {
    "one row": lambda k: (np.full((1, k), 1.0 / k), np.array([1])),
    "two rows": lambda k: (np.eye(k)[:2], np.array([0, 1])),
    "constant": lambda k: (np.full((40, k), 1.0 / k), np.arange(40) % k),
    "one class": lambda k: (sharpened(40, k)[0], np.ones(40, dtype=int)),
    "zeros and ones": lambda k: (np.eye(k)[np.arange(60) % k], np.arange(60) // 2 % k),
    "always right": lambda k: (np.eye(k)[np.arange(30) % k], np.arange(30) % k),
    "always wrong": lambda k: (np.eye(k)[np.arange(30) % k], (np.arange(30) + 1) % k),
    "ties": lambda k: (np.round(sharpened(80, k)[0][:, :1] * 4) / 4 * np.eye(k)[0] + 0.0, sharpened(80, k)[1]),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(("name", "k"), with_classes(ALL, 2, 4, often=EACH_CLASS))
def test_hard_data_give_valid_distributions(name, case, k):
    p, y = HARD[case](k)
    if case == "ties":
        p = p + (1.0 - p.sum(axis=1, keepdims=True)) / (k - 1) * (1.0 - np.eye(k)[0])
    calibrator = make(name).set_params(classes=list(range(k)))
    quiet_fit(calibrator, p, y)
    test = np.vstack([np.eye(k), sharpened(20, k, seed=1)[0], np.full((1, k), 1.0 / k)])
    check_distribution(calibrator.predict_proba(test), test.shape)


@pytest.mark.parametrize(("name", "k"), with_classes(ALL, 3, often=EACH_CLASS))
def test_class_absent_from_calibration_data(name, k):
    p, y = sharpened(150, k)
    calibrator = make(name)
    quiet_fit(calibrator, p, np.where(y == 2, 1, y))
    check_distribution(calibrator.predict_proba(p), p.shape)


@pytest.mark.parametrize(
    ("name", "k"),
    with_classes([info for info in ALL if info.extra is None and info.name not in ROW_FOLDS], 2, 3, often=EACH_CLASS),
)
def test_weight_equals_repetition(name, k):
    p, y = sharpened(90, k)
    weight = np.random.default_rng(2).integers(0, 4, size=90)
    repeated = np.repeat(np.arange(90), weight)
    a = make(name).fit(p, y, sample_weight=weight.astype(float)).predict_proba(p)
    b = make(name).fit(p[repeated], y[repeated]).predict_proba(p)
    np.testing.assert_allclose(a, b, atol=1e-6)


#: Where next to nothing is penalised, these take thousands of small steps, each of which is traced.
MANY_STEPS = {("sqs", 2, 1e90), ("sqs", 3, 1e90)}


def with_scales():
    methods = with_classes([info for info in ALL if info.extra is None], 2, 3, often=one_per_class(ALL, base=True))
    for name, k in (method.values for method in methods if not method.marks):
        for scale in (1e-300, 1e-13, 5e7, 1e90):
            slow = scale == 1e-13 or (name, k, scale) in MANY_STEPS
            yield pytest.param(name, k, scale, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize(("name", "k", "scale"), list(with_scales()))
def test_weights_of_any_size_give_valid_distributions_in_little_memory(name, k, scale):
    p, y = sharpened(60, k)
    tracemalloc.start()
    try:
        calibrator = quiet_fit(make(name), p, y, np.linspace(0.5, 1.5, 60) * scale)
        check_distribution(calibrator.predict_proba(p), p.shape)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("info", METHODS)
def test_labels_of_any_type(info):
    name, k = info.name, 3 if info.multiclass else 2
    p, y = sharpened(120, k)
    names = np.array(["blue", "green", "red"])[:k]
    numbers = make(name).fit(p, y)
    words = make(name).fit(p, names[y])
    np.testing.assert_array_equal(words.classes_, names)
    np.testing.assert_array_equal(numbers.predict_proba(p), words.predict_proba(p))
    assert set(words.predict(p)) <= set(names.tolist())


@pytest.mark.parametrize("info", METHODS)
def test_fits_are_deterministic(info):
    name, k = info.name, 3 if info.multiclass else 2
    p, y = sharpened(120, k)
    calibrator = make(name).fit(p, y)
    again = clone(calibrator).fit(p, y)
    np.testing.assert_array_equal(calibrator.predict_proba(p), again.predict_proba(p))


@pytest.mark.parametrize("info", each([info for info in ALL if info.extra is None][1:], EACH_CLASS))
def test_overconfident_predictions_lose_less_after_calibration(info):
    name, k = info.name, 3 if info.multiclass else 2
    p, y = sharpened(4000, k, power=3.0)
    test, labels = sharpened(4000, k, seed=5, power=3.0)
    rows = np.arange(len(labels))
    before = np.log(np.clip(test[rows, labels], 1e-3, 1.0)).mean()
    after = np.log(np.clip(make(name).fit(p, y).predict_proba(test)[rows, labels], 1e-3, 1.0)).mean()
    assert after > before + 0.02
