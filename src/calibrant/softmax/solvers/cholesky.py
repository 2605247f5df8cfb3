"""The Cholesky factor of a Hessian that rounding may have left without one."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from calibrant.typing import FloatArray

#: Added to every curvature: where the loss has none, steps stay so small that their squares are finite.
FLATTEST = 1e-100


def cholesky(matrix: FloatArray, *, jitter: float) -> FloatArray:
    """The lower factor of a symmetric matrix; while it has none, its diagonal grows in place, by `jitter` at first.

    Examples
    --------
    >>> singular = np.ones((2, 2))
    >>> cholesky(singular, jitter=1e-12).shape
    (2, 2)
    >>> bool(singular[0, 0] > 1.0)
    True
    """
    while True:
        factor, failed = dpotrf(matrix, lower=True, clean=False)
        if not failed:
            return np.asarray(factor)
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError("The Hessian is not finite.")
        matrix.flat[:: len(matrix) + 1] += jitter
        jitter *= 100.0
