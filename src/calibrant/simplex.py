"""Probabilities to log-probabilities and back, in float64.

Every calibration map of this package works on ``x = log p`` clipped below at ``log(tiny_float32) ≈ -87.34``, so
that an exact zero stays a finite, very unlikely event. Two classes are described by their log-odds
``log p_1 - log p_0``, clipped to the same range, which is exact for probabilities next to 0 and next to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.rowwise import row_sums
from calibrant.typing import FloatArray

#: The logarithm of the smallest normal float32, in float32: the floor of every log-probability. Written out, as stored
#: maps depend on it and the last bit of a logarithm on the machine.
LOG_FLOOR = -87.3365478515625
#: The probability that goes with it.
FLOOR = 1.1754907056089184e-38
#: The smallest normal number, and how few numbers make it faster to raise zeros to it.
_LEAST, _SHORT = 2.0**-1022, 64
#: The smallest probability that a log loss people read credits an observed class with: metrics, reports, summaries.
LOSS_FLOOR = 1e-15


def log_probabilities(p: ArrayLike, *, out: FloatArray | None = None) -> FloatArray:
    """Logarithms of probabilities (n, k), clipped below at `LOG_FLOOR`, into `out`, which may be `p` itself."""
    p = np.asarray(p, dtype=np.float64)
    if p.size <= _SHORT:  # where asking NumPy not to warn of zeros takes longer than to have none
        x = np.log(np.maximum(p, _LEAST, out=out), out=out)
    else:
        with np.errstate(divide="ignore"):
            x = np.log(p, out=out)
    return np.maximum(x, LOG_FLOOR, out=x)


def log_in_place(p: FloatArray) -> FloatArray:
    """`log_probabilities` that overwrites probabilities."""
    return log_probabilities(p, out=p)


def log_odds(p: ArrayLike) -> FloatArray:
    """Binary logits ``log p - log1p(-p)``, clipped to ``±|LOG_FLOOR|``."""
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        x = np.log(p) - np.log1p(-p)
    return np.clip(x, LOG_FLOOR, -LOG_FLOOR)


def log_softmax(z: ArrayLike) -> FloatArray:
    """Logarithm of the softmax along the last axis; ``-inf`` marks an impossible class."""
    z = np.asarray(z, dtype=np.float64)
    shifted = z - z.max(axis=-1, keepdims=True)
    shifted -= np.log(row_sums(np.exp(shifted)))[..., None]
    return shifted


def softmax_inplace(z: FloatArray) -> FloatArray:
    """Replace logits by probabilities along the last axis, without a temporary of the same size."""
    z -= np.maximum.reduce(z, axis=-1, keepdims=True)
    np.exp(z, out=z)
    z /= row_sums(z)[..., None]
    return z


def softmax(z: ArrayLike) -> FloatArray:
    """Softmax along the last axis; ``-inf`` marks an impossible class."""
    return softmax_inplace(np.array(z, dtype=np.float64))


def mix_with_uniform(p: FloatArray, weight: float) -> FloatArray:
    """The mixture ``(1 - weight) p + weight / k`` of each row with the uniform distribution."""
    return (1.0 - weight) * p + weight / p.shape[-1]


def laplace_weight(n: float) -> float:
    """Weight ``1 / (n + 1)`` of the uniform distribution in Laplace smoothing after `n` observations."""
    return 1.0 / (n + 1.0)


def mix_log_probabilities(x: FloatArray, weight: float) -> FloatArray:
    """Log-probabilities of the mixture of `x` (n, k) with the uniform distribution."""
    return x if weight == 0.0 else log_probabilities(mix_with_uniform(np.exp(x), weight))
