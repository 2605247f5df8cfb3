"""Small predictions that every format must carry unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.files.prediction_sets.experiments import SplitPredictions


def make_predictions(n_classes: int, seed: int = 0, n_cal: int = 30, n_test: int = 12) -> SplitPredictions:
    rng = np.random.default_rng(seed)
    # float32 as in published files, so that storing them loses nothing
    p = rng.dirichlet(np.ones(n_classes), n_cal + n_test).astype(np.float32)
    y = rng.integers(n_classes, size=n_cal + n_test)
    return SplitPredictions.checked(p[:n_cal], y[:n_cal], p[n_cal:], y[n_cal:])


@pytest.fixture
def prediction_set() -> dict[tuple[str, str, int | str], SplitPredictions]:
    return {
        ("iris", "LR", 0): make_predictions(3, 1),
        ("iris", "LR", 1): make_predictions(3, 2),
        ("iris", "RF", 0): make_predictions(3, 3),
        ("coins", "LR", 0): make_predictions(2, 4, n_cal=9),
    }
