"""Steps that treat every number or every row alike: logarithms, clipping, mixtures, slopes, softmax, sums of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.rowwise import row_sums
from calibrant.simplex import log_probabilities, softmax_inplace
from calibrant.steps.base import Step, array, number, require
from calibrant.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Exp(Step):
    """``exp(x)``: probabilities of log-probabilities."""

    kind: ClassVar[str] = "exp"

    def apply(self, x: FloatArray) -> FloatArray:
        return np.exp(x, out=x)


@dataclass(frozen=True)
class Log(Step):
    """``max(log x, LOG_FLOOR)``: log-probabilities of probabilities."""

    kind: ClassVar[str] = "log"

    def apply(self, x: FloatArray) -> FloatArray:
        return log_probabilities(x, out=x)


@dataclass(frozen=True)
class Clip(Step):
    """Numbers below `low` become `low`, above `high` become `high`."""

    kind: ClassVar[str] = "clip"
    low: float = number()
    high: float = number()

    def apply(self, x: FloatArray) -> FloatArray:
        return np.clip(x, self.low, self.high, out=x)

    def check(self, width: int) -> int:
        require(self.low <= self.high, "low exceeds high")
        return width


@dataclass(frozen=True)
class Mix(Step):
    """``(1 - weight) x + weight / width``: the mixture of each row with the uniform distribution."""

    kind: ClassVar[str] = "mix"
    weight: float = number(low=0.0, high=1.0)

    def apply(self, x: FloatArray) -> FloatArray:
        x *= 1.0 - self.weight
        x += self.weight / x.shape[1]
        return x


@dataclass(frozen=True)
class Scale(Step):
    """``factor x + shift``, one number for all columns or one for each."""

    kind: ClassVar[str] = "scale"
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
    """``c_0 + c_1 x + c_2 x² + ...`` of every number, for `coefficients` c."""

    kind: ClassVar[str] = "polynomial"
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
    """``exp(x) / Σ exp(x)`` of each row."""

    kind: ClassVar[str] = "softmax"

    def apply(self, x: FloatArray) -> FloatArray:
        return softmax_inplace(x)


@dataclass(frozen=True)
class Normalize(Step):
    """Each row divided by its sum; a row of nothing but zeros becomes uniform."""

    kind: ClassVar[str] = "normalize"

    def apply(self, x: FloatArray) -> FloatArray:
        total = row_sums(x)[:, None]
        np.divide(x, total, out=x, where=total > 0.0)
        x[total[:, 0] <= 0.0] = 1.0 / x.shape[1]
        return x


@dataclass(frozen=True)
class Columns(Step):
    """Some columns, in this order."""

    kind: ClassVar[str] = "columns"
    index: IntArray = array(1, integer=True, low=0)

    def apply(self, x: FloatArray) -> FloatArray:
        return np.ascontiguousarray(x[:, self.index])

    def check(self, width: int) -> int:
        require(len(self.index) and np.all(self.index < width), f"index should hold numbers below {width}")
        return len(self.index)


@dataclass(frozen=True)
class LogOdds(Step):
    """``x_1 - x_0``: two columns become one."""

    kind: ClassVar[str] = "log-odds"

    def apply(self, x: FloatArray) -> FloatArray:
        return np.subtract(x[:, 1:], x[:, :1])

    def check(self, width: int) -> int:
        require(width == 2, f"two columns are expected, there are {width}")
        return 1


@dataclass(frozen=True)
class Sigmoid(Step):
    """``1 / (1 + exp(x))`` and ``1 / (1 + exp(-x))`` of the only column, each exact next to zero."""

    kind: ClassVar[str] = "sigmoid"

    def apply(self, x: FloatArray) -> FloatArray:
        small = np.exp(-np.abs(x))
        lesser = small / (1.0 + small)
        greater = 1.0 - lesser
        positive = x >= 0.0
        out = np.empty((len(x), 2))
        np.copyto(out[:, 1:], np.where(positive, greater, lesser))
        np.copyto(out[:, :1], np.where(positive, lesser, greater))
        return out

    def check(self, width: int) -> int:
        require(width == 1, f"one column is expected, there are {width}")
        return 2


@dataclass(frozen=True)
class Complement(Step):
    """The only column q becomes ``1 - q`` and ``q``."""

    kind: ClassVar[str] = "complement"

    def apply(self, x: FloatArray) -> FloatArray:
        out = np.empty((len(x), 2))
        np.subtract(1.0, x, out=out[:, :1])
        out[:, 1:] = x
        return out

    def check(self, width: int) -> int:
        require(width == 1, f"one column is expected, there are {width}")
        return 2
