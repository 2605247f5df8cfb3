"""Predictions with known defects, and a way to run other packages without their warnings."""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np


def binary_sample(n, seed=0, slope=0.6, shift=0.3, wave=0.0):
    """Probabilities of the second class whose true log-odds are ``slope z + shift + wave sin z``, and labels."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=n)
    truth = 1.0 / (1.0 + np.exp(-(slope * z + shift + wave * np.sin(2.0 * z))))
    return 1.0 / (1.0 + np.exp(-z)), (rng.random(n) < truth).astype(int)


def multiclass_sample(n, k, seed=0, temperature=2.0):
    """Overconfident probabilities of k classes, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 1.5
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.minimum((p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1), k - 1)
    q = np.exp(temperature * z)
    return q / q.sum(axis=1, keepdims=True), y


def columns(p):
    return np.column_stack([1.0 - p, p])


@contextlib.contextmanager
def quiet():
    """Without the warnings, progress bars and prints of other packages."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def mean_log_loss(q, y):
    q = q[np.arange(len(y)), y] if q.ndim == 2 else np.where(y == 1, q, 1.0 - q)
    return -np.log(np.clip(q, 1e-15, 1.0)).mean()
