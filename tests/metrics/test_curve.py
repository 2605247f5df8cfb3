"""`calibration_curve` against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import calibration_curve as theirs

from calibrant.metrics import calibration_curve


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
