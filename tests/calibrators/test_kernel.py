"""Kernel calibration against the sum that defines it, and beside probmetrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, dirichlet

from calibrant.calibrators.kernel import KernelCalibrator
from tests.needs import needs
from tests.samples import binary_sample, columns, quiet, sharpened

GRID = np.concatenate([np.linspace(0.001, 0.999, 301), 10.0 ** -np.arange(4, 10)])


@pytest.mark.parametrize(("n", "bandwidth"), [(50, None), (600, None), (600, 0.002), (9_000, None)])
def test_two_classes_are_the_average_over_all_rows(n, bandwidth):
    p, y = binary_sample(n)
    ours = KernelCalibrator(bandwidth=bandwidth).fit(p, y)
    h = n ** (-2 / 5) if bandwidth is None else bandwidth
    grid = GRID if n < 9_000 else GRID[::6]
    density = beta.pdf(grid[:, None], p / h + 1, (1 - p) / h + 1)
    expected = density @ y / density.sum(axis=1)
    # Rows are merged into cells if there are many, and the map is tabulated.
    np.testing.assert_allclose(ours.predict_proba(grid)[:, 1], expected, atol=2e-6)


def test_more_classes_are_the_average_over_all_rows():
    p, y = sharpened(200, 3, power=1.0)
    ours = KernelCalibrator().fit(p, y)
    h = 200 ** (-2 / 6)
    test, _ = sharpened(8, 3, seed=4)
    density = np.array([[dirichlet.pdf(z, q / h + 1) for q in p] for z in test])
    expected = density @ np.eye(3)[y] / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ours.predict_proba(test), expected, atol=1e-9)


def test_many_rows_of_more_classes_are_drawn_with_a_seed():
    p, y = sharpened(500, 3)
    a, b, c = (KernelCalibrator(max_rows=100, random_state=s).fit(p, y).predict_proba(p) for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 1e-4


@pytest.mark.peer
@pytest.mark.parametrize("k", [2, 4])
def test_beside_probmetrics(k):
    with quiet():
        peers = needs("probmetrics.calibrators.nonparametric")
        p, y = sharpened(800, k) if k > 2 else binary_sample(800)
        p = p if k > 2 else columns(p)
        expected = peers.KernelCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(KernelCalibrator().fit(p, y).predict_proba(p), expected, atol=1e-6)


def test_rows_that_are_no_probabilities_are_refused_in_a_state():
    ours = KernelCalibrator().fit(*sharpened(30, 3))
    ours.check_state()
    ours.rows_ = ours.rows_ * 1.9
    with pytest.raises(ValueError, match=r"rows_ holds numbers outside \[0, 1\]"):
        ours.check_state()
