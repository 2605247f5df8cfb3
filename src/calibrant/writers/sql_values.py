"""Expressions of SQL that share parts, and rows of them: a value that is used twice becomes a column of a subquery.

What is used once is written where it is used; what is used more often is computed in a layer of its own level, and
every layer passes on what later ones need. So the text grows with the number of operations and not with the number of
ways through them. sqlglot spells each operation in the words of a database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import and_
from typing import Any

import numpy as np

from calibrant.optional import require
from calibrant.writers.sql_dialects import Dialect

#: Terms added in one bracket, and arguments of one function: parsers limit how deep and how long expressions are.
TERMS = 50


def node(kind: str, **arguments: Any) -> Any:
    """An expression of sqlglot."""
    return getattr(require("sqlglot", extra="export").exp, kind)(**arguments)


@dataclass(frozen=True, eq=False)
class Condition:
    """What `make` makes of its operands: true or false, and never a column."""

    make: Callable[..., Any]
    operands: tuple[Value | float | str, ...]

    def __and__(self, other: Condition) -> Condition:
        count = len(self.operands)

        def both(*texts: Any) -> Any:
            return node("And", this=self.make(*texts[:count]), expression=other.make(*texts[count:]))

        return Condition(both, (*self.operands, *other.operands))


@dataclass(frozen=True, eq=False)
class Value:
    """What `make` makes of its operands: other values, numbers, or texts that are SQL already."""

    make: Callable[..., Any]
    operands: tuple[Value | float | str, ...] = ()


#: An entry of a row.
Number = Value | float


def arithmetic(kind: str, left: Number, right: Number) -> Number:
    """Two numbers and what is between them; what changes nothing is left out."""
    if not isinstance(left, Value) and not isinstance(right, Value):
        return float({"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[kind](left, right))
    if right == {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}[kind]:
        return left
    if left == {"Add": 0.0, "Mul": 1.0}.get(kind):
        return right
    if kind == "Mul" and 0.0 in (left, right):
        return 0.0
    # Two doubles: a database need not be told how it divides whole numbers.
    more = {"typed": True, "safe": False} if kind == "Div" else {}
    return Value(lambda a, b: node("Paren", this=node(kind, this=a, expression=b, **more)), (left, right))


def call(kind: str, value: Number) -> Value:
    """A function of a number."""
    return Value(lambda a: node(kind, this=a), (value,))


def compare(kind: str, left: Number | str, right: Number | str) -> Condition:
    """A comparison: GT, GTE, LT, LTE, EQ or Like."""
    return Condition(lambda a, b: node(kind, this=a, expression=b), (left, right))


def case(*branches: tuple[Condition, Number | str], default: Number | str | None = None) -> Value:
    """The value of the first branch whose condition holds."""
    operands: list[Any] = [] if default is None else [default]
    for condition, value in branches:
        operands += [*condition.operands, value]

    def make(*texts: Any) -> Any:
        rest, ifs = list(texts if default is None else texts[1:]), []
        for condition, _ in branches:
            count = len(condition.operands)
            ifs.append(node("If", this=condition.make(*rest[:count]), true=rest[count]))
            del rest[: count + 1]
        return node("Case", ifs=ifs, default=None if default is None else texts[0])

    return Value(make, tuple(operands))


def total(terms: Sequence[Number]) -> Number:
    """The sum of any number of terms."""
    constant = sum(term for term in terms if not isinstance(term, Value))
    left: list[Number] = [term for term in terms if isinstance(term, Value)]
    left += [constant] if constant or not left else []
    while len(left) > 1:
        left = [_bracket(left[start : start + TERMS]) for start in range(0, len(left), TERMS)]
    return left[0]


def _bracket(terms: Sequence[Number]) -> Number:
    def make(first: Any, *others: Any) -> Any:
        for other in others:
            first = node("Add", this=first, expression=other)
        return node("Paren", this=first)

    return Value(make, tuple(terms)) if len(terms) > 1 else terms[0]


def _operator(function: Callable[..., Any], kind: str, turned: bool = False) -> Callable[[Row, Any], Row]:
    """The method of an operator."""
    return lambda row, other: row.with_other(other, lambda a, b: function(kind, *((b, a) if turned else (a, b))))


class Row:
    """The entries of a row, with operators for all of them at once; a row of one entry goes with any other."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def with_other(self, other: Any, function: Callable[[Any, Any], Any]) -> Row:
        """A function of the entries of two rows."""
        return Row([function(*pair) for pair in side_by_side(self, other)])

    __add__, __sub__, __mul__, __truediv__ = (_operator(arithmetic, kind) for kind in ("Add", "Sub", "Mul", "Div"))
    __rsub__, __rtruediv__ = (_operator(arithmetic, kind, turned=True) for kind in ("Sub", "Div"))
    __gt__, __ge__, __lt__ = (_operator(compare, kind) for kind in ("GT", "GTE", "LT"))

    def __neg__(self) -> Row:
        return Row([Value(lambda a: node("Paren", this=node("Neg", this=a)), (value,)) for value in self.values])

    def __and__(self, other: Row) -> Row:
        return self.with_other(other, and_)


def side_by_side(*rows: Any) -> Iterator[tuple[Any, ...]]:
    """The entries of rows, arrays or numbers, column by column; a single one stands for all columns."""
    found = [row.values if isinstance(row, Row) else np.atleast_1d(np.asarray(row, float)).tolist() for row in rows]
    count = max(map(len, found))
    return zip(*(part * count if len(part) == 1 else part for part in found))


def select(dialect: Dialect, source: str, keep: Sequence[str], outputs: Sequence[tuple[Value, str]]) -> str:
    """A query that gives the columns `keep` of `source` and `outputs`, each with its name (in quotes already).

    Without a source it is about one row, whose columns stand around it.
    """
    layers = _Layers([value for value, _ in outputs], dialect)
    kept = [f"k{number}" for number in range(len(keep))]
    tables, before = [], source
    for layer in range(1, layers.count + 1):
        columns = [f"{name} AS {alias}" for name, alias in zip(keep, kept)] if layer == 1 else list(kept)
        columns += layers.passed_on(layer) + layers.computed(layer)
        end = f"\n  {dialect.fence}" if dialect.fence else ""
        body = ",\n    ".join(columns)
        home = f"\n  FROM {before}" if before else ""
        tables.append(f"calibrant_{layer} AS (\n  SELECT\n    {body}{home}{end}\n)")
        before = f"calibrant_{layer}"
    names = [f"{alias} AS {name}" for name, alias in zip(keep, kept)]
    names += [f"{layers.texts[value]} AS {name}" for value, name in outputs]
    body = ",\n  ".join(names)
    return "WITH " + ",\n".join(tables) + f"\nSELECT\n  {body}\nFROM {before}\n"


class _Layers:
    """Which values become columns, in which layer each is computed, and until when it is needed."""

    def __init__(self, outputs: list[Value], dialect: Dialect) -> None:
        live = _in_order(outputs)
        uses: dict[Value, int] = dict.fromkeys(outputs, 1)
        for value in live:
            for part in _operands(value):
                uses[part] = uses.get(part, 0) + 1
        needs: dict[Value, int] = {}
        self._layer: dict[Value, int] = {}
        self._bodies: dict[Value, str] = {}
        self.texts: dict[Value, str] = {}
        for value in live:
            needs[value] = max((self._layer.get(part, needs[part]) for part in _operands(value)), default=0)
            texts = (self.texts[part] if isinstance(part, Value) else _text(part) for part in value.operands)
            body = dialect.spell(value.make(*(node("Var", this=text) for text in texts)))
            # What reads the source itself is a column: the layers above see nothing but columns of the layer below.
            if uses[value] > 1 or not any(True for _ in _operands(value)):
                self._layer[value] = needs[value] + 1
                self._bodies[value] = body
                body = f"c{len(self._layer)}"
            self.texts[value] = body
        self.count = max(self._layer.values())
        self._last = dict.fromkeys(outputs, self.count + 1)
        used_in = dict(self._last)
        for value in reversed(live):
            place = self._layer.get(value, used_in.get(value, 0))
            for part in _operands(value):
                used_in[part] = max(used_in.get(part, 0), place)
                self._last[part] = max(self._last.get(part, 0), place)

    def computed(self, layer: int) -> list[str]:
        """Columns that are new in a layer."""
        return [
            f"{self._bodies[value]} AS {self.texts[value]}" for value, place in self._layer.items() if place == layer
        ]

    def passed_on(self, layer: int) -> list[str]:
        """Columns of earlier layers that later ones need."""
        return [
            self.texts[value] for value, place in self._layer.items() if place < layer and self._last[value] > layer
        ]


def _operands(value: Value) -> Iterator[Value]:
    return (part for part in value.operands if isinstance(part, Value))


def _in_order(outputs: Sequence[Value]) -> list[Value]:
    """All values that the outputs need, each after those that it is made of."""
    done: dict[Value, None] = {}
    stack = [(value, False) for value in reversed(outputs)]
    while stack:
        value, ready = stack.pop()
        if ready:
            done[value] = None
        elif value not in done:
            stack.append((value, True))
            stack += [(part, False) for part in reversed(value.operands) if isinstance(part, Value)]
    return list(done)


def _text(operand: Value | float | str) -> str:
    return operand if isinstance(operand, str) else number(operand)  # type: ignore[arg-type]


def number(x: float) -> str:
    """A number in double precision: with an exponent, as SQL takes others for decimal ones.

    Examples
    --------
    >>> number(0.5), number(-2.0), number(1e-30)
    ('0.5e0', '(-2.0e0)', '1e-30')
    """
    text = repr(float(x))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text
