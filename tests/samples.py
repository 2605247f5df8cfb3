"""Predictions with known defects, and labels: what tests of several rooms draw their data from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Sample = tuple[NDArray[np.float64], NDArray[np.int64]]


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def draw_labels(p: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A label for each row, drawn from its probabilities."""
    return np.minimum((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)


def sharpened(n: int, k: int, power: float = 2.0, seed: int = 0) -> Sample:
    """Labels follow `p`; the predictions are `p**power` normalised: too extreme above one, too timid below."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((n, k))
    return _softmax(power * z), draw_labels(_softmax(z), rng)
