"""Predictions of known miscalibration: labels drawn from probabilities, then the probabilities sharpened."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.sample import Sample
from tests import samples
from tests.quick import every_resample, few_resamples  # noqa: F401


def sharpened(n_rows: int, n_classes: int, power: float, seed: int = 0) -> Sample:
    """Labels follow `p`; the predictions are `p**power` normalised, over-confident for a power above one."""
    p, y = samples.sharpened(n_rows, n_classes, power, seed)
    return Sample(p, y, None, classes=np.arange(n_classes))


@pytest.fixture(scope="session")
def overconfident() -> Sample:
    return sharpened(1000, 4, 2.0)
