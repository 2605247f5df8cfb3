"""Proper losses and what stands beside them: log loss, Brier score, accuracy, mean over-confidence.

With `p` the predicted probabilities and `y` the observed class, log loss is the mean of `-log p_y` and the Brier
score the mean of `Σ_j (p_j - 1[y = j])²`, or half of it. Each is a mean over rows, which is what `row_losses` gives.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from calibrant.metrics.scalars import Statistic, scalar
from calibrant.metrics.sums import Frequency, summed_mean
from calibrant.sample import Sample
from calibrant.simplex import LOSS_FLOOR
from calibrant.typing import AnyFloatArray

# Rows handled at once where a float64 copy would otherwise double the memory of a float32 table.
BLOCK_ENTRIES = 1 << 20


def log_loss_rows(data: Sample, *, floor: float = LOSS_FLOOR) -> AnyFloatArray:
    """`-log max(p_y, floor)` of every row."""
    if not 0 <= floor < 1:
        raise ValueError(f"floor must lie in [0, 1), got {floor}")
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(data.true_proba, floor))


def brier_factor(n_classes: int, scale_by_half: bool | Literal["auto"] = "auto") -> float:
    """What `Σ_j (p_j - 1[y = j])²` is multiplied by: 1/2 for two classes, where it is then `(p - y)²`, else 1.

    Everything in this package that is called Brier score has this factor.

    Examples
    --------
    >>> brier_factor(2), brier_factor(3), brier_factor(3, True)
    (0.5, 1.0, 0.5)
    """
    half = n_classes == 2 if scale_by_half == "auto" else bool(scale_by_half)
    return 0.5 if half else 1.0


def brier_rows(data: Sample, *, scale_by_half: bool | Literal["auto"] = "auto") -> AnyFloatArray:
    """`Σ_j (p_j - 1[y = j])²` of every row, halved for two classes (or as told)."""
    if data.n_classes == 2:
        rows = 2 * (1 - data.true_proba) ** 2
    else:
        rows = np.maximum(_sum_of_squares(data.proba) - 2 * data.true_proba + 1, 0.0)
    return brier_factor(data.n_classes, scale_by_half) * rows


def _sum_of_squares(proba: AnyFloatArray) -> AnyFloatArray:
    if proba.dtype == np.float64:
        return np.einsum("ij,ij->i", proba, proba)
    squares = np.empty(len(proba))
    step = max(1, BLOCK_ENTRIES // proba.shape[1])
    for start in range(0, len(proba), step):
        block = proba[start : start + step].astype(np.float64)
        squares[start : start + step] = np.einsum("ij,ij->i", block, block)
    return squares


def accuracy_rows(data: Sample) -> AnyFloatArray:
    """1 where the most probable class was observed, else 0."""
    return (data.top == data.y).astype(np.float64)


def row_losses(data: Sample, loss: str, **options: Any) -> AnyFloatArray:
    """One loss per row, by the name of the loss."""
    if loss == "log_loss":
        return log_loss_rows(data, **options)
    if loss == "brier":
        return brier_rows(data, **options)
    raise ValueError(f"loss must be 'log_loss' or 'brier', got {loss!r}")


@scalar(of_sums=True)
def log_loss(data: Sample, *, floor: float = LOSS_FLOOR) -> Statistic:
    """Mean negative log-probability of the observed class.

    Parameters
    ----------
    floor : float, default=1e-15
        Smallest probability the observed class is credited with. With 0 a single impossible event makes the loss
        infinite.

    Examples
    --------
    >>> from calibrant.metrics import log_loss
    >>> round(log_loss([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 4)
    0.367
    >>> round(log_loss(["no", "yes"], [0.2, 0.6]), 4)
    0.367
    """
    return summed_mean(log_loss_rows(data, floor=floor))


@scalar(upper=2.0, of_sums=True)
def brier(data: Sample, *, scale_by_half: bool | Literal["auto"] = "auto") -> Statistic:
    """Brier score: mean squared distance between the probabilities and the outcome.

    Parameters
    ----------
    scale_by_half : bool or "auto", default="auto"
        False sums the squares over all classes (0 to 2). True halves that, which for two classes is the familiar
        `(p - y)²`. "auto" halves for two classes only, as scikit-learn does.

    Examples
    --------
    >>> from calibrant.metrics import brier
    >>> round(brier([0, 1], [0.2, 0.6]), 3), round(brier([0, 1], [0.2, 0.6], scale_by_half=False), 3)
    (0.1, 0.2)
    """
    return summed_mean(brier_rows(data, scale_by_half=scale_by_half))


@scalar(upper=1.0, of_sums=True)
def accuracy(data: Sample) -> Statistic:
    """Share of rows whose most probable class was observed; the first column wins ties.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([0, 1, 1], [0.2, 0.6, 0.4])
    0.6666666666666666
    """
    return summed_mean(accuracy_rows(data), Frequency)


@scalar(lower=-1.0, upper=1.0, of_sums=True)
def confidence_gap(data: Sample) -> Statistic:
    """Mean confidence minus accuracy: positive for over-confident predictions, negative for under-confident ones.

    Examples
    --------
    >>> from calibrant.metrics import confidence_gap
    >>> round(confidence_gap([0, 1], [[0.9, 0.1], [0.7, 0.3]]), 3)
    0.3
    """
    return summed_mean(data.confidence - accuracy_rows(data))
