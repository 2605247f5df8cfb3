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
