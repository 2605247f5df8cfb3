"""Natural cubic splines by their values at the knots: piecewise cubic, twice differentiable, straight outside.

Between knots ξ_j and ξ_j+1 a spline is a combination of its values f_j, f_j+1 and second derivatives m_j, m_j+1;
the second derivatives are a linear map of all values (a tridiagonal system). Every point thus has four local
coefficients, whatever the number of knots.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_banded

from calibrant.calibrators.state import StateCheck
from calibrant.typing import FloatArray


def second_derivatives(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Second derivatives at the knots of the splines with these values, (K,) or (K, columns)."""
    m = np.zeros(values.shape)
    if len(knots) < 3:
        return m
    h = np.diff(knots)
    bands = np.zeros((3, len(knots) - 2))
    bands[0, 1:] = h[1:-1] / 6.0
    bands[1] = (h[:-1] + h[1:]) / 3.0
    bands[2, :-1] = h[1:-1] / 6.0
    slope = np.diff(values, axis=0) / (h if values.ndim == 1 else h[:, None])
    m[1:-1] = solve_banded((1, 1), bands, np.diff(slope, axis=0))
    return m


def check_spline(state: StateCheck, knots: str) -> None:
    """Check a spline in a fitted state, its knots under the name `knots`."""
    n_knots = len(state.array(knots, None, increasing=True))
    state.require(n_knots >= 2, f"{knots} should be at least two")
    state.array("values_", n_knots)
    state.array("curvature_", n_knots)
