"""Steps that weigh features: products with a matrix, curves of each column's own value, a kernel, trees, levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from calibrant.rowwise import row_products, row_sums
from calibrant.steps.step import LARGE, Step, array, number, require
from calibrant.typing import FloatArray, IntArray

#: Far above what is ever grown; 2**depth steps are stored for each tree.
DEEPEST = 16

#: Up to so many coefficients, adding whole columns is faster than products of tiles.
_FEW = 8

#: Numbers of trees × rows, and rows, handled at a time: their numbers stay in the cache.
_TREE_BLOCK, _TREE_ROWS = 1 << 18, 1024


@dataclass(frozen=True)
class Linear(Step):
    """``x @ matrix + shift``, for a matrix (columns before, columns after).

    Examples
    --------
    >>> from calibrant.steps import Linear, run
    >>> run([Linear(np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([0.5, 0.0]))], np.array([[1.0, 1.0]]))
    array([[3.5, 1. ]])
    """

    mixes: ClassVar[bool] = True
    matrix: FloatArray = array(2)
    shift: FloatArray | float = array(0, 1, default=0.0)

    def __post_init__(self) -> None:
        # How a matrix lies in memory decides the last bits of its products, and a file does not keep that.
        object.__setattr__(self, "matrix", np.ascontiguousarray(self.matrix))

    def apply(self, x: FloatArray) -> FloatArray:
        if self.matrix.size > _FEW:
            out = row_products(x, self.matrix)
            out += self.shift
            return out
        out = x[:, :1] * self.matrix[0] + self.shift
        for j in range(1, len(self.matrix)):
            out += x[:, j : j + 1] * self.matrix[j]
        return np.asarray(out)

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    def check(self, width: int) -> int:
        rows, columns = self.matrix.shape
        require(rows == width and columns, f"matrix should have {width} rows")
        require(np.shape(self.shift) in ((), (columns,)), f"shift should hold {columns} numbers")
        return columns


@dataclass(frozen=True)
class Curves(Step):
    """``u_0 x²/5 + u_1 log(1 - exp x) + u_2 exp x`` of each column, for `coefficients` u (3, columns).

    A class that is certain to rounding would be a leverage point: the logarithm ends at -20.

    Examples
    --------
    >>> from calibrant.steps import Curves, run
    >>> quadratic = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    >>> run([Curves(quadratic)], np.array([[-1.0, -5.0]]))
    array([[0.2, 5. ]])
    """

    coefficients: FloatArray = array(2)

    def apply(self, x: FloatArray) -> FloatArray:
        u = self.coefficients
        square, log_rest, q = own_curves(x)
        square *= u[0]
        log_rest *= u[1]
        q *= u[2]
        square += log_rest
        square += q
        return square

    def check(self, width: int) -> int:
        require(self.coefficients.shape == (3, width), f"coefficients should have shape (3, {width})")
        return width


def own_curves(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The features of `Curves` for log-probabilities of any shape: ``x²/5``, ``log(1 - q)`` and ``q``."""
    q = np.exp(x)
    # A class that is certain to rounding would be a leverage point; beyond e^-20 nothing is learned.
    return x * (x / 5.0), np.maximum(np.log1p(-np.minimum(q, 1.0 - 1e-12)), -20.0), q


@dataclass(frozen=True)
class Kernel(Step):
    """``exp(-|z - landmark|² / bandwidth)`` for each landmark (landmarks, 2 columns).

    z holds the row's log-probabilities, centred and divided by `spread`, and `weight` times its probabilities.

    Examples
    --------
    >>> from calibrant.steps import Kernel, run
    >>> here = np.array([[0.0, 0.0, 0.0, 0.0]])  # the place of equal probabilities
    >>> run([Kernel(here, spread=1.0, weight=0.0, bandwidth=1.0)], np.log([[0.5, 0.5], [0.9, 0.1]])).round(3)
    array([[1.   ],
           [0.089]])
    """

    mixes: ClassVar[bool] = True
    landmarks: FloatArray = array(2)
    spread: float = number(low=1.0 / LARGE)
    weight: float = number()
    bandwidth: float = number(low=1.0 / LARGE)

    def points(self, x: FloatArray) -> FloatArray:
        """The rows z of log-probabilities `x` (n, columns)."""
        mean = row_sums(x)[:, None] / x.shape[1]
        return np.hstack([(x - mean) / self.spread, self.weight * np.exp(x)])

    def squared_distances(self, points: FloatArray) -> FloatArray:
        """Between rows z and all landmarks."""
        product = row_products(points, self.landmarks.T)
        return np.maximum(row_sums(points * points)[:, None] + row_sums(self.landmarks**2) - 2.0 * product, 0.0)

    def apply(self, x: FloatArray) -> FloatArray:
        return np.exp(-self.squared_distances(self.points(x)) / self.bandwidth)

    @property
    def width(self) -> int:
        return len(self.landmarks)

    def check(self, width: int) -> int:
        count, columns = self.landmarks.shape
        require(count and columns == 2 * width, f"landmarks should have {2 * width} columns")
        return count


@dataclass(frozen=True)
class Trees(Step):
    """The sum of the steps of trees (trees, 2**depth, columns after) whose questions are the same on every path.

    Bit b of a row's leaf is the answer to ``x[features[t, b]] > thresholds[t, b]``, or, unless `subtracted` is -1, to
    ``x[features[t, b]] - x[subtracted[t, b]] > thresholds[t, b]``.

    Examples
    --------
    >>> from calibrant.steps import Trees, run
    >>> values = np.array([[[0.0, 0.0], [1.0, -1.0]]])  # one tree of two leaves
    >>> first_leads = Trees(np.array([[0]]), np.array([[1]]), np.array([[0.0]]), values)
    >>> run([first_leads], np.log([[0.9, 0.1], [0.2, 0.8]]))
    array([[ 1., -1.],
           [ 0.,  0.]])
    """

    decides: ClassVar[bool] = True
    features: IntArray = array(2, integer=True, low=0)
    subtracted: IntArray = array(2, integer=True, low=-1)
    thresholds: FloatArray = array(2)
    values: FloatArray = array(3)

    def apply(self, x: FloatArray) -> FloatArray:
        # The last column is what nothing subtracts: zero. Trees are added in their order, whatever the number of rows.
        count, depth = self.features.shape
        if len(x) == 1 and self.values.shape[2] > 1:
            row = np.append(x, 0.0)
            leaf = (row[self.features] - row[self.subtracted] > self.thresholds) @ (1 << np.arange(depth))
            return self.values[np.arange(count), leaf].sum(axis=0)[None]
        first, second, asked = self.pairs
        out = np.zeros((len(x), self.values.shape[2]))
        rows = min(max(_TREE_BLOCK // count, 1), _TREE_ROWS)
        for start in range(0, len(x), rows):
            columns = np.zeros((x.shape[1] + 1, len(x[start : start + rows])))
            columns[:-1] = x[start : start + rows].T
            differences = columns[first] - columns[second]
            leaf = np.zeros((count, columns.shape[1]), dtype=np.intp)
            for level in range(depth):
                answers = differences[asked[:, level]] > self.thresholds[:, level, None]
                leaf |= answers.astype(np.intp) << level
            part = out[start : start + rows]
            for values, reached in zip(self.values, leaf, strict=True):
                part += values.take(reached, axis=0)
        return out

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """The pairs of columns that are compared, each once, and the pair of each question."""
        base = int(self.subtracted.max()) + 2
        pairs, asked = np.unique(self.features * base + self.subtracted + 1, return_inverse=True)
        return pairs // base, pairs % base - 1, asked.reshape(self.features.shape)

    @property
    def width(self) -> int:
        return int(self.values.shape[2])

    def differences(self, width: int) -> FloatArray:
        """The matrix (columns before, pairs) whose product with rows is what questions compare with thresholds.

        The product is as exact as a difference of two columns: everything else that is added is zero.
        """
        first, second, _ = self.pairs
        identity = np.eye(width + 1)[:, :-1]  # the last row, which nothing subtracts, is zero
        return np.asarray(identity[first] - identity[second]).T

    def check(self, width: int) -> int:
        count, depth = self.features.shape
        require(count and 1 <= depth <= DEEPEST, f"trees of depth {depth}")
        require(self.subtracted.shape == self.thresholds.shape == (count, depth), "questions differ in number")
        require(self.features.max() < width and self.subtracted.max() < width, f"there are {width} columns")
        columns = self.values.shape[2]
        require(
            self.values.shape[:2] == (count, 2**depth) and columns,
            f"values should have shape ({count}, {2**depth}, columns)",
        )
        return columns


@dataclass(frozen=True)
class Levels(Step):
    """``intercept[level] + slope[level] x`` of all columns but the last, which says the level; zero if there is none.

    `intercept` and `slope` have a row for each level 0, 1, ... and a column for each of x.

    Examples
    --------
    >>> from calibrant.steps import Levels, run
    >>> step = Levels(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 1.0], [0.5, 0.5]]))
    >>> run([step], np.array([[3.0, 4.0, 0.0], [3.0, 4.0, 1.0], [3.0, 4.0, -1.0]]))
    array([[3. , 4. ],
           [2.5, 4. ],
           [0. , 0. ]])
    """

    intercept: FloatArray = array(2)
    slope: FloatArray = array(2)

    def apply(self, x: FloatArray) -> FloatArray:
        level, x = x[:, -1], x[:, :-1]
        known = (level >= 0.0) & (level < len(self.intercept))
        place = np.where(known, level, 0.0).astype(np.intp)
        return np.asarray((self.slope[place] * x + self.intercept[place]) * known[:, None])

    def check(self, width: int) -> int:
        require(len(self.intercept) and width >= 2, "at least one level and two columns are expected")
        shape = (len(self.intercept), width - 1)
        require(
            self.intercept.shape == self.slope.shape == shape, f"intercept and slope should have {width - 1} columns"
        )
        return width - 1
