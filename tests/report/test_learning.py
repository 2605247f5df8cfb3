"""What rows are worth: against fits made by hand, on data where the answer is known, and in words."""

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import get_calibrator
from calibrant.metrics.inputs import Forecasts
from calibrant.metrics.intervals import Estimate
from calibrant.metrics.recalibration import splits
from calibrant.report.comparison import cross_validate
from calibrant.report.data import Learning
from calibrant.report.learning import learning
from calibrant.report.words import worth_of_rows

from .conftest import sharpened


def skewed(n_rows, n_classes, seed=0):
    """Every class has its own fault, so that a calibrator has many numbers to learn."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((n_rows, n_classes))
    y = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    fault = np.random.default_rng(99).normal(size=(2, n_classes))
    return Forecasts(softmax(z * np.exp(0.5 * fault[0]) + fault[1], axis=1), y, None, np.arange(n_classes))


def found(data, method):
    (held_out,), failed = cross_validate(data, [method])
    assert not failed
    made = learning(data, held_out, 0.95)
    assert made is not None
    return made


def test_gains_are_those_of_fits_to_all_and_to_half_of_the_rows():
    data = sharpened(400, 3, 2.0)
    made = found(data, "ts")
    base = -np.log(data.proba[np.arange(400), data.y])
    full, half = np.empty(400), []
    for train, held_out in splits(data, 5, 0):
        fitted = get_calibrator("ts", classes=[0, 1, 2]).fit(data.proba[train], data.y[train])
        p = fitted.predict_proba(data.proba[held_out])
        full[held_out] = -np.log(p[np.arange(len(held_out)), data.y[held_out]])
    assert made.full.value == pytest.approx((base - full).mean())
    # One number is learned as well from any half.
    rng = np.random.default_rng(5)
    for train, held_out in splits(data, 5, 0):
        rows = rng.choice(train, size=len(train) // 2, replace=False)
        p = (
            get_calibrator("ts", classes=[0, 1, 2])
            .fit(data.proba[rows], data.y[rows])
            .predict_proba(data.proba[held_out])
        )
        half.append((base[held_out] + np.log(p[np.arange(len(held_out)), data.y[held_out]])).mean())
    assert made.half.value == pytest.approx(np.mean(half), abs=0.01)
    assert made.full.value - made.half.value == pytest.approx(made.added.value)


def test_one_number_is_learned_from_half_of_the_rows():
    data = sharpened(2000, 4, 2.0)
    made = found(data, "ts")
    total = float(-np.log(data.proba[np.arange(2000), data.y]).mean())
    assert worth_of_rows(made, total).startswith("With your 2,000 rows calibration is worth ")
    assert worth_of_rows(made, total).endswith("more would bring little.")


def test_many_numbers_need_more_rows():
    data = skewed(800, 8)
    made = found(data, "ms")
    assert made.added.low > 0
    total = float(-np.log(data.proba[np.arange(800), data.y]).mean())
    said = worth_of_rows(made, total)
    assert "twice as many may give about" in said
    # What is said of twice as many rows is about what they give.
    larger = found(skewed(1600, 8), "ms")
    expected = made.full.value + made.added.value / 2
    assert expected == pytest.approx(larger.full.value, abs=0.25 * made.full.value)


def test_too_few_rows_say_nothing():
    data = sharpened(30, 3, 2.0)
    (held_out,), _ = cross_validate(data, ["ts"])
    assert learning(data, held_out, 0.95) is None


def estimate(value, error):
    return Estimate(value, value - error, value + error, 0.95)


START = "With your 1,264 rows calibration is worth 6.1% of log loss; half of them "


@pytest.mark.parametrize(
    ("full", "added", "said"),
    [
        (estimate(0.061, 0.02), estimate(0.011, 0.005), START + "would give 5.0%, and more would bring little."),
        (
            estimate(0.061, 0.02),
            estimate(0.022, 0.005),
            START + "would give 3.9%, and twice as many may give about 7.2%.",
        ),
        (
            estimate(0.061, 0.02),
            estimate(0.001, 0.004),
            START + "would give about as much (6.0%), so more would bring little.",
        ),
        (
            estimate(0.061, 0.05),
            estimate(0.021, 0.04),
            START + "gave 4.0%, a difference that may be chance: whether more would help is open.",
        ),
        (
            estimate(0.001, 0.005),
            estimate(0.02, 0.01),
            "Half of the rows would do worse, so with more rows calibration may pay.",
        ),
        (estimate(0.001, 0.005), estimate(0.0, 0.01), ""),
    ],
)
def test_words(full, added, said):
    half = estimate(full.value - added.value, 0.02)
    assert worth_of_rows(Learning(1264, full, half, added), 1.0) == said
