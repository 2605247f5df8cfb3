"""Predictions with known defects, and labels: what tests of all rooms draw their data from."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

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


def calibrated(n: int = 60, k: int = 3, seed: int = 0) -> Sample:
    """Labels follow the predictions, except the first k, which are 0..k-1: no class is absent."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=n)
    y = draw_labels(p, rng)
    y[:k] = np.arange(k)[:n]
    return p, y


def binary_sample(n: int, seed: int = 0, slope: float = 0.6, shift: float = 0.3, wave: float = 0.0) -> Sample:
    """Probabilities of the second class whose true log-odds are ``slope z + shift + wave sin z``, and labels."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=n)
    truth = 1.0 / (1.0 + np.exp(-(slope * z + shift + wave * np.sin(2.0 * z))))
    return 1.0 / (1.0 + np.exp(-z)), (rng.random(n) < truth).astype(int)


def curved(n: int, k: int, seed: int = 0) -> Sample:
    """Predictions whose confidence is wrong in a curved way, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    return _softmax(z), draw_labels(_softmax(z - 0.15 * z**2 + 0.3 * np.roll(z, 1, axis=1)), rng)


def confused(n: int, k: int, seed: int = 0) -> Sample:
    """Probabilities of a model that exaggerates its logits and confuses classes, and labels 0..k-1, all present."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    y[:k] = np.arange(k)[:n]
    return _softmax(z @ (1.8 * np.eye(k) + 0.15 * rng.normal(size=(k, k))).T + 0.5 * rng.normal(size=k)), y


def columns(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Both columns of two classes."""
    return np.column_stack([1.0 - p, p])


def mean_log_loss(q: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Log loss, written down once more so that no test checks the package by itself."""
    q = q[np.arange(len(y)), y] if q.ndim == 2 else np.where(y == 1, q, 1.0 - q)
    return float(-np.log(np.clip(q, 1e-15, 1.0)).mean())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings, progress bars and prints of other packages."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield
