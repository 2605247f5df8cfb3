"""Lp calibration errors by recalibration: the mean distance of probabilities from what they should have been.

The error is `E ||E[y|p] - p||_q` with `y` one-hot. Its dual form is the largest `E <s(p), y - p>` over directions with
`||s||_{q*} ≤ 1`; the direction of a map `ĝ` fitted on other folds, `s = ∇||·||_q` at `ĝ(p) - p`, gives an estimate
that overstates nothing: in expectation it is at most the true error, and equals it when `ĝ` is right
(Berta, Holzmüller, Jordan and Bach).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.metrics.recalibration import recalibrate
from calibrant.metrics.scalars import Statistic, mean_statistic, scalar
from calibrant.metrics.views import Kind, resolve_kind
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray


def dual_direction(difference: AnyFloatArray, norm: float) -> AnyFloatArray:
    """Gradient of `||d||_q` for every row `d`, zero for a zero row; for `q = ∞` at the first largest entry."""
    size = np.abs(difference)
    if np.isinf(norm):
        direction = np.zeros_like(difference)
        rows = np.arange(len(difference))
        largest = size.argmax(axis=1)
        direction[rows, largest] = np.sign(difference[rows, largest])
        return direction
    largest = size.max(axis=1, keepdims=True)
    # Dividing by the largest entry first keeps powers of tiny differences from vanishing.
    scaled = size / np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(scaled, ord=norm, axis=1, keepdims=True)
    return np.sign(difference) * (scaled / np.where(length > 0, length, 1.0)) ** (norm - 1)


@scalar(lower=-np.inf, grouped=True)
def lp_calibration_error(
    data: Sample,
    *,
    norm: float = 1.0,
    kind: Kind = "auto",
    method: Any = None,
    cv: Any = 5,
    random_state: int | None = 0,
) -> Statistic:
    """Lp calibration error of the whole probability vector, estimated by cross-validated recalibration.

    Unlike binned errors it is not inflated by chance: predictions that are calibrated get a value around zero, which
    may be slightly negative.

    Parameters
    ----------
    norm : float, default=1
        The norm of the distance between probability vectors, from 1 to infinity.
    kind : {"auto", "binary", "top-label", "class-wise"}, default="auto"
        A single number per row ("binary", "top-label"), for which every norm is the absolute value, or the vector over
        all classes ("class-wise"). "auto" is binary for two classes, and all classes for more.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import lp_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = (rng.random(5000) < p).astype(int)
    >>> abs(lp_calibration_error(y, p)) < 0.02, lp_calibration_error(y, 0.25 + p / 2) > 0.1
    (True, True)
    """
    if not norm >= 1:
        raise ValueError(f"norm must be at least 1, got {norm}")
    target = recalibrate(data, method, cv, random_state).proba
    # All classes are judged together unless two classes or the top label make it a single number.
    single = None if kind == "auto" and data.n_classes > 2 else resolve_kind(data, kind)
    outcome = np.zeros(data.proba.shape)
    outcome[np.arange(data.n_rows), data.y] = 1.0
    if single == "binary":
        columns = np.ones(data.n_rows, dtype=np.intp)
    elif single == "top-label":
        columns = np.asarray(data.top)
    else:
        return mean_statistic(np.sum(dual_direction(target - data.proba, norm) * (outcome - data.proba), axis=1))
    rows = np.arange(data.n_rows)
    p, g, hit = data.proba[rows, columns], target[rows, columns], outcome[rows, columns]
    return mean_statistic(np.sign(g - p) * (hit - p))
