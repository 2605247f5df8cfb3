"""Predictions to calibrate, for tests."""

from __future__ import annotations

import numpy as np


def overconfident(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a model that exaggerates its logits and confuses classes, and labels 0..k-1, all present."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    y[:k] = np.arange(k)[:n]
    x = z @ (1.8 * np.eye(k) + 0.15 * rng.normal(size=(k, k))).T + 0.5 * rng.normal(size=k)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-300))))
