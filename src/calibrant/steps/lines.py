"""Functions of one column given by points: steps, straight lines between knots, natural cubic splines.

Between knots ξ_j and ξ_j+1 a natural spline is a combination of its values f_j, f_j+1 and second derivatives m_j,
m_j+1: every point has four local coefficients, whatever the number of knots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.bins import edge_index
from calibrant.steps.step import Step, array, flag, require, require_increasing
from calibrant.typing import FloatArray


@dataclass(frozen=True)
class StepFunction(Step):
    """``values[j]`` where j is the number of ascending `edges` below x.

    Examples
    --------
    >>> from calibrant.steps import StepFunction, run
    >>> run([StepFunction(np.array([0.5]), np.array([0.2, 0.7]))], np.array([[0.3], [0.6]]))
    array([[0.2],
           [0.7]])
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    decides: ClassVar[bool] = True
    edges: FloatArray = array(1)
    values: FloatArray = array(1)

    def apply(self, x: FloatArray) -> FloatArray:
        return self.values[edge_index(x[:, 0], self.edges)][:, None]

    def check(self, width: int) -> int:
        require_increasing(self.edges, "edges")
        require(len(self.values) == len(self.edges) + 1, "values should be one more than edges")
        return super().check(width)


@dataclass(frozen=True)
class Line(Step):
    """Straight lines between the points (`knots`, `values`).

    Beyond the knots the function is constant, or with `extend` continues by the slope of the outermost pieces.

    Examples
    --------
    >>> from calibrant.steps import Line, run
    >>> run([Line(np.array([0.0, 1.0]), np.array([0.0, 0.5]))], np.array([[0.4], [2.0]]))
    array([[0.2],
           [0.5]])
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    decides: ClassVar[bool] = True
    knots: FloatArray = array(1)
    values: FloatArray = array(1)
    extend: bool = flag(default=False)

    def apply(self, x: FloatArray) -> FloatArray:
        if not self.extend:
            return np.interp(x, self.knots, self.values)
        piece = np.clip(np.searchsorted(self.knots, x) - 1, 0, len(self.knots) - 2)
        slope = np.diff(self.values) / np.diff(self.knots)
        return np.asarray(self.values[piece] + slope[piece] * (x - self.knots[piece]))

    def check(self, width: int) -> int:
        require_increasing(self.knots, "knots")
        require(len(self.knots) >= 1 + self.extend, "too few knots")
        require(len(self.values) == len(self.knots), "values should be as many as knots")
        return super().check(width)


@dataclass(frozen=True)
class Spline(Step):
    """The natural cubic spline with these values and second derivatives at the knots.

    Beyond the knots the function is constant, or with `extend` continues along its tangents.

    Examples
    --------
    >>> from calibrant.steps import Spline, run
    >>> straight = Spline(np.array([0.0, 1.0]), np.array([0.0, 0.5]), np.zeros(2))
    >>> run([straight], np.array([[0.4], [2.0]]))
    array([[0.2],
           [1. ]])
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    decides: ClassVar[bool] = True
    knots: FloatArray = array(1)
    values: FloatArray = array(1)
    curvature: FloatArray = array(1)
    extend: bool = flag(default=True)

    def apply(self, x: FloatArray) -> FloatArray:
        at = x[:, 0] if self.extend else np.clip(x[:, 0], self.knots[0], self.knots[-1])
        return evaluate_spline(at, self.knots, self.values, self.curvature)[:, None]

    def check(self, width: int) -> int:
        require_increasing(self.knots, "knots")
        require(len(self.knots) >= 2, "too few knots")
        require(len(self.values) == len(self.curvature) == len(self.knots), "values should be as many as knots")
        return super().check(width)


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


def evaluate_spline(
    x: FloatArray, knots: FloatArray, values: FloatArray, curvature: FloatArray, *, derivative: bool = False
) -> FloatArray:
    """The spline, or its first derivative, at `x`."""
    j, c = local_coefficients(x, knots, derivative=derivative)
    return np.asarray(c[0] * values[j] + c[1] * values[j + 1] + c[2] * curvature[j] + c[3] * curvature[j + 1])


def pieces(step: StepFunction | Line | Spline) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Edges (m,), origins (m + 1,) and coefficients (m + 1, degree + 1) of the polynomials between edges.

    Of piece j, the number of edges below x, the value is ``Σ_d coefficients[j, d] (x - origins[j])**d``.
    """
    if isinstance(step, StepFunction):
        return step.edges, np.zeros(len(step.values)), step.values[:, None]
    knots, values = step.knots, step.values
    h = np.diff(knots)
    slope = np.diff(values) / h
    inner = np.zeros((len(h), 4 if isinstance(step, Spline) else 2))
    inner[:, 0], inner[:, 1] = values[:-1], slope
    tangents = slope[[0, -1]] if len(h) else np.zeros(2)
    if isinstance(step, Spline):
        m0, m1 = step.curvature[:-1], step.curvature[1:]
        inner[:, 1] -= h * (2.0 * m0 + m1) / 6.0
        inner[:, 2] = m0 / 2.0
        inner[:, 3] = (m1 - m0) / (6.0 * h)
        tangents = np.array([inner[0, 1], slope[-1] + h[-1] * (m0[-1] + 2.0 * m1[-1]) / 6.0])
    ends = np.zeros((2, inner.shape[1]))
    ends[:, 0], ends[:, 1] = values[[0, -1]], tangents if step.extend else 0.0
    return knots, np.concatenate([knots[:1], knots[:-1], knots[-1:]]), np.vstack([ends[:1], inner, ends[1:]])
