"""Each step as a formula of a few operations on rows, for all targets: torch, ONNX, SQL and source code.

A target subclasses `Operations`: its rows know ``+ - * /``, comparisons and ``&``, and it has the operations below.
Where a target has something faster, it defines a method named after the step: `step_softmax(step, x, width)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import combinations
from math import exp
from operator import add
from typing import Any, ClassVar

import numpy as np

from calibrant.simplex import FLOOR, LOG_FLOOR
from calibrant.steps.actions import TIE as EQUAL_COSTS
from calibrant.steps.actions import CostTable
from calibrant.steps.branches import FARTHEST, LEAST, TIE
from calibrant.steps.lines import pieces
from calibrant.steps.step import NotSupportedError, Steps, check_steps
from calibrant.typing import FloatArray

#: A row of a target: a tensor, the name of one, or expressions; with `Operators`, or operators of its own.
Row = Any


def _operator(sign: str, turned: bool = False) -> Callable[[Any, Any], Any]:
    return lambda row, other: row.combined(sign, *((other, row) if turned else (row, other)))


class Operators(ABC):
    """Operators of rows, each a call of `combined`."""

    @abstractmethod
    def combined(self, sign: str, left: object, right: object) -> Any:
        """The result of an operator for two rows, one of which may be a number."""

    __add__, __sub__, __mul__, __truediv__ = map(_operator, "+-*/")
    __rsub__, __rtruediv__ = (_operator(sign, turned=True) for sign in "-/")
    __gt__, __ge__, __lt__, __le__, __and__ = map(_operator, (">", ">=", "<", "<=", "&"))


class Operations(ABC):
    """The operations of a target on rows; a `column` is one number for each row."""

    #: What a map is written as, in messages.
    target: ClassVar[str]
    #: The least probability.
    floor: float = FLOOR

    def run(self, steps: Steps, x: Row, width: int) -> Row:
        """The result of a list of steps for a row of `width` columns."""
        for step in steps:
            own = getattr(self, f"step_{step.kind.replace('-', '_')}", None)
            if own is not None:
                x = own(step, x, width)
            elif step.kind in FORMULAS:
                x = FORMULAS[step.kind](self, step, x, width)
            else:
                kind = step.kind or "function"
                raise NotSupportedError(f"A step of the kind {kind!r} cannot be written as {self.target}.")
            width = step.check(width)
        return x

    def numbers(self, values: FloatArray | float) -> Row:
        """A constant row, or a constant for all columns."""
        return values

    @abstractmethod
    def each(self, function: str, x: Row, *numbers: float) -> Row:
        """A function of every number of a row: exp, log (of positive numbers), abs, floor, max or min."""

    def exp(self, x: Row) -> Row:
        return self.each("exp", x)

    def maximum(self, x: Row, bound: float) -> Row:
        """Numbers below `bound` become that."""
        return self.each("max", x, bound)

    def minimum(self, x: Row, bound: float) -> Row:
        """Numbers above `bound` become that."""
        return self.each("min", x, bound)

    @abstractmethod
    def where(self, condition: Row, yes: Row | float, no: Row | float) -> Row:
        """One of two values, by a condition."""

    def quotient(self, condition: Row, x: Row, y: Row, otherwise: float) -> Row:
        """``x / y`` where a condition holds: elsewhere `y` may be zero."""
        return self.where(condition, x / self.where(condition, y, 1.0), otherwise)

    @abstractmethod
    def reduced(self, function: str, x: Row) -> Row:
        """A column made of a row: its total, largest or least number."""

    def total(self, x: Row) -> Row:
        return self.reduced("total", x)

    def largest(self, x: Row) -> Row:
        return self.reduced("largest", x)

    def least(self, x: Row) -> Row:
        return self.reduced("least", x)

    @abstractmethod
    def is_top(self, x: Row, width: int) -> Row:
        """The condition that holds in the first column with the largest number."""

    @abstractmethod
    def first(self, condition: Row, *rows: Row) -> list[Row]:
        """The entries of rows in the first column in which a condition holds, as columns."""

    @abstractmethod
    def columns(self, x: Row, index: Iterable[int]) -> Row:
        """Some columns of a row."""

    @abstractmethod
    def join(self, rows: Sequence[Row], *, single: bool = False) -> Row:
        """Rows side by side; `single` ones are columns."""

    @abstractmethod
    def product(self, x: Row, matrix: FloatArray) -> Row:
        """The product of a row with a matrix."""

    @abstractmethod
    def lookup(self, tables: Sequence[FloatArray], place: Row) -> list[Row]:
        """The rows of tables at a place, a column of whole numbers."""

    @abstractmethod
    def piecewise(self, x: Row, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Row:
        """The polynomials of `calibrant.steps.lines.pieces` of a column."""

    @abstractmethod
    def step_trees(self, step: Any, x: Row, width: int) -> Row:
        """The sum of the values of trees."""


def _shifted(m: Operations, x: Row, shift: FloatArray | float) -> Row:
    return x + m.numbers(shift) if np.any(shift) else x


def _polynomial(m: Operations, step: Any, x: Row, width: int) -> Row:
    *others, last = step.coefficients.tolist()
    out = x * last if others else x * 0.0 + last
    for number, coefficient in enumerate(reversed(others)):
        out = (out * x if number else out) + coefficient
    return out


def _softmax(m: Operations, step: object, x: Row, width: int) -> Row:
    parts = m.exp(x - m.largest(x))
    return parts / m.total(parts)


def _normalize(m: Operations, step: object, x: Row, width: int) -> Row:
    total = m.total(x)
    return m.quotient(total > 0.0, x, total, 1.0 / width)


def _lead(m: Operations, step: object, x: Row, width: int) -> Row:
    largest = m.largest(x)
    others = m.where(m.is_top(x, width), -1e300, x)
    return m.join([largest, largest - m.largest(others)], single=True)


def sides(m: Operations, x: Row) -> list[Row]:
    """``1 / (1 + exp(x))`` and ``1 / (1 + exp(-x))``, each exact next to zero."""
    small = m.exp(-m.each("abs", x))
    lesser = small / (small + 1.0)
    positive, greater = x >= 0.0, 1.0 - lesser
    return [m.where(positive, lesser, greater), m.where(positive, greater, lesser)]


def _curves(m: Operations, step: Any, x: Row, width: int) -> Row:
    q, u = m.exp(x), step.coefficients
    rest = m.each("log", m.maximum(1.0 - q, exp(-20.0)))
    return (x * x) * m.numbers(u[0] / 5.0) + rest * m.numbers(u[1]) + q * m.numbers(u[2])


def _kernel(m: Operations, step: Any, x: Row, width: int) -> Row:
    centred = (x - m.total(x) * (1.0 / width)) * (1.0 / step.spread)
    z = m.join([centred, m.exp(x) * step.weight])
    squares = m.total(z * z) + m.numbers((step.landmarks**2).sum(axis=1))
    distance = m.maximum(squares - m.product(z, 2.0 * step.landmarks.T), 0.0)
    return m.exp(distance * (-1.0 / step.bandwidth))


def _levels(m: Operations, step: Any, x: Row, width: int) -> Row:
    level, rest = m.columns(x, [width - 1]), m.columns(x, range(width - 1))
    count, none = float(len(step.intercept)), np.zeros((1, width - 1))  # the last row is that of no level
    known = (level >= 0.0) & (level < count)
    place = m.where(known, m.each("floor", level), count)
    intercept, slope = m.lookup([np.vstack([table, none]) for table in (step.intercept, step.slope)], place)
    return slope * rest + intercept


def _keep_top(m: Operations, step: Any, x: Row, width: int) -> Row:
    z = m.run(step.parts[0], x, width)
    top_x, top_z = m.first(x >= m.largest(x) - TIE, x, z)
    ahead = top_x - x
    lead = m.where(ahead < TIE, 0.0, ahead)
    change = (top_z - z) - lead
    share = m.least(m.quotient(change < 0.0, lead, -change, 2.0))
    return x + m.minimum(share * (1.0 - 1e-9), 1.0) * (z - x)


def rests(m: Operations, x: Row, width: int) -> Row:
    """``1 - x`` of every column, summed from the others."""
    is_top = m.is_top(x, width)
    others = m.total(m.where(is_top, 0.0, x))
    return m.maximum(m.where(is_top, others, (others + m.largest(x)) - x), m.floor)


def _one_vs_rest(m: Operations, step: Any, x: Row, width: int) -> Row:
    rest = rests(m, x, width)
    pairs = [m.join([m.columns(rest, [j]), m.columns(x, [j])], single=True) for j in range(width)]
    return m.join([m.columns(m.run(part, pair, 2), [1]) for part, pair in zip(step.parts, pairs)], single=True)


def _one_vs_one(m: Operations, step: Any, x: Row, width: int) -> Row:
    terms: list[list[Row]] = [[] for _ in range(width)]
    for (i, j), part in zip(combinations(range(width), 2), step.parts):
        two = m.columns(x, [i, j])
        inverse = 1.0 / m.maximum(m.run(part, m.maximum(two / m.total(two), m.floor), 2), 1e-300)
        terms[i].append(m.columns(inverse, [0]))
        terms[j].append(m.columns(inverse, [1]))
    sums = m.join([reduce(add, columns) for columns in terms], single=True)
    return 1.0 / m.maximum(sums - float(width - 2), 1.0)


def _delta_ends(m: Operations, step: Any, x: Row, width: int) -> Row:
    k = check_steps(step.parts[1], width)
    r = check_steps(step.parts[0], width) // k
    u, p = (m.run(part, x, width) for part in step.parts)
    others, top = rests(m, p, k), m.is_top(p, k)
    small = m.where(top, 0.0, p)
    vectors = [m.columns(u, range(j * r, (j + 1) * r)) for j in range(k)]
    every, rest = (reduce(add, [v * m.columns(w, [j]) for j, v in enumerate(vectors)]) for w in (p, small))
    variances = []
    for j, vector in enumerate(vectors):
        left = m.where(m.columns(top, [j]), rest, every - vector * m.columns(p, [j]))
        moved = vector * m.columns(others, [j]) - left
        variances.append(m.total(moved * moved))
    logs = m.each("log", m.maximum(m.join(variances, single=True), LEAST))
    factor = m.exp(m.minimum(m.exp(logs * 0.5) / others * step.distance, FARTHEST))
    return m.join([p / (p + others * factor), p / (p + others / factor)])


def are_cheapest(m: Operations, rule: CostTable, p: Row, amounts: Iterable[Row]) -> Row:
    """The condition that holds for the cheapest actions, for probabilities and the amounts that the costs name."""
    costs = m.product(p, rule.numbers.T)
    for places, amount in zip(rule.amounts.values(), amounts):
        costs = costs + m.product(p, places.T) * amount
    return costs <= m.least(costs) * (1.0 + EQUAL_COSTS)


def _points(m: Operations, step: Any, x: Row, width: int) -> Row:
    return m.piecewise(x, *pieces(step))


FORMULAS: dict[str, Callable[[Operations, Any, Row, int], Row]] = {
    "exp": lambda m, step, x, width: m.exp(x),
    "log": lambda m, step, x, width: m.maximum(m.each("log", m.maximum(x, m.floor)), LOG_FLOOR),
    "clip": lambda m, step, x, width: m.minimum(m.maximum(x, step.low), step.high),
    "mix": lambda m, step, x, width: x * (1.0 - step.weight) + step.weight / width,
    "scale": lambda m, step, x, width: _shifted(m, x * m.numbers(step.factor), step.shift),
    "polynomial": _polynomial,
    "softmax": _softmax,
    "normalize": _normalize,
    "columns": lambda m, step, x, width: m.columns(x, step.index),
    "log-odds": lambda m, step, x, width: m.columns(x, [1]) - m.columns(x, [0]),
    "lead": _lead,
    "sigmoid": lambda m, step, x, width: m.join(sides(m, x), single=True),
    "complement": lambda m, step, x, width: m.join([1.0 - x, x], single=True),
    "linear": lambda m, step, x, width: _shifted(m, m.product(x, step.matrix), step.shift),
    "curves": _curves,
    "kernel": _kernel,
    "levels": _levels,
    "step-function": _points,
    "line": _points,
    "spline": _points,
    "sum": lambda m, step, x, width: reduce(add, [m.run(part, x, width) for part in step.parts]),
    "join": lambda m, step, x, width: m.join([m.run(part, x, width) for part in step.parts]),
    "keep-top": _keep_top,
    "one-vs-rest": _one_vs_rest,
    "one-vs-one": _one_vs_one,
    "delta-ends": _delta_ends,
}
