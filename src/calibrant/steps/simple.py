"""Steps that treat every number or every row alike: logarithms, clipping, mixtures, slopes, softmax, sums of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.rowwise import row_sums
from calibrant.simplex import log_in_place, softmax_inplace
from calibrant.steps.step import Step, array, number, require
from calibrant.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Exp(Step):
    """``exp(x)``: probabilities of log-probabilities.

    Examples
    --------
    >>> from calibrant.steps import Exp, run
    >>> run([Exp()], np.log([[0.8, 0.2]]))
    array([[0.8, 0.2]])
    """

    def apply(self, x: FloatArray) -> FloatArray:
        return np.exp(x, out=x)


@dataclass(frozen=True)
class Log(Step):
    """``max(log x, LOG_FLOOR)``: log-probabilities of probabilities.

    Examples
    --------
    >>> from calibrant.steps import Log, run
    >>> run([Log()], np.array([[1.0, 0.0]])).round(2)
    array([[  0.  , -87.34]])
    """

    def apply(self, x: FloatArray) -> FloatArray:
        return log_in_place(x)


@dataclass(frozen=True)
class Clip(Step):
    """Numbers below `low` become `low`, above `high` become `high`.

    Examples
    --------
    >>> from calibrant.steps import Clip, run
    >>> run([Clip(0.1, 0.9)], np.array([[0.03, 0.97]]))
    array([[0.1, 0.9]])
    """

    low: float = number()
    high: float = number()

    def apply(self, x: FloatArray) -> FloatArray:
        return np.clip(x, self.low, self.high, out=x)

    def check(self, width: int) -> int:
        require(self.low <= self.high, "low exceeds high")
        return width


@dataclass(frozen=True)
class Mix(Step):
    """``(1 - weight) x + weight / width``: the mixture of each row with the uniform distribution.

    Examples
    --------
    >>> from calibrant.steps import Mix, run
    >>> run([Mix(0.1)], np.array([[1.0, 0.0]]))
    array([[0.95, 0.05]])
    """

    weight: float = number(low=0.0, high=1.0)

    def apply(self, x: FloatArray) -> FloatArray:
        x *= 1.0 - self.weight
        x += self.weight / x.shape[1]
        return x


@dataclass(frozen=True)
class Scale(Step):
    """``factor x + shift``, one number for all columns or one for each.

    Examples
    --------
    >>> from calibrant.steps import Scale, run
    >>> run([Scale(np.array([1.0, 2.0]), 0.5)], np.array([[1.0, 1.0]]))
    array([[1.5, 2.5]])
    """

    factor: FloatArray | float = array(0, 1)
    shift: FloatArray | float = array(0, 1, default=0.0)

    def apply(self, x: FloatArray) -> FloatArray:
        x *= self.factor
        if not (isinstance(self.shift, float) and self.shift == 0.0):
            x += self.shift
        return x

    def check(self, width: int) -> int:
        for name in ("factor", "shift"):
            require(np.shape(getattr(self, name)) in ((), (width,)), f"{name} should hold {width} numbers")
        return width


@dataclass(frozen=True)
class Polynomial(Step):
    """``c_0 + c_1 x + c_2 x² + ...`` of every number, for `coefficients` c.

    Examples
    --------
    >>> from calibrant.steps import Polynomial, run
    >>> run([Polynomial(np.array([1.0, 0.0, 2.0]))], np.array([[3.0]]))  # 1 + 2 x²
    array([[19.]])
    """

    coefficients: FloatArray = array(1)

    def apply(self, x: FloatArray) -> FloatArray:
        out = np.full_like(x, self.coefficients[-1])
        for coefficient in self.coefficients[-2::-1]:
            out *= x
            out += coefficient
        return out

    def check(self, width: int) -> int:
        require(1 <= len(self.coefficients) <= 10, "coefficients should be one to ten numbers")
        return width


@dataclass(frozen=True)
class Softmax(Step):
    """``exp(x) / Σ exp(x)`` of each row.

    Examples
    --------
    >>> from calibrant.steps import Softmax, run
    >>> run([Softmax()], np.log([[3.0, 1.0]]))
    array([[0.75, 0.25]])
    """

    def apply(self, x: FloatArray) -> FloatArray:
        return softmax_inplace(x)


@dataclass(frozen=True)
class Normalize(Step):
    """Each row divided by its sum; a row of nothing but zeros becomes uniform.

    Examples
    --------
    >>> from calibrant.steps import Normalize, run
    >>> run([Normalize()], np.array([[0.3, 0.1], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    def apply(self, x: FloatArray) -> FloatArray:
        total = row_sums(x)[:, None]
        np.divide(x, total, out=x, where=total > 0.0)
        x[total[:, 0] <= 0.0] = 1.0 / x.shape[1]
        return x


@dataclass(frozen=True)
class Columns(Step):
    """Some columns, in this order.

    Examples
    --------
    >>> from calibrant.steps import Columns, run
    >>> run([Columns(np.array([2, 0]))], np.array([[0.5, 0.3, 0.2]]))
    array([[0.2, 0.5]])
    """

    index: IntArray = array(1, integer=True, low=0)

    def apply(self, x: FloatArray) -> FloatArray:
        return np.ascontiguousarray(x[:, self.index])

    @property
    def width(self) -> int:
        return len(self.index)

    def check(self, width: int) -> int:
        require(len(self.index) and np.all(self.index < width), f"index should hold numbers below {width}")
        return len(self.index)


@dataclass(frozen=True)
class LogOdds(Step):
    """``x_1 - x_0``: two columns become one.

    Examples
    --------
    >>> from calibrant.steps import LogOdds, run
    >>> run([LogOdds()], np.log([[0.2, 0.8]])).round(3)
    array([[1.386]])
    """

    takes: ClassVar[int] = 2
    gives: ClassVar[int] = 1

    def apply(self, x: FloatArray) -> FloatArray:
        return np.subtract(x[:, 1:], x[:, :1])


@dataclass(frozen=True)
class Lead(Step):
    """The largest column, and by how much it leads before the second largest.

    Examples
    --------
    >>> from calibrant.steps import Lead, run
    >>> run([Lead()], np.array([[1.0, 4.0, 2.5]]))
    array([[4. , 1.5]])
    """

    def apply(self, x: FloatArray) -> FloatArray:
        second, largest = np.partition(x, x.shape[1] - 2, axis=1)[:, -2:].T
        return np.column_stack([largest, largest - second])

    def check(self, width: int) -> int:
        require(width >= 2, "at least two columns are expected")
        return 2


@dataclass(frozen=True)
class Sigmoid(Step):
    """``1 / (1 + exp(x))`` and ``1 / (1 + exp(-x))`` of the only column, each exact next to zero.

    Examples
    --------
    >>> from calibrant.steps import Sigmoid, run
    >>> run([Sigmoid()], np.array([[0.0], [2.0]])).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 2

    def apply(self, x: FloatArray) -> FloatArray:
        small = np.exp(-np.abs(x))
        lesser = small / (1.0 + small)
        greater = 1.0 - lesser
        positive = x >= 0.0
        out = np.empty((len(x), 2))
        np.copyto(out[:, 1:], np.where(positive, greater, lesser))
        np.copyto(out[:, :1], np.where(positive, lesser, greater))
        return out


@dataclass(frozen=True)
class Complement(Step):
    """The only column q becomes ``1 - q`` and ``q``.

    Examples
    --------
    >>> from calibrant.steps import Complement, run
    >>> run([Complement()], np.array([[0.25]]))
    array([[0.75, 0.25]])
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 2

    def apply(self, x: FloatArray) -> FloatArray:
        out = np.empty((len(x), 2))
        np.subtract(1.0, x, out=out[:, :1])
        out[:, 1:] = x
        return out
