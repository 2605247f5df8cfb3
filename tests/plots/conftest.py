"""A figure-less backend, and figures closed after every test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from calibrant.plots.reliability_displays import CURVES
from tests.needs import needs

matplotlib = needs("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    """Bands of isotonic curves from few resamples: pictures of them are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CURVES, "corp", partial(CURVES["corp"], n_resamples=20))
        yield


@pytest.fixture(scope="session")
def three() -> tuple[np.ndarray, np.ndarray]:
    """Labels and over-confident probabilities of three classes."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    sharp = np.exp(2 * logits)
    return np.array(["ant", "bee", "cat"])[y], sharp / sharp.sum(axis=1, keepdims=True)
