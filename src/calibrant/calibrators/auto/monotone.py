"""Maps that keep the ranking: strictly increasing for two classes, the same most probable class for more.

Two classes: the log-odds of a fitted map at knots are made increasing by isotonic regression and joined by straight
lines of positive slope. More classes: each row's logits ``z`` move back towards the order-preserving logits ``x`` of
temperature scaling, ``x + t (z − x)``, by the largest ``t ≤ 1`` that keeps the most probable class.
"""

from __future__ import annotations

import numpy as np

from calibrant.typing import FloatArray

#: The least slope of the log-odds after calibration in those before: small enough to cost nothing, above rounding.
LEAST_SLOPE = 1e-3


def increasing_knots(knots: FloatArray, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Values at ascending `knots`, as near to `values` as a slope of at least `LEAST_SLOPE` allows.

    Examples
    --------
    >>> increasing_knots(np.arange(3.0), np.array([0.0, 2.0, 1.0]), np.ones(3)).round(2)
    array([0. , 1.5, 1.5])
    """
    from sklearn.isotonic import isotonic_regression

    tilt = LEAST_SLOPE * (knots - knots.mean())
    return np.asarray(isotonic_regression(values - tilt, sample_weight=weight) + tilt)


def interpolate(x: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Piecewise linear interpolation, continued beyond the knots with the slope of the outermost pieces."""
    piece = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
    slope = np.diff(values) / np.diff(knots)
    return np.asarray(values[piece] + slope[piece] * (x - knots[piece]))


def keep_most_probable(x: FloatArray, z: FloatArray) -> FloatArray:
    """Logits on the way from `x` to `z` (k, n), as far as the most probable class of `x` stays the first.

    Examples
    --------
    >>> keep_most_probable(np.array([[2.0], [1.0]]), np.array([[0.0], [1.0]])).round(3).ravel()
    array([1., 1.])
    """
    n = x.shape[1]
    first = x.argmax(axis=0)
    rows = np.arange(n)
    lead = x[first, rows] - x
    change = (z[first, rows] - z) - lead
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(change < 0.0, -lead / change, np.inf)
    share[first, rows] = np.inf
    # A hair less than the tie, so that rounding does not decide.
    t = np.minimum(share.min(axis=0) * (1.0 - 1e-9), 1.0)
    return np.asarray(x + t * (z - x))
