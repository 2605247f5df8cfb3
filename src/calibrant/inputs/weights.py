"""The input contract for row weights, which count observations."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.words import CalibrationWarning
from calibrant.typing import FloatArray

#: The largest sum of weights: they count observations, and their squares must stay finite.
LARGEST_TOTAL = 1e100
#: The smallest: below it, shares of the sum are no longer accurate numbers.
SMALLEST_TOTAL = 1e-300


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray | None:
    """Weights as counts: finite, non-negative, one per row; `None` for equal weights of one."""
    if sample_weight is None:
        return None
    w = row_weights(sample_weight, n)
    check_counts(check_total_weight(w), n)
    return None if bool(np.all(w == 1.0)) else w


def check_counts(total: float, n: int) -> None:
    """Warn if the weights of `n` rows sum to one: they are counts."""
    if n >= 20 and 0.9 < total < 1.1:
        warnings.warn(
            f"The sample weights of {n} rows sum to {total:.3g}. They are counts of observations, not shares: with "
            "these the data weigh as much as a single observation. Multiply them by the number of rows.",
            CalibrationWarning,
            stacklevel=5,
        )


def row_weights(sample_weight: Any, n: int, first_row: int = 0, name: str = "sample_weight") -> FloatArray:
    """Weights of `n` rows, finite and not negative; `first_row` is what errors count from."""
    try:
        w: FloatArray = np.asarray(to_numpy(sample_weight, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold one real number per row: {error}") from None
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, found {w.ndim} dimensions.")
    if w.shape[0] != n:
        raise ValueError(f"{name}.shape == {w.shape}, expected ({n},): one weight per row.")
    bad = ~(np.isfinite(w) & (w >= 0.0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name} holds {w[row]} at row {first_row + row}: weights are finite and not negative.")
    return w


def check_total_weight(weight: FloatArray) -> float:
    """The sum of weights that are finite and not negative; an error if it is zero, too large or too small."""
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total <= 0.0:
        raise ValueError("All sample weights are zero: no row is left to fit.")
    if total > LARGEST_TOTAL:
        raise ValueError(
            f"The sample weights sum to {total:.3g}, the largest is {float(weight.max()):.3g}: they are counts of "
            f"observations, and no more than {LARGEST_TOTAL:g} can be computed with. Scale them down."
        )
    if total < SMALLEST_TOTAL:
        raise ValueError(
            f"The sample weights sum to {total:.3g}: they are counts of observations, and no less than "
            f"{SMALLEST_TOTAL:g} can be computed with. Scale them up."
        )
    return total


def effective_counts(weights: Any) -> FloatArray:
    """Importance weights scaled to counts: they sum to the effective number of observations, ``(Σw)² / Σw²``.

    Weights of this package count observations. Importance weights, such as inverse probabilities of being sampled, say
    something else: only their ratios matter, and uneven ones carry less information than there are rows. Scaled by
    this function they keep their ratios, and intervals and tests are about as wide and as cautious as they should be.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Importance weights, finite and not negative.

    Returns
    -------
    counts : ndarray of shape (n,)
        To be given as `sample_weight`.

    Examples
    --------
    >>> from calibrant import effective_counts
    >>> effective_counts([10.0, 10.0, 20.0]).round(3)
    array([0.667, 0.667, 1.333])
    """
    w = row_weights(weights, len(weights), name="weights")
    largest = float(w.max(initial=0.0))
    if largest <= 0.0:
        raise ValueError("All weights are zero: no row is left.")
    w = w / largest
    return np.asarray(w * (w.sum() / (w @ w)))
