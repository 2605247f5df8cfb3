"""Predictions of known miscalibration: labels drawn from probabilities, then the probabilities sharpened."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrant.metrics.inputs import Forecasts


def sharpened(n_rows: int, n_classes: int, power: float, seed: int = 0) -> Forecasts:
    """Labels follow `p`; the predictions are `p**power` normalised, over-confident for a power above one."""
    rng = np.random.default_rng(seed)
    z: NDArray[np.float64] = 1.5 * rng.standard_normal((n_rows, n_classes))
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    q = np.exp(power * z)
    q /= q.sum(axis=1, keepdims=True)
    return Forecasts(q, y, None, np.arange(n_classes))


@pytest.fixture(scope="session")
def overconfident() -> Forecasts:
    return sharpened(1500, 4, 2.0)
