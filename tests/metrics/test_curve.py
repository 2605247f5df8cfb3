"""`calibration_curve` against scikit-learn's, and the axes of curves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import calibration_curve as theirs

from calibrant.metrics import calibration_curve
from calibrant.metrics.result_types import ScoreAxis, fitting_axis, round_axis, round_step, well_inside


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 5, 10])
@pytest.mark.parametrize("decimals", [1, 15])
def test_two_classes(strategy, n_bins, decimals):
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 1.0, 400).round(decimals)  # rounded: scores on the edges of bins
    y = np.where(rng.random(400) < p, "yes", "no")
    expected = theirs(y, p, n_bins=n_bins, strategy=strategy, pos_label="yes")
    both = np.column_stack([1 - p, p])
    for given, options in [(p, {"pos_label": "yes"}), (p[:, None], {"pos_label": "yes"}), (both, {})]:
        assert_allclose(calibration_curve(y, given, n_bins=n_bins, strategy=strategy, **options), expected, rtol=1e-12)


def test_more_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = rng.integers(3, size=300)
    assert_allclose(calibration_curve(y, p), theirs(p.argmax(axis=1) == y, p.max(axis=1)))
    assert_allclose(calibration_curve(y, p, pos_label=2), theirs(y == 2, p[:, 2]))


def test_bins_without_a_row_are_left_out():
    y, p = np.array([0, 1, 1, 0, 1]), np.array([0.05, 0.15, 0.45, 0.9, 0.95])
    frequency, score = calibration_curve(y, p)
    assert_allclose(frequency, [0.5, 1, 0.5])
    assert_allclose(score, [0.1, 0.45, 0.925])


def test_errors():
    with pytest.raises(ValueError, match="pos_label"):
        calibration_curve(["a", "b"], [0.1, 0.2])
    with pytest.raises(ValueError, match="3 classes"):
        calibration_curve([0, 1, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="strategy"):
        calibration_curve([0, 1], [0.1, 0.2], strategy="percentile")


def test_axes_place_probabilities_and_ticks():
    odds = ScoreAxis(0.001, 0.999, True)
    assert_allclose(ScoreAxis(0.2, 0.6).place(np.array([0.1, 0.3])), [-0.25, 0.25])
    assert_allclose(odds.place(np.array([0.0, 0.001, 0.5, 1.0])), [0.0, 0.0, 0.5, 1.0], atol=1e-12)
    assert str(ScoreAxis().ticks(3)) == "[0.0, 0.5, 1.0]"  # and no zero with a minus
    assert ScoreAxis(0.55, 0.8).ticks() == [0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
    assert ScoreAxis(0.0, 0.05).ticks() == [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    assert odds.ticks() == [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]


def test_a_log_odds_axis_leaves_ticks_out_where_there_are_too_many():
    assert ScoreAxis(1e-6, 0.9999, True).ticks() == [1e-6, 1e-4, 0.01, 0.5, 0.99, 0.9999]
    small = [1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1]
    assert ScoreAxis(1e-6, 0.9999, True).ticks(10) == [*small, 0.5, 0.9, 0.99, 0.999, 0.9999]
    assert ScoreAxis(0.001, 0.999, True).ticks(3) == [0.001, 0.5, 0.999]
    assert ScoreAxis(0.002, 0.95, True).ticks() == [0.01, 0.1, 0.5, 0.9]


def test_histograms_have_bins_of_equal_width_on_their_axis():
    rng = np.random.default_rng(0)
    p, weight = rng.uniform(0.2, 0.6, 50), rng.random(50)
    assert_allclose(ScoreAxis(0.2, 0.6).histogram(p, weight, 8), np.histogram(p, 8, (0.2, 0.6), weights=weight)[0])


@pytest.mark.parametrize(
    ("width", "most", "step"),
    [(0.37, 5, 0.1), (1.0, 2, 0.5), (0.5, 5, 0.1), (0.6, 5, 0.2), (0.3, 1, 0.5), (0.9, 1, 1.0), (0.02, 5, 0.005)],
)
def test_steps_are_one_two_or_five(width, most, step):
    assert round_step(width, most) == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "axis"),
    [
        (0.01, 0.037, (0.0, 0.04)),
        (0.62, 0.97, (0.6, 1.0)),
        (0.0, 0.0, (0.0, 0.001)),
        (0.39, 1.0, (0.0, 1.0)),  # zero is near
        (0.4, 1.0, (0.4, 1.0)),
        (0.95, 1.0, (0.0, 1.0)),  # too short to start elsewhere
        (0.89, 1.0, (0.85, 1.0)),
        (0.6, 1.0, (0.6, 1.0)),  # 0.6 / 0.1 is less than 6, and 0.07 / 0.01 more than 7
        (0.03, 0.07, (0.03, 0.07)),
        (0.05, 0.105, (0.04, 0.12)),
    ],
)
def test_axes_have_round_ends(low, high, axis):
    assert round_axis(low, high) == ScoreAxis(*axis)


@pytest.mark.parametrize(
    ("weight", "inside"),
    [
        ([3.0, 40.0, 200.0, 9.0], [False, True, True, False]),
        ([10.0, 980.0, 10.0], [True, True, True]),
        ([9.9, 980.0, 9.9], [False, True, False]),
        ([5.0, 90.0, 5.0], [True, True, True]),  # a twentieth of few
        ([4.9, 90.2, 4.9], [False, True, False]),
        ([1.0], [True]),
    ],
)
def test_ten_observations_or_a_twentieth_lie_beyond_an_end(weight, inside):
    assert well_inside(np.array(weight)).tolist() == inside


def test_axes_end_where_the_rows_do():
    places, weight = np.array([0.1, 0.3, 0.35, 0.9]), np.array([300.0, 300.0, 300.0, 1.0])
    assert fitting_axis(places, places, weight) == ScoreAxis(0.0, 0.4)  # a single row far away does not count
    assert fitting_axis(np.array([0.01, 0.03]), np.array([0.0, 0.02]), np.ones(2)) == ScoreAxis(0.0, 0.03)
    # Frequencies beyond the scores count, if a fiftieth of the observations has them.
    score, frequency = np.array([0.7, 0.75, 0.8, 0.85]), np.array([0.6, 0.75, 0.8, 0.9])
    assert fitting_axis(score, frequency, np.full(4, 100.0)) == ScoreAxis(0.6, 0.9)
    assert fitting_axis(score, frequency, np.array([15.0, 700.0, 700.0, 15.0])) == ScoreAxis(0.7, 0.85)
    assert fitting_axis(score, frequency, np.array([35.0, 700.0, 700.0, 35.0])) == ScoreAxis(0.6, 0.9)


@pytest.mark.parametrize(
    ("first", "last", "ends"),
    [
        (0.003, 0.2, (0.001, 0.5)),
        (0.2, 0.5, (0.01, 0.5)),
        (0.001, 0.95, (0.001, 0.99)),
        (1e-9, 0.999, (1e-6, 0.999)),
        (0.5, 0.9995, (0.01, 0.9999)),
        (0.5, 1.0, (0.01, 0.9999)),
    ],
)
def test_log_odds_axes_end_at_orders_of_magnitude(first, last, ends):
    axis = fitting_axis(np.array([first, last]), np.array([0.0, 1.0]), np.ones(2), log_odds=True)
    assert axis == ScoreAxis(pytest.approx(ends[0], rel=1e-9), ends[1], True)
