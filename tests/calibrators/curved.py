"""Predictions whose distortion is curved, for tests of the flexible calibrators."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def draw(n, k, seed=0):
    """Predictions whose confidence is wrong in a curved way, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    truth = np.exp(log_softmax(z - 0.15 * z**2 + 0.3 * np.roll(z, 1, axis=1), axis=1))
    y = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return np.exp(log_softmax(z, axis=1)), np.minimum(y, k - 1)


def log_loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean()
