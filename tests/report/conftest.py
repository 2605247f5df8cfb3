"""Predictions of known miscalibration: labels drawn from probabilities, then the probabilities sharpened."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics.inputs import Forecasts
from tests import samples


def sharpened(n_rows: int, n_classes: int, power: float, seed: int = 0) -> Forecasts:
    """Labels follow `p`; the predictions are `p**power` normalised, over-confident for a power above one."""
    p, y = samples.sharpened(n_rows, n_classes, power, seed)
    return Forecasts(p, y, None, np.arange(n_classes))


@pytest.fixture(scope="session")
def overconfident() -> Forecasts:
    return sharpened(1500, 4, 2.0)
