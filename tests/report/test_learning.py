"""What rows are worth: against fits made by hand, on data where the answer is known, and in words."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import get_calibrator
from calibrant.metrics.recalibration import splits
from calibrant.metrics.result_types import Estimate
from calibrant.random_numbers import generator
from calibrant.report.advice import worth_of_rows
from calibrant.report.comparison import cross_validate, learning
from calibrant.report.data import Learning
from calibrant.sample import Sample, Size

from .conftest import sharpened


def skewed(n_rows, n_classes, seed=0):
    """Every class has its own fault, so that a calibrator has many numbers to learn."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((n_rows, n_classes))
    y = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    fault = np.random.default_rng(99).normal(size=(2, n_classes))
    return Sample(softmax(z * np.exp(0.5 * fault[0]) + fault[1], axis=1), y, None, classes=np.arange(n_classes))


def found(data, method):
    (held_out,), failed = cross_validate(data, [method])
    assert not failed
    made = learning(data, held_out, 0.95)
    assert made is not None
    return made


def test_gains_lead_from_fits_to_two_sizes_to_all_rows():
    data = sharpened(400, 3, 2.0)
    made = found(data, "ts")
    base = -np.log(data.proba[np.arange(400), data.y])

    def gain(rows, held_out):
        fitted = get_calibrator("ts", classes=[0, 1, 2]).fit(data.proba[rows], data.y[rows])
        p = fitted.predict_proba(data.proba[held_out])
        return base[held_out] + np.log(p[np.arange(len(held_out)), data.y[held_out]])

    most, fewer = np.empty(400), np.empty((2, 400))
    side = data.folds(2, generator(1))
    for train, held_out in splits(data, 5, 0):
        most[held_out] = gain(train, held_out)
        for which in (0, 1):
            fewer[which, held_out] = gain(train[side[train] == which], held_out)
    most, fewer = most.mean(), fewer.mean()
    assert made.added.value == pytest.approx(most - fewer)
    # A curve a - b / sqrt(n) through 160 and 320 rows, at 200, 400 and 800.
    b = (most - fewer) / (160**-0.5 - 320**-0.5)
    for gain_at, rows in ((made.half, 200), (made.full, 400), (made.double, 800)):
        assert gain_at.value == pytest.approx(most + b * (320**-0.5 - rows**-0.5))
    assert made.fitted == 0.8


def test_one_number_is_learned_from_half_of_the_rows():
    data = sharpened(2000, 4, 2.0)
    made = found(data, "ts")
    total = float(-np.log(data.proba[np.arange(2000), data.y]).mean())
    assert worth_of_rows(made, total).startswith("With all 2,000 rows calibration saves about ")
    assert worth_of_rows(made, total).endswith("more rows would add little.")


def test_many_numbers_need_more_rows():
    data = skewed(800, 8)
    made = found(data, "ms")
    assert made.added.low > 0
    total = float(-np.log(data.proba[np.arange(800), data.y]).mean())
    assert "and twice as many about" in worth_of_rows(made, total)
    # What is said of rows is about what fits to fresh draws give on other rows.
    fresh = skewed(20000, 8, seed=1)
    base = -np.log(fresh.proba[np.arange(20000), fresh.y])
    for said, rows in ((made.half, 400), (made.full, 800), (made.double, 1600)):
        gains = []
        for start in (0, 2000, 4000):
            part = slice(start, start + rows)
            p = get_calibrator("ms").fit(fresh.proba[part], fresh.y[part]).predict_proba(fresh.proba[8000:])
            gains.append((base[8000:] + np.log(p[np.arange(12000), fresh.y[8000:]])).mean())
        assert said.value == pytest.approx(np.mean(gains), abs=0.2 * made.full.value), rows


@pytest.mark.parametrize("copies", [3, 9])
def test_copies_and_counts_are_worth_the_same(copies):
    data = sharpened(120, 3, 2.0)
    counted = replace(data, counts=np.full(120, float(copies)))
    written = data.take(np.repeat(np.arange(120), copies))
    one, other = found(counted, "isotonic"), found(written, "isotonic")
    for name in ("half", "full", "double", "added"):
        assert getattr(one, name).value == pytest.approx(getattr(other, name).value, abs=0.02), name
    # Rows that were learned from are nowhere among those that are predicted: copies are no new rows.
    assert other.full.value == pytest.approx(found(data, "isotonic").full.value, abs=0.05)


def estimate(value, error):
    return Estimate(value, value - error, value + error, 0.95)


START = "With all 1,264 rows calibration saves about 6.1% of log loss; half of them "


@pytest.mark.parametrize(
    ("full", "added", "said"),
    [
        (estimate(0.061, 0.02), estimate(0.008, 0.005), START + "would give 5.5%, and more rows would add little."),
        (estimate(0.061, 0.02), estimate(0.022, 0.005), START + "would give 4.4%, and twice as many about 7.3%."),
        (
            estimate(0.061, 0.02),
            estimate(0.001, 0.004),
            START + "would give about as much (6.0%), so more rows would add little.",
        ),
        (
            estimate(0.061, 0.05),
            estimate(0.021, 0.04),
            START + "gave 4.5%, a difference that may be chance: whether more rows would help is unclear.",
        ),
        (
            estimate(0.001, 0.005),
            estimate(0.02, 0.01),
            "Half of the rows would do worse, so calibration may help with more rows.",
        ),
        (estimate(0.001, 0.005), estimate(0.0, 0.01), ""),
        (Estimate(0.05, 0.0, 0.1, 0.95), estimate(0.0, 0.01), ""),
        (estimate(-0.1, 0.05), estimate(0.02, 0.01), ""),
        (estimate(0.061, 0.02), estimate(0.2, 0.1), START + "would be too few, so more are likely to help."),
        (
            estimate(0.077, 0.02),
            estimate(0.1, 0.05),
            START.replace("6.1", "7.7") + "would be too few, so more are likely to help.",
        ),
    ],
)
def test_words(full, added, said):
    half, double = (estimate(full.value + times * added.value, 0.02) for times in (-0.77, 0.54))
    assert worth_of_rows(Learning(Size(1264), 0.8, half, full, double, added), 1.0) == said
    # All in shares of the loss: of twice the gains with twice the loss the same is said.
    twice = [Estimate(2 * part.value, 2 * part.low, 2 * part.high, 0.95) for part in (half, full, double, added)]
    assert worth_of_rows(Learning(Size(1264), 0.8, *twice), 2.0) == said


def test_rows_are_counted_in_words():
    gains = [estimate(value, 0.001) for value in (0.05, 0.06, 0.07, 0.02)]
    for size, start in (
        (Size(150, 1350.0), "With all 150 rows, 1,350 observations calibration"),
        (Size(300, groups=30), "With all 300 rows in 30 groups calibration"),
    ):
        assert worth_of_rows(Learning(size, 0.8, *gains), 1.0).startswith(start)
    sampled = worth_of_rows(Learning(Size(300), 0.8, *gains), 1.0, sampled=True)
    assert sampled.startswith("With the 300 rows of the sample calibration")
