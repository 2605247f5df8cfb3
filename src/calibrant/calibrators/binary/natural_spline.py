"""Natural cubic splines by their values at the knots: piecewise cubic, twice differentiable, straight outside.

Between knots ξ_j and ξ_j+1 a spline is a combination of its values f_j, f_j+1 and second derivatives m_j, m_j+1;
the second derivatives are a linear map of all values (a tridiagonal system). Every point thus has four local
coefficients, whatever the number of knots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
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


def local_coefficients(
    x: FloatArray, knots: FloatArray, *, derivative: bool = False
) -> tuple[NDArray[np.intp], FloatArray]:
    """The knot interval of each point and its coefficients (4, n) of f_j, f_j+1, m_j, m_j+1.

    With `derivative`, the coefficients of the first derivative. Outside the knots the end intervals are extended
    along their tangents.
    """
    j = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    h = knots[j + 1] - knots[j]
    inside = np.clip(x, knots[0], knots[-1])
    b = (inside - knots[j]) / h
    a = 1.0 - b
    slope = np.stack([-1.0 / h, 1.0 / h, (1.0 - 3.0 * a * a) * h / 6.0, (3.0 * b * b - 1.0) * h / 6.0])
    if derivative:
        return j, slope
    value = np.stack([a, b, (a**3 - a) * h * h / 6.0, (b**3 - b) * h * h / 6.0])
    outside = x != inside
    if outside.any():
        value[:, outside] += slope[:, outside] * (x - inside)[outside]
    return j, value


def evaluate(
    x: FloatArray, knots: FloatArray, values: FloatArray, curvature: FloatArray, *, derivative: bool = False
) -> FloatArray:
    """The spline, or its first derivative, at `x`.

    Examples
    --------
    >>> knots, values = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0])
    >>> m = second_derivatives(knots, values)
    >>> evaluate(np.array([0.0, 0.5, 1.0, 3.0]), knots, values, m)
    array([ 0.    ,  0.6875,  1.    , -1.5   ])
    """
    j, c = local_coefficients(x, knots, derivative=derivative)
    return np.asarray(c[0] * values[j] + c[1] * values[j + 1] + c[2] * curvature[j] + c[3] * curvature[j + 1])


def check_spline(state: StateCheck, knots: str) -> None:
    """Check a spline in a fitted state, its knots under the name `knots`."""
    n_knots = len(state.array(knots, None, increasing=True))
    state.require(n_knots >= 2, f"{knots} should be at least two")
    state.array("values_", n_knots)
    state.array("curvature_", n_knots)
