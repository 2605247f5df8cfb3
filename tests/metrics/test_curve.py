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


def test_errors():
    with pytest.raises(ValueError, match="pos_label"):
        calibration_curve(["a", "b"], [0.1, 0.2])
    with pytest.raises(ValueError, match="3 classes"):
        calibration_curve([0, 1, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="strategy"):
        calibration_curve([0, 1], [0.1, 0.2], strategy="percentile")


def test_axes_place_probabilities_and_ticks():
    odds = ScoreAxis(0.001, 0.999, True)
    assert_allclose(ScoreAxis(0.0, 0.1).place(np.array([0.05])), [0.5])
    assert_allclose(odds.place(np.array([0.0, 0.001, 0.5, 1.0])), [0.0, 0.0, 0.5, 1.0], atol=1e-12)
    assert ScoreAxis().ticks(3) == [0.0, 0.5, 1.0]
    assert ScoreAxis(0.55, 0.8).ticks() == [0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
    assert ScoreAxis(0.0, 0.05).ticks() == [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    assert odds.ticks() == [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]


def test_axes_are_round_and_end_where_the_rows_do():
    assert (round_step(0.37, 5), round_step(1.0, 2)) == (0.1, 0.5)
    assert round_axis(0.01, 0.037) == ScoreAxis(0.0, 0.04)
    assert round_axis(0.62, 0.97) == ScoreAxis(0.6, 1.0)
    assert well_inside(np.array([3.0, 40.0, 200.0, 9.0])).tolist() == [False, True, True, False]
    places, weight = np.array([0.1, 0.3, 0.35, 0.9]), np.array([300.0, 300.0, 300.0, 1.0])
    assert fitting_axis(places, places, weight) == ScoreAxis(0.0, 0.4)  # a single row far away does not count
    assert fitting_axis(np.array([0.01, 0.03]), np.array([0.0, 0.02]), np.ones(2)) == ScoreAxis(0.0, 0.03)
