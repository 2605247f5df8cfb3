"""Source code of a fitted map: one readable file without dependencies, in Python, JavaScript or C99.

Each list of steps becomes a function from an array to an array, a few lines for each step, made of the formulas of
`calibrant.steps.formulas`. A language says how it spells a line, what it calls functions, and what it gives the user.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.inputs.rows import ROUNDING
from calibrant.runtime import Map
from calibrant.simplex import LOG_FLOOR
from calibrant.steps import Steps, Trees, check_steps
from calibrant.steps.actions import CostTable
from calibrant.steps.formulas import Operations, Operators, are_cheapest
from calibrant.typing import FloatArray

_LARGEST = sys.float_info.max
#: The largest probability, up to rounding.
MOST_TEXT = repr(1.0 + ROUNDING)


@dataclass(frozen=True)
class SourceRow(Operators):
    """Numbers, or conditions, of generated code: `at` gives the text of one of them for the text of its index.

    `array` is the array that holds them, if one does. A row of width one is a single number, whatever the index.
    """

    at: Callable[[str], str]
    width: int = 1
    array: str = ""

    def combined(self, sign: str, left: Any, right: Any) -> SourceRow:
        a, b = (side if isinstance(side, SourceRow) else _single(repr(float(side))) for side in (left, right))
        return SourceRow(lambda j: f"({a.at(j)} {sign} {b.at(j)})", max(a.width, b.width))

    def __neg__(self) -> SourceRow:
        return SourceRow(lambda j: f"(-{self.at(j)})", self.width)


def _single(text: str) -> SourceRow:
    return SourceRow(lambda j: text)


def entries(name: str, width: int) -> SourceRow:
    """The numbers in an array."""
    return SourceRow(lambda j: f"{name}[{j}]", width, name) if width > 1 else SourceRow(lambda j: f"{name}[0]", 1, name)


class SourceWriter(Operations):
    """Collects the constants and functions of one map; templates say how a language spells a line."""

    target = "source code"
    #: The first and last lines of a function.
    opening: ClassVar[str]
    closing: ClassVar[str]
    #: Lines that set a constant array, an array number by number, a number, and an array that a function makes.
    constant: ClassVar[str]
    vector: ClassVar[str]
    scalar: ClassVar[str]
    call: ClassVar[str]
    #: The line that sets an array to others side by side, and what stands before an array among numbers.
    joined: ClassVar[str]
    spread: ClassVar[str]
    #: An expression that is one of two, and the line that ends a function unless a condition holds.
    choice: ClassVar[str]
    refuse: ClassVar[str]
    remark: ClassVar[str] = "//"
    indent: ClassVar[str] = "    "
    #: Functions of a number, or of an array and its size.
    spelled: ClassVar[Mapping[str, str]]
    #: The source of functions of `spelled` and of `product`, `piece` and `trees`; those that are used are written.
    helpers: ClassVar[Mapping[str, str]]

    def __init__(self, fitted: Map, notes: Iterable[str] = ()) -> None:
        self.map = fitted
        self.notes = list(notes)
        self._constants: list[str] = []
        self._functions: list[str] = []
        self._lines: list[str] = []
        self._made = self._maps = 0
        self._used: dict[str, None] = {}
        self._names: dict[tuple[str, bytes], str] = {}
        self._define("calibrated", fitted.k + len(fitted.segments), self._calibrated)
        if fitted.rule is not None:
            rule = fitted.rule
            self._define("cheapest", fitted.k + len(rule.amounts), lambda x: self._cheapest(rule, x))

    @property
    def swapped(self) -> bool:
        """Whether the predictions of two classes are in the other order than the classes."""
        return self.map.columns is not None and self.map.columns[0] == 1

    @classmethod
    def write(cls, fitted: Map, notes: Iterable[str]) -> str:
        """The source code of a map."""
        self = cls(fitted, notes)
        helpers = [text for name, text in self.helpers.items() if name in self._used]
        parts = [self.head(), *helpers, "\n".join(self._constants), *self._functions, self.tail()]
        return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"

    def _calibrated(self, x: SourceRow) -> SourceRow:
        """Calibrated probabilities of a row of predictions, with the numbers of its segments behind them."""
        k = self.map.k
        row = self._prepared(self.columns(x, range(k)))
        if self.map.columns is not None:
            row = self.columns(row, self.map.columns)
        if self.map.segments:
            row = self.join([row, self.columns(x, range(k, x.width))])
        return self._steps(self.map.steps, row, x.width)

    def _prepared(self, row: SourceRow) -> SourceRow:
        """The probabilities that the first step gets; the function ends if the row is not a prediction."""
        if self.map.logits:
            if self.map.scaling is not None:
                row = self._steps([self.map.scaling], row, self.map.k)
            self._require(row <= _LARGEST)
            top = self.largest(row)
            self._require(top >= -_LARGEST)
            row = self._kept(row - top)
            return self.exp(self.maximum(row - self.each("log", self.total(self.exp(row))), LOG_FLOOR))
        self._require((row >= 0.0) & (row <= (_LARGEST if self.map.renormalize else 1.0 + ROUNDING)))
        top = self.largest(row)
        row = self._kept(row / self.where(top > 2.0, top, 1.0))
        total = self.total(row)
        self._require(total > 0.0 if self.map.renormalize else self.each("abs", total - 1.0) <= ROUNDING)
        return self.maximum(row / total, self.floor)

    def _cheapest(self, rule: CostTable, x: SourceRow) -> SourceRow:
        """The number of the cheapest action, of probabilities with amounts behind them."""
        k = self.map.k
        amounts = [self.columns(x, [j]) for j in range(k, x.width)]
        return _single(self._first(are_cheapest(self, rule, self.columns(x, range(k)), amounts)))

    def _define(self, name: str, width: int, body: Callable[[SourceRow], SourceRow]) -> None:
        """A function of an array `x` of `width` numbers."""
        outer, made = self._lines, self._made
        self._lines, self._made = [], 0
        result = body(entries("x", width))
        closing = self.closing.format(self._array(result), n=result.width)
        lines = [self.indent + line for line in self._lines]
        self._functions.append("\n".join([self.opening.format(name), *lines, closing]))
        self._lines, self._made = outer, made

    def _steps(self, steps: Steps, x: SourceRow, width: int) -> SourceRow:
        for step in steps:
            self._lines.append(f"{self.remark} {step.kind}")
            x = self._kept(super().run([step], x, width))
            width = step.check(width)
        return x

    def run(self, steps: Steps, x: SourceRow, width: int) -> SourceRow:
        """What a function of its own gives, for lists of steps inside of steps."""
        name = f"map_{self._maps}"
        self._maps += 1
        self._define(name, width, lambda row: self._steps(steps, row, width))
        return self._call(name, check_steps(steps, width), self._array(x))

    def _call(self, function: str, width: int, *arguments: str) -> SourceRow:
        """The array that a function makes."""
        self._used[function] = None
        name = self._new_name()
        self._lines.append(self.call.format(name=name, n=width, function=function, arguments=", ".join(arguments)))
        return entries(name, width)

    def _new_name(self) -> str:
        self._made += 1
        return f"v{self._made}"

    def _kept(self, row: SourceRow, kind: str = "double") -> SourceRow:
        """The row as a variable, so that it is computed once."""
        if row.array or row.at("0").isidentifier():
            return row
        name = self._new_name()
        if row.width == 1:
            self._lines.append(self.scalar.format(name=name, text=row.at("0"), kind=kind))
            return _single(name)
        self._lines.append(self.vector.format(name=name, text=row.at("j"), n=row.width))
        return entries(name, row.width)

    def _array(self, row: SourceRow) -> str:
        """The array that holds the row, or a new one."""
        return row.array or (self.join([row]) if row.width == 1 else self._kept(row)).array

    def _require(self, condition: SourceRow) -> None:
        self._lines.append(self.refuse.format(text=condition.at("j"), n=condition.width))

    def _spell(self, function: str, *arguments: object) -> str:
        self._used[function] = None
        return self.spelled[function].format(*arguments)

    def _constant(self, values: object) -> str:
        """The name of an array of numbers."""
        flat = np.ascontiguousarray(values).ravel()
        key = (flat.dtype.kind, flat.tobytes())
        if key not in self._names:
            self._names[key] = f"DATA_{len(self._names)}"
            whole = flat.dtype.kind in "iu"
            numbers = [str(int(v)) if whole else repr(float(v)) for v in flat] or ["0"]  # none is ever looked at
            text = wrapped(numbers, self.indent)
            line = self.constant.format(name=self._names[key], kind="int" if whole else "double", numbers=text)
            self._constants.append(line)
        return self._names[key]

    def numbers(self, values: FloatArray | float) -> SourceRow:
        if np.ndim(values) == 0:
            return _single(repr(float(values)))
        return entries(self._constant(values), np.size(values))

    def each(self, function: str, x: SourceRow, *numbers: float) -> SourceRow:
        return self._kept(SourceRow(lambda j: self._spell(function, x.at(j), *map(repr, map(float, numbers))), x.width))

    def where(self, condition: SourceRow, yes: Any, no: Any) -> SourceRow:
        a, b = (side if isinstance(side, SourceRow) else self.numbers(side) for side in (yes, no))
        width = max(condition.width, a.width, b.width)
        return self._kept(SourceRow(lambda j: self.choice.format(condition.at(j), a.at(j), b.at(j)), width))

    def quotient(self, condition: SourceRow, x: SourceRow, y: SourceRow, otherwise: float) -> SourceRow:
        return self.where(condition, x / y, otherwise)

    def reduced(self, function: str, x: SourceRow, kind: str = "double") -> SourceRow:
        return self._kept(_single(self._spell(function, self._array(x), x.width)), kind)

    def is_top(self, x: SourceRow, width: int) -> SourceRow:
        place = self.reduced("top", x, "int")
        return SourceRow(lambda j: f"({j} == {place.at(j)})", width)

    def _first(self, condition: SourceRow) -> str:
        return self.reduced("top", self.where(condition, 1.0, 0.0), "int").at("0")

    def first(self, condition: SourceRow, *rows: SourceRow) -> list[SourceRow]:
        place = self._first(condition)
        return [self._kept(_single(row.at(place))) for row in rows]

    def columns(self, x: SourceRow, index: Iterable[int]) -> SourceRow:
        places = np.array([int(j) for j in index], dtype=np.int64)
        if len(places) == 1:
            return _single(x.at(str(places[0])))
        if np.array_equal(places, np.arange(len(places))):
            return x if len(places) == x.width else SourceRow(x.at, len(places))
        name = self._constant(places)
        return SourceRow(lambda j: x.at(str(places[int(j)]) if j.isdigit() else f"{name}[{j}]"), len(places))

    def join(self, rows: Sequence[SourceRow], *, single: bool = False) -> SourceRow:
        name, width = self._new_name(), sum(row.width for row in rows)
        items = [row.at("0") if row.width == 1 else self.spread + self._array(row) for row in rows]
        self._lines.append(self.joined.format(name=name, items=", ".join(items)))
        return entries(name, width)

    def product(self, x: SourceRow, matrix: FloatArray) -> SourceRow:
        before, after = matrix.shape
        return self._call("product", after, self._array(x), self._constant(matrix), str(before), str(after))

    def _place(self, text: str) -> str:
        """The name of a whole number."""
        return self._kept(_single(text), "int").at("0")

    def lookup(self, tables: Sequence[FloatArray], place: SourceRow) -> list[SourceRow]:
        whole, width = self._place(self._spell("int", place.at("0"))), tables[0].shape[1]

        def row_of(name: str) -> SourceRow:
            return SourceRow(lambda j: f"{name}[{whole} * {width} + {j}]", width)

        return [row_of(self._constant(table)) for table in tables]

    def piecewise(self, x: SourceRow, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> SourceRow:
        x = self._kept(x)
        self._used["piece"] = None
        piece = self._place(f"piece({x.at('0')}, {self._constant(edges)}, {len(edges)})")
        origin, *others, out = [_single(f"{self._constant(v)}[{piece}]") for v in (origins, *coefficients.T)]
        for part in reversed(others):
            out = out * (x - origin) + part
        return out

    def step_trees(self, step: Trees, x: SourceRow, width: int) -> SourceRow:
        arrays = [self._constant(values) for values in (step.features, step.subtracted, step.thresholds, step.values)]
        sizes = [str(size) for size in (*step.features.shape, step.width)]
        return self._call("trees", step.width, self._array(x), *arrays, *sizes)

    @abstractmethod
    def head(self) -> str:
        """How the file starts: what it is, its classes and columns."""

    @abstractmethod
    def tail(self) -> str:
        """How the file ends: the function to call."""


def wrapped(items: list[str], indent: str = "    ") -> str:
    """Items on lines of no more than 110 characters, if they have no more themselves."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > 110:
            lines.append("")
        lines[-1] += f"{item}, "
    return "\n".join(indent + line.rstrip() for line in lines)
