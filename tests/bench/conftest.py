"""Tidy results for the tests of the study: synthetic ones of any shape."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import needs


def synthetic_results(
    *, n_datasets=6, methods=("ts", "svs", "sms"), models=("m1", "m2"), n_folds=2, seed=0, benchmark="b"
):
    """Finished results with random losses; every method shifts the loss of `none` by its own amount."""
    pd = needs("pandas")
    rng = np.random.default_rng(seed)
    rows = []
    for d in range(n_datasets):
        n_classes, n_cal = 3 + d % 4, 200 * (d + 1)
        for model in models:
            for fold in range(n_folds):
                base = rng.uniform(0.2, 1.0, size=2)
                for place, method in enumerate(("none", *methods)):
                    shift = 0.0 if method == "none" else -0.01 * place + rng.normal(0, 0.02)
                    rows.append(
                        {
                            "benchmark": benchmark,
                            "dataset": f"d{d}",
                            "model": model,
                            "fold": fold,
                            "method": method,
                            "n_cal": n_cal,
                            "n_test": 100,
                            "n_classes": n_classes,
                            "status": "ok",
                            "logloss": base[0] + shift,
                            "brier": base[1] * 0.5 + shift / 2,
                            "accuracy": 0.8,
                            "ece": 0.1,
                            "fit_seconds": 0.0 if method == "none" else 0.01 * place * rng.uniform(0.5, 2),
                            "predict_seconds": 0.0,
                        }
                    )
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def make_results():
    """Maker of synthetic results."""
    return synthetic_results


@pytest.fixture
def results():
    return synthetic_results()
