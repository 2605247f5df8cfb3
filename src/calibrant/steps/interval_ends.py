"""The ends of delta-method intervals as a step, so that SQL and ONNX can give them beside the probabilities.

With a root R of the covariance of the coefficients, C = R Rᵀ, the logit of class l moves by ``u_l · ε`` for standard
normal ε, where u_l is Rᵀ times its gradient. The log-odds of class j against the rest then have the standard error
``|Σ_{l≠j} p_l (u_j − u_l)| / (1 − p_j)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.steps.branches import rest
from calibrant.steps.step import Step, Steps, branches, check_steps, number, require, run
from calibrant.typing import FloatArray

#: Factors of odds beyond this exponent are infinite to a probability.
FARTHEST = 600.0
#: Variances below this are none: logarithms are taken of them.
LEAST = 1e-300


@dataclass(frozen=True)
class DeltaEnds(Step):
    """Lower ends, then upper ends, of the second part's probabilities, `distance` standard errors of log-odds away.

    The first part gives the vectors u, one class after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.steps import Columns, Linear, Log, Scale, run
    >>> from calibrant.steps.interval_ends import DeltaEnds
    >>> ends = DeltaEnds(([Log(), Scale(0.5)], [Columns(np.array([0, 1]))]), 1.0)  # a temperature known to 0.5
    >>> run([ends], np.array([[0.2, 0.8]])).round(3)
    array([[0.111, 0.667, 0.333, 0.889]])
    """

    parts: tuple[Steps, ...] = branches()
    distance: float = number(low=0.0)

    def apply(self, x: FloatArray) -> FloatArray:
        u, p = (run(part, x.copy()) for part in self.parts)
        u, others, top = u.reshape(len(p), p.shape[1], -1), rest(p), p.argmax(axis=1)
        rows, small = np.arange(len(p)), p.copy()
        small[rows, top] = 0.0
        left = np.einsum("nl,nlr->nr", p, u)[:, None] - p[..., None] * u
        # Next to certainty the sum over the others must not come from a difference.
        left[rows, top] = np.einsum("nl,nlr->nr", small, u)
        moved = others[..., None] * u - left
        variance = np.maximum(np.einsum("njr,njr->nj", moved, moved), LEAST)
        factor = np.exp(np.minimum(self.distance * np.sqrt(variance) / others, FARTHEST))
        return np.hstack([p / (p + others * factor), p / (p + others / factor)])

    def check(self, width: int) -> int:
        require(len(self.parts) == 2, "two parts are expected")
        vectors, k = (check_steps(part, width) for part in self.parts)
        require(vectors % k == 0, f"the first part should have a multiple of {k} columns")
        return 2 * k
