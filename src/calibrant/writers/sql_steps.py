"""The operations of a map's steps in SQL: plain arithmetic, CASE, LN, EXP, ABS, GREATEST and LEAST.

Functions given by points and trees become CASE expressions: points by halving what is left, trees by the number of
their leaf. A row that is not a prediction (a NULL, a negative number, a sum other than one) is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from calibrant.inputs.rows import ROUNDING, largest_allowed
from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of, plain_number
from calibrant.runtime import Map
from calibrant.simplex import LOG_FLOOR
from calibrant.steps.formulas import Operations
from calibrant.typing import FloatArray
from calibrant.writers.sql_dialects import Dialect, check_text
from calibrant.writers.sql_values import (
    TERMS,
    Condition,
    Number,
    Row,
    Value,
    arithmetic,
    call,
    case,
    compare,
    node,
    side_by_side,
    total,
)

#: PostgreSQL fails where a result is too small for a double; nor is the product of two of these.
_LEAST_EXPONENT = -345.0
#: A logit so far below the largest one is that of an impossible class; a larger difference may not be a double.
_FARTHEST = 1e4
#: From so many points on, arrays are faster than CASE.
_MANY = 30
_LARGEST = float(np.finfo(np.float64).max)
#: What sqlglot calls a function of every number.
_FUNCTIONS = {"exp": "Exp", "log": "Ln", "abs": "Abs", "floor": "Floor", "max": "Greatest", "min": "Least"}


def _each(x: Row, function: Any) -> Row:
    return Row([function(value) for value in x.values])


class SqlOperations(Operations):
    """Rows are lists of expressions."""

    target = "SQL"

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._known = {"ignore_nulls": True} if dialect.skips_null else {}

    def _bound(self, kind: str, *values: Number) -> Value:
        """GREATEST or LEAST."""
        return Value(lambda a, *rest: node(kind, this=a, expressions=list(rest), **self._known), values)

    def _extreme(self, kind: str, values: Sequence[Number]) -> Row:
        left = list(values)
        while len(left) > 1:
            parts = [left[start : start + TERMS] for start in range(0, len(left), TERMS)]
            left = [self._bound(kind, *part) if len(part) > 1 else part[0] for part in parts]
        return Row(left)

    def numbers(self, values: FloatArray | float) -> Any:
        return values

    def each(self, function: str, x: Row, *numbers: float) -> Row:
        kind = _FUNCTIONS[function]
        if numbers:
            return _each(x, lambda value: self._bound(kind, value, *numbers))
        return _each(self.maximum(x, _LEAST_EXPONENT) if function == "exp" else x, lambda value: call(kind, value))

    def where(self, condition: Row, yes: Any, no: Any) -> Row:
        return Row([case((test, a), default=b) for test, a, b in side_by_side(condition, yes, no)])

    def quotient(self, condition: Row, x: Row, y: Row, otherwise: float) -> Row:
        return self.where(condition, x / y, otherwise)

    def total(self, x: Row) -> Row:
        return Row([total(x.values)])

    def largest(self, x: Row) -> Row:
        return self._extreme("Greatest", x.values)

    def least(self, x: Row) -> Row:
        return self._extreme("Least", x.values)

    def is_top(self, x: Row, width: int) -> Row:
        largest = self.largest(x).values[0]
        tests = [(compare("EQ", value, largest), str(j)) for j, value in enumerate(x.values[:-1])]
        top = case(*tests, default=str(width - 1))
        return Row([compare("EQ", top, str(j)) for j in range(width)])

    def first(self, condition: Row, *rows: Row) -> list[Row]:
        return [Row([case(*zip(condition.values[:-1], row.values), default=row.values[-1])]) for row in rows]

    def columns(self, x: Row, index: Iterable[int]) -> Row:
        return Row([x.values[j] for j in index])

    def join(self, rows: Sequence[Row], *, single: bool = False) -> Row:
        return Row([value for row in rows for value in row.values])

    def product(self, x: Row, matrix: FloatArray) -> Row:
        return Row([total([arithmetic("Mul", v, w) for v, w in zip(x.values, column)]) for column in matrix.T.tolist()])

    def lookup(self, tables: Sequence[FloatArray], place: Row) -> list[Row]:
        whole = Value(lambda a: _cast(a, "int"), (place.values[0],))
        return [Row([self._choice(whole, column) for column in table.T]) for table in tables]

    def step_trees(self, step: Any, x: Row, width: int) -> Row:
        leaves = [self._leaf(x.values, *tree) for tree in zip(step.features, step.subtracted, step.thresholds)]
        chosen = (zip(leaves, step.values[:, :, j]) for j in range(step.width))
        return Row([total([self._choice(leaf, values) for leaf, values in trees]) for trees in chosen])

    def _leaf(self, x: list[Number], features: Any, subtracted: Any, thresholds: FloatArray) -> Value:
        """The number of the leaf of a tree, from the answers to its questions."""
        bits: list[Number] = []
        for bit, (feature, other, threshold) in enumerate(zip(features, subtracted, thresholds)):
            asked = x[feature] if other < 0 else arithmetic("Sub", x[feature], x[other])
            bits.append(case((compare("GT", asked, float(threshold)), str(1 << bit)), default="0"))
        found = total(bits)
        assert isinstance(found, Value)
        return found

    def _choice(self, place: Value, values: FloatArray) -> Number:
        """One of some numbers."""
        if np.all(values == values[-1]):
            return float(values[-1])
        if self.dialect.arrays:
            return self._entry(values, place)

        def make(this: Any, default: Any, *texts: Any) -> Any:
            ifs = [node("If", this=a, true=b) for a, b in zip(texts[::2], texts[1::2])]
            return node("Case", this=this, ifs=ifs, default=default)

        pairs = [(str(j), float(v)) for j, v in enumerate(values[:-1]) if v != values[-1]]
        return Value(make, (place, float(values[-1]), *(part for pair in pairs for part in pair)))

    def _entry(self, array: Value | FloatArray, place: Number, first: int = 1) -> Value:
        """An entry of an array, which is written where it is used if it is none of the query's columns."""

        def make(place: Any, *column: Any) -> Any:
            place = node("Add", this=place, expression=node("Var", this=str(first)))
            this = column[0] if column else _array(array)
            return node("Bracket", this=node("Paren", this=this), expressions=[place], offset=1)

        return Value(make, (place, array) if isinstance(array, Value) else (place,))

    def piecewise(self, x: Row, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Row:
        degree = int(max(np.flatnonzero(np.any(coefficients != 0.0, axis=0)), default=0))
        coefficients = coefficients[:, : degree + 1]
        if self.dialect.arrays and len(edges) > _MANY:
            return Row([self._from_arrays(x.values[0], edges, origins, coefficients)])

        def search(low: int, high: int) -> Number:
            if low == high:
                return _polynomial(arithmetic("Sub", x.values[0], float(origins[low])), coefficients[low].tolist())
            middle = (low + high) // 2
            above = compare("GT", x.values[0], float(edges[middle]))
            return case((above, search(middle + 1, high)), default=search(low, middle))

        return Row([search(0, len(edges))])

    def _from_arrays(self, x: Number, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Number:
        """The polynomial of the piece that `x` lies in, which is found by halving what is left."""
        half = 1 << (len(edges).bit_length() - 1)
        padded = np.full(2 * half, _LARGEST)
        padded[: len(edges)] = edges
        table, place = Value(lambda: _array(padded)), "0"  # type: tuple[Value, Any]
        while half:  # entries count from one
            beyond = compare("GT", x, self._entry(table, place, half))
            place = arithmetic("Add", place, case((beyond, str(half)), default="0"))
            half //= 2
        t = arithmetic("Sub", x, self._entry(origins, place))
        return _polynomial(t, [self._entry(column, place) for column in coefficients.T])

    def segment(self, name: str, levels: Sequence[str] | None) -> Number:
        """The number that a column of segments gives."""
        column = self.dialect.quote(name)
        if levels is None:
            value = Value(lambda a: _cast(a, "double"), (column,))
            within = self._bound("Least", self._bound("Greatest", value, -LARGEST), LARGEST)
            return case((compare("LTE", call("Abs", value), _LARGEST), within), default=MISSING)
        spelled = places_of(levels)
        if "" in spelled:
            spelled = {**dict.fromkeys(MISSING_TEXTS, spelled[""]), **spelled}
        empty = node("Literal", this="", is_string=True)
        text = Value(lambda a: node("Coalesce", this=_cast(a, "varchar"), expressions=[empty]), (column,))
        plain = {key: place for key, place in spelled.items() if key and plain_number(key) == key}
        return self._by_text(text, spelled, self._by_number(text, plain) if plain else -1.0)

    def _by_text(self, text: Value, places: Mapping[str, int], other: Number) -> Number:
        """The place of a text, or another value."""
        keys = [node("Literal", this=check_text(key), is_string=True) for key in places]

        def make(this: Any, default: Any, *found: Any) -> Any:
            ifs = [node("If", this=key, true=place) for key, place in zip(keys, found)]
            return node("Case", this=this, ifs=ifs, default=default)

        return Value(make, (text, other, *map(float, places.values()))) if places else other

    def _by_number(self, text: Value, places: dict[str, int]) -> Value:
        """The place of the `plain_number` of a text, by functions of texts that every database has."""

        def like(pattern: str) -> Any:
            return compare("Like", text, f"'{pattern}'")

        def trimmed(value: Value, side: str, letter: str) -> Value:
            removed = node("Literal", this=letter, is_string=True)
            return Value(lambda a: node("Trim", this=a, expression=removed, position=side), (value,))

        unsigned = case(
            (like("-%"), Value(lambda a: node("Substring", this=a, start=node("Var", this="2")), (text,))), default=text
        )
        bare = trimmed(unsigned, "LEADING", "0")
        short = trimmed(trimmed(bare, "TRAILING", "0"), "TRAILING", ".")
        digits = case((compare("Like", bare, "'%.%'"), short), default=bare)
        # What is left of a zero is nothing, and of 0.5 it is .5; signs are no part of it, or 0-5 would be -5.
        zero = case((like("%0%"), float(places.pop("0", -1))), default=-1.0)
        below = {key[1:].removeprefix("0"): place for key, place in places.items() if key.startswith("-")}
        above = {key.removeprefix("0"): place for key, place in places.items() if not key.startswith("-")}
        negative, positive = (self._by_text(digits, keys, -1.0) for keys in (below, above))
        return case(
            (like("%.%.%"), -1.0), (compare("EQ", digits, "''"), zero), (like("-%"), negative), default=positive
        )

    def prepare(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Condition]:
        """The row that the first step gets, uniform where it is not a prediction, and whether it is one."""
        if fitted.independent:
            x, valid = self._labels(fitted, given)
        elif fitted.logits:
            row = Row([0.0, *given] if len(given) == 1 else given)
            if fitted.scaling is not None:
                row = self.run([fitted.scaling], row, fitted.k)
            x, valid = self._logits(row)
        else:
            x, valid = self._probabilities(fitted, given)
        marked = compare("EQ", case((valid, "1"), default="0"), "1")
        x = self.where(Row([marked]), x, 0.5 if fitted.independent else 1.0 / len(x.values))
        return (x if fitted.columns is None or len(given) == 1 else self.columns(x, fitted.columns)), marked

    def _probabilities(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Condition]:
        most = largest_allowed(len(given) == 1, fitted.renormalize, ROUNDING)
        x = Row([case((compare("GTE", v, 0.0) & compare("LTE", v, most), v)) for v in given])
        if len(given) == 1:
            second = self.where(x > 1.0, 1.0, x)  # LEAST leaves NULL out in some databases
            x = self.join([1.0 - second, second])
        if fitted.renormalize and len(given) > 1:
            x = self.where(self.largest(x) < 1e-100, x * 1e300, x)
            top = self.largest(x)
            large = self.where(top > 2.0, top, 1.0)
            # A quotient that is too small for a double is an error in some databases.
            x = self.where(x < large * 1e-100, 0.0, x / large)
        total = self.total(x)  # NULL if one of them is
        valid = total > 0.0
        if not fitted.renormalize:
            valid = _each(self.each("abs", total - 1.0), lambda value: compare("LTE", value, ROUNDING))
        return self.maximum(x / total, self.floor), valid.values[0]

    def _labels(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Condition]:
        """The probabilities that independent labels are not, and are, true."""
        least, most = (-_LARGEST, _LARGEST) if fitted.logits else (0.0, 1.0 + ROUNDING)
        x = Row([case((compare("GTE", v, least) & compare("LTE", v, most), v)) for v in given])
        if fitted.logits:
            far = self.where(x > _FARTHEST, _FARTHEST, self.where(x < -_FARTHEST, -_FARTHEST, x))
            small = self.exp(0.0 - self.each("abs", far))
            lesser, greater = small / (small + 1.0), 1.0 / (small + 1.0)
            on, off = self.where(x >= 0.0, greater, lesser), self.where(x >= 0.0, lesser, greater)
        else:
            on = self.where(x > 1.0, 1.0, x)
            off = 1.0 - on
        return self.maximum(self.join([off, on]), self.floor), reduce(and_, map(_known, x.values))

    def _logits(self, given: Row) -> tuple[Row, Condition]:
        known = _each(given, lambda value: case((compare("LTE", value, _LARGEST), value)))
        top = self.largest(known)
        # A difference of numbers such as 1e308 and -1e308 is an error in some databases; it is never computed.
        x = self.where(known < top - _FARTHEST, -_FARTHEST, known - top)
        logs = x - self.each("log", self.total(self.exp(x)))
        valid = compare("GTE", top.values[0], -_LARGEST)
        for value in known.values:
            if isinstance(value, Value):
                valid &= _known(value)
        return _each(self.maximum(logs, LOG_FLOOR), lambda value: call("Exp", value)), valid


def _known(value: Any) -> Condition:
    """Whether a value is not NULL."""
    return Condition(lambda a: node("Not", this=node("Is", this=a, expression=node("Null"))), (value,))


def _array(values: Any) -> Any:
    """Many numbers, as one text: databases plan that in no time."""
    texts = [node("Literal", this=text, is_string=True) for text in (",".join(map(repr, values.tolist())), ",")]
    return _cast(node("Anonymous", this="STRING_TO_ARRAY", expressions=texts), "array<double>")


def _cast(expression: Any, kind: str) -> Any:
    return node("Cast", this=expression, to=node("DataType").build(kind))


def _polynomial(x: Number, coefficients: Sequence[Number]) -> Number:
    """``c_0 + c_1 x + ...`` by Horner's rule."""
    out = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        out = arithmetic("Add", arithmetic("Mul", out, x), coefficient)
    return out
