"""Expressions that share parts, written as common table expressions: a value that is used twice becomes a column.

Each value is text with other values in between. What is used once is written where it is used; what is used more often
is computed in a layer of its own level, and every layer passes on what later ones need. So the text grows with the
number of operations and not with the number of ways through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.writers.sql_dialects import Dialect

#: Terms added in one bracket: parsers limit how deep an expression is.
_TERMS = 50


@dataclass(frozen=True, eq=False)
class Value:
    """An expression: text with the values that it is made of in between."""

    parts: tuple[str | Value, ...]


class Program:
    """The values of a query, in the order in which they were made."""

    def __init__(self) -> None:
        self._values: list[Value] = []

    def value(self, *parts: str | Value) -> Value:
        """The value of an expression, which is one operand: a call, or something in brackets."""
        self._values.append(Value(parts))
        return self._values[-1]

    def call(self, function: str, *arguments: str | Value) -> Value:
        """A function of some values."""
        parts: list[str | Value] = [f"{function}("]
        for number, argument in enumerate(arguments):
            parts += [", "] * bool(number) + [argument]
        return self.value(*parts, ")")

    def op(self, left: str | Value, sign: str, right: str | Value) -> Value:
        """Two operands and what is between them."""
        return self.value("(", left, f" {sign} ", right, ")")

    def case(self, condition: tuple[str | Value, str, str | Value], yes: str | Value, no: str | Value) -> Value:
        """One of two values, by a comparison."""
        left, sign, right = condition
        return self.value("CASE WHEN ", left, f" {sign} ", right, " THEN ", yes, " ELSE ", no, " END")

    def sum(self, terms: Sequence[str | Value]) -> str | Value:
        """The sum of any number of terms."""
        while len(terms) > 1:
            terms = [self._bracket(terms[start : start + _TERMS]) for start in range(0, len(terms), _TERMS)]
        return terms[0] if terms else number(0.0)

    def _bracket(self, terms: Sequence[str | Value]) -> str | Value:
        if len(terms) == 1:
            return terms[0]
        parts: list[str | Value] = ["(", terms[0]]
        for term in terms[1:]:
            parts += [" + ", term]
        return self.value(*parts, ")")

    def select(self, source: str, keep: Sequence[str], outputs: Sequence[tuple[Value, str]], dialect: Dialect) -> str:
        """A query that gives the columns `keep` of `source` and `outputs`, each with its name (in quotes already)."""
        layers = _Layers(self._values, [value for value, _ in outputs])
        kept = [f"k{number}" for number in range(len(keep))]
        tables, before = [], source
        for layer in range(1, layers.count + 1):
            columns = [f"{name} AS {alias}" for name, alias in zip(keep, kept)] if layer == 1 else list(kept)
            columns += layers.passed_on(layer) + layers.computed(layer)
            end = f"\n  {dialect.fence}" if dialect.fence else ""
            body = ",\n    ".join(columns)
            tables.append(f"calibrant_{layer} AS (\n  SELECT\n    {body}\n  FROM {before}{end}\n)")
            before = f"calibrant_{layer}"
        names = [f"{alias} AS {name}" for name, alias in zip(keep, kept)]
        names += [f"{layers.text(value)} AS {name}" for value, name in outputs]
        body = ",\n  ".join(names)
        return "WITH " + ",\n".join(tables) + f"\nSELECT\n  {body}\nFROM {before}\n"


class _Layers:
    """Which values become columns, in which layer each is computed, and until when it is needed."""

    def __init__(self, values: list[Value], outputs: list[Value]) -> None:
        uses: dict[Value, int] = dict.fromkeys(outputs, 1)
        for value in reversed(values):
            if value in uses:
                for part in _operands(value):
                    uses[part] = uses.get(part, 0) + 1
        self._live = [value for value in values if value in uses]
        needs: dict[Value, int] = {}
        self._layer: dict[Value, int] = {}
        self._texts: dict[Value, str] = {}
        self._bodies: dict[Value, str] = {}
        for value in self._live:
            needs[value] = max((self._layer.get(part, needs[part]) for part in _operands(value)), default=0)
            body = "".join(part if isinstance(part, str) else self._texts[part] for part in value.parts)
            # What reads the source itself is a column: the layers above see nothing but columns of the layer below.
            if uses[value] > 1 or not any(True for _ in _operands(value)):
                self._layer[value] = needs[value] + 1
                self._bodies[value] = body
                body = f"c{len(self._layer)}"
            self._texts[value] = body
        self.count = max(self._layer.values())
        self._last = self._last_uses(outputs)

    def _last_uses(self, outputs: list[Value]) -> dict[Value, int]:
        used_in = dict.fromkeys(outputs, self.count + 1)
        last = dict(used_in)
        for value in reversed(self._live):
            place = self._layer.get(value, used_in.get(value, 0))
            for part in _operands(value):
                used_in[part] = place
                last[part] = max(last.get(part, 0), place)
        return last

    def text(self, value: Value) -> str:
        """What stands for a value in the layer that uses it."""
        return self._texts[value]

    def computed(self, layer: int) -> list[str]:
        """Columns that are new in a layer."""
        return [
            f"{self._bodies[value]} AS {self._texts[value]}" for value, place in self._layer.items() if place == layer
        ]

    def passed_on(self, layer: int) -> list[str]:
        """Columns of earlier layers that later ones need."""
        return [
            self._texts[value] for value, place in self._layer.items() if place < layer and self._last[value] > layer
        ]


def _operands(value: Value) -> list[Value]:
    return [part for part in value.parts if isinstance(part, Value)]


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
