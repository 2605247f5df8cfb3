"""A figure-less backend, and figures closed after every test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.needs import needs

matplotlib = needs("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def three() -> tuple[np.ndarray, np.ndarray]:
    """Labels and over-confident probabilities of three classes."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in truth])
    sharp = np.exp(2 * logits)
    return np.array(["ant", "bee", "cat"])[y], sharp / sharp.sum(axis=1, keepdims=True)
