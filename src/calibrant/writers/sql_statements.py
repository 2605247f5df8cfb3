"""Expressions that share parts as one query, and statements around it: a view, or an update of the table itself.

What is used once is written where it is used; what is used more often is computed in a layer of its own level, and
every layer passes on what later ones need. So the text grows with the number of operations and not with the number of
ways through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibrant.writers.sql_dialects import Dialect

#: What a statement calls the table and the query.
_TARGET, _QUERY = "target", "calibrated"


@dataclass(frozen=True, eq=False)
class Value:
    """A `template` of SQL with places for values, numbers or SQL texts; a condition never becomes a column."""

    template: str
    operands: tuple[Value | float | str, ...] = ()
    condition: bool = False

    def __and__(self, other: Value) -> Value:
        return Value("{} AND {}", (self, other), condition=True)


def select(dialect: Dialect, source: str, keep: Sequence[str], outputs: Sequence[tuple[Value, str]]) -> str:
    """A query that gives the columns `keep` of `source` and `outputs`, each with its name (in quotes already).

    Without a source it is for one row, whose columns come from the query around it.
    """
    layers = _Layers([value for value, _ in outputs])
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

    def __init__(self, outputs: list[Value]) -> None:
        live = _in_order(outputs)
        uses: dict[Value, int] = dict.fromkeys(outputs, 1)
        for value in reversed(live):
            for part in _operands(value):
                uses[part] = uses.get(part, 0) + (uses[value] if value.condition else 1)
        needs: dict[Value, int] = {}
        self._layer: dict[Value, int] = {}
        self._bodies: dict[Value, str] = {}
        self.texts: dict[Value, str] = {}
        for value in live:
            needs[value] = max((self._layer.get(part, needs[part]) for part in _operands(value)), default=0)
            texts = (self.texts[part] if isinstance(part, Value) else _text(part) for part in value.operands)
            body = value.template.format(*texts)
            # What reads the source itself is a column: the layers above see nothing but columns of the layer below.
            if not value.condition and (uses[value] > 1 or not any(True for _ in _operands(value))):
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
    """A number in double precision: with an exponent, as SQL takes others for decimal ones."""
    text = repr(float(x))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def row_by_row_of(query: str, table: str, keep: Sequence[str]) -> str:
    """A query without a source, asked for each row of a table."""
    columns = ", ".join([*(f"{_TARGET}.{name}" for name in keep), f"{_QUERY}.*"])
    return f"SELECT {columns}\nFROM {table} AS {_TARGET}\nCROSS JOIN LATERAL (\n{query}) AS {_QUERY}\n"


def update_by(query: str, dialect: Dialect, table: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """Set columns of a table to those of a query that has the same `keys`; names are in quotes already."""
    same = " AND ".join(f"{_TARGET}.{key} = {_QUERY}.{key}" for key in keys)
    source = f"(\n{query}) AS {_QUERY}"
    before = f"{_TARGET}." if dialect.update == "join" else ""
    values = ",\n  ".join(f"{before}{column} = {_QUERY}.{column}" for column in columns)
    if dialect.update == "from":
        return f"UPDATE {table} AS {_TARGET}\nSET {values}\nFROM {source}\nWHERE {same}\n"
    if dialect.update == "join":
        return f"UPDATE {table} AS {_TARGET}\nJOIN {source}\nON {same}\nSET {values}\n"
    return f"MERGE INTO {table} AS {_TARGET}\nUSING {source}\nON {same}\nWHEN MATCHED THEN UPDATE SET {values}\n"


def query_in(statement: str) -> str:
    """The query in a view or in what `update_by` wrote, or the query itself."""
    end = statement.index("\n", statement.rindex("\nFROM calibrant_") + 1)
    return statement[statement.index("WITH calibrant_1") : end]
