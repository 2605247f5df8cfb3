"""The operations of a map's steps in SQL: plain arithmetic, CASE, LN, EXP, ABS, GREATEST and LEAST.

Functions given by points and trees become CASE expressions: points by halving what is left, trees by the number of
their leaf. A row that is not a prediction (a NULL, a negative number, a sum other than one) is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from calibrant.inputs.rows import ROUNDING, largest_allowed
from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of, plain_number
from calibrant.runtime import Map
from calibrant.simplex import LOG_FLOOR
from calibrant.steps import Trees
from calibrant.steps.formulas import Operations, Operators, sides
from calibrant.typing import FloatArray
from calibrant.writers.sql_dialects import Dialect
from calibrant.writers.sql_statements import Value

#: An entry of a row.
Number = Value | float

#: Terms added in one bracket, and arguments of one function: parsers limit how deep and how long expressions are.
_TERMS = 50
#: PostgreSQL fails where a result is too small for a double; nor is the product of two of these.
_LEAST_EXPONENT = -345.0
#: A logit so far below the largest one is that of an impossible class; a larger difference may not be a double.
_FARTHEST = 1e4
#: From so many points on, arrays are faster than CASE.
_MANY = 30
_LARGEST = float(np.finfo(np.float64).max)


def value(template: str, *operands: Value | float | str) -> Value:
    """A template with these operands."""
    return Value(template, operands)


def compare(sign: str, left: Value | float | str, right: Value | float | str) -> Value:
    """A comparison of numbers or texts, or AND of conditions."""
    return Value(f"{{}} {sign} {{}}", (left, right), condition=True)


def case(*branches: tuple[Value | str, Number | str], of: Value | None = None, default: Any = None) -> Value:
    """The value of the first branch whose condition holds, or whose text is `of`."""
    parts: list[Value | float | str] = [part for branch in branches for part in branch]
    ends = " WHEN {} THEN {}" * len(branches) + ("" if default is None else " ELSE {}") + " END"
    parts += [] if default is None else [default]
    return value(f"CASE{ends}", *parts) if of is None else value(f"CASE {{}}{ends}", of, *parts)


def arithmetic(sign: str, left: Number, right: Number) -> Number:
    """Two numbers and what is between them; what changes nothing is left out."""
    if not isinstance(left, Value) and not isinstance(right, Value):
        return float({"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign](left, right))
    if right == {"+": 0.0, "-": 0.0, "*": 1.0, "/": 1.0}[sign]:
        return left
    if left == {"+": 0.0, "*": 1.0}.get(sign):
        return right
    if sign == "*" and 0.0 in (left, right):
        return 0.0
    return value(f"({{}} {sign} {{}})", left, right)


def _grouped(values: Sequence[Number], function: Callable[[Sequence[Number]], Number]) -> Number:
    """A function of any number of values, which is called for some at a time."""
    left = list(values)
    while len(left) > 1:
        groups = [left[start : start + _TERMS] for start in range(0, len(left), _TERMS)]
        left = [function(group) if len(group) > 1 else group[0] for group in groups]
    return left[0]


def total(terms: Sequence[Number]) -> Number:
    constant = sum(term for term in terms if not isinstance(term, Value))
    left: list[Number] = [term for term in terms if isinstance(term, Value)]
    left += [constant] if constant or not left else []
    return _grouped(left, lambda group: value(f"({' + '.join(['{}'] * len(group))})", *group))


class Row(Operators):
    """The entries of a row, with operators for all of them at once; a row of one entry goes with any other."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def combined(self, sign: str, left: Any, right: object) -> Row:
        function = arithmetic if sign in "+-*/" else compare
        return Row([function("AND" if sign == "&" else sign, *pair) for pair in side_by_side(left, right)])

    def __neg__(self) -> Row:
        return self.map(lambda entry: value("(-{})", entry))

    def map(self, function: Callable[[Any], Any]) -> Row:
        return Row([function(entry) for entry in self.values])


def side_by_side(*rows: Any) -> Iterator[tuple[Any, ...]]:
    """The entries of rows, arrays or numbers, column by column; a single one stands for all columns."""
    found = [row.values if isinstance(row, Row) else np.atleast_1d(np.asarray(row, float)).tolist() for row in rows]
    count = max(map(len, found))
    return zip(*(part * count if len(part) == 1 else part for part in found))


class SqlOperations(Operations):
    """Rows are lists of expressions."""

    target = "SQL"

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def _extreme(self, values: Sequence[Number], *, largest: bool) -> Value:
        function = self.dialect.greatest if largest else self.dialect.least
        return value(f"{function}({', '.join(['{}'] * len(values))})", *values)

    def cast(self, entry: Number | str, kind: str = "DOUBLE PRECISION") -> Value:
        """A column or an entry in another type, by its name in PostgreSQL."""
        return value(self.dialect.form(f"CAST({{}} AS {kind})"), entry)

    def each(self, function: str, x: Row, *numbers: float) -> Row:
        if numbers:
            return x.map(lambda entry: self._extreme([entry, *numbers], largest=function == "max"))
        name = "LN" if function == "log" else function.upper()
        return (self.maximum(x, _LEAST_EXPONENT) if function == "exp" else x).map(
            lambda entry: value(f"{name}({{}})", entry)
        )

    def where(self, condition: Row, yes: Any, no: object) -> Row:
        return Row([case((test, a), default=b) for test, a, b in side_by_side(condition, yes, no)])

    def quotient(self, condition: Row, x: Row, y: Row, otherwise: float) -> Row:
        return self.where(condition, x / y, otherwise)

    def reduced(self, function: str, x: Row) -> Row:
        if function == "total":
            return Row([total(x.values)])
        return Row([_grouped(x.values, lambda group: self._extreme(group, largest=function == "largest"))])

    def is_top(self, x: Row, width: int) -> Row:
        largest = self.largest(x).values[0]
        tests = [(compare("=", entry, largest), str(j)) for j, entry in enumerate(x.values[:-1])]
        top = case(*tests, default=str(width - 1))
        return Row([compare("=", top, str(j)) for j in range(width)])

    def first(self, condition: Row, *rows: Row) -> list[Row]:
        return [Row([case(*zip(condition.values[:-1], row.values), default=row.values[-1])]) for row in rows]

    def columns(self, x: Row, index: Iterable[int]) -> Row:
        return Row([x.values[j] for j in index])

    def join(self, rows: Sequence[Row], *, single: bool = False) -> Row:
        return Row([entry for row in rows for entry in row.values])

    def product(self, x: Row, matrix: FloatArray) -> Row:
        return Row([total([arithmetic("*", v, w) for v, w in zip(x.values, column)]) for column in matrix.T.tolist()])

    def lookup(self, tables: Sequence[FloatArray], place: Row) -> list[Row]:
        whole = self.cast(place.values[0], "INT")
        return [Row([self._choice(whole, column) for column in table.T]) for table in tables]

    def step_trees(self, step: Trees, x: Row, width: int) -> Row:
        leaves = [self._leaf(x.values, *tree) for tree in zip(step.features, step.subtracted, step.thresholds)]
        chosen = (zip(leaves, step.values[:, :, j]) for j in range(step.width))
        return Row([total([self._choice(leaf, values) for leaf, values in trees]) for trees in chosen])

    def _leaf(self, x: list[Number], features: Any, subtracted: Any, thresholds: FloatArray) -> Any:
        """The number of the leaf of a tree, from the answers to its questions."""
        bits: list[Number] = []
        for bit, (feature, other, threshold) in enumerate(zip(features, subtracted, thresholds)):
            asked = x[feature] if other < 0 else arithmetic("-", x[feature], x[other])
            bits.append(case((compare(">", asked, float(threshold)), str(1 << bit)), default="0"))
        return total(bits)

    def _choice(self, place: Value, values: FloatArray) -> Number:
        """One of some numbers."""
        last = float(values[-1])
        if np.all(values == last):
            return last
        if self.dialect.arrays:
            return self._entry(values, place)
        return case(*((str(j), float(v)) for j, v in enumerate(values[:-1]) if v != last), of=place, default=last)

    def _array(self, values: FloatArray) -> str:
        """Many numbers, as one text: databases plan that in no time."""
        numbers = ",".join(map(repr, values.tolist()))
        return self.dialect.form("CAST({} AS DOUBLE PRECISION[])").format(f"STRING_TO_ARRAY('{numbers}', ',')")

    def _entry(self, array: Value | FloatArray, place: Number | str, first: int = 1) -> Value:
        """An entry of an array, which is written where it is used if it is none of the query's columns."""
        if isinstance(array, Value):
            return value(f"({{}})[{{}} + {first}]", array, place)
        return value(f"({self._array(array)})[{{}} + {first}]", place)

    def piecewise(self, x: Row, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Row:
        degree = int(max(np.flatnonzero(np.any(coefficients != 0.0, axis=0)), default=0))
        coefficients = coefficients[:, : degree + 1]
        if self.dialect.arrays and len(edges) > _MANY:
            return Row([self._from_arrays(x.values[0], edges, origins, coefficients)])

        def search(low: int, high: int) -> Number:
            if low == high:
                return _polynomial(arithmetic("-", x.values[0], float(origins[low])), coefficients[low].tolist())
            middle = (low + high) // 2
            above = compare(">", x.values[0], float(edges[middle]))
            return case((above, search(middle + 1, high)), default=search(low, middle))

        return Row([search(0, len(edges))])

    def _from_arrays(self, x: Number, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Number:
        """The polynomial of the piece that `x` lies in, which is found by halving what is left."""
        half = 1 << (len(edges).bit_length() - 1)
        padded = np.full(2 * half, _LARGEST)
        padded[: len(edges)] = edges
        table, place = Value(self._array(padded)), "0"  # type: tuple[Value, Any]
        while half:  # entries count from one
            beyond = compare(">", x, self._entry(table, place, half))
            place = arithmetic("+", place, case((beyond, str(half)), default="0"))
            half //= 2
        t = arithmetic("-", x, self._entry(origins, place))
        return _polynomial(t, [self._entry(column, place) for column in coefficients.T])

    def segment(self, name: str, levels: Sequence[str] | None) -> Number:
        """The number that a column of segments gives."""
        column = self.dialect.quote(name)
        if levels is None:
            given = self.cast(column)
            known = compare("<=", value("ABS({})", given), _LARGEST)
            return case((known, self.minimum(self.maximum(Row([given]), -LARGEST), LARGEST).values[0]), default=MISSING)
        spelled = places_of(levels)
        if "" in spelled:
            spelled = {**dict.fromkeys(MISSING_TEXTS, spelled[""]), **spelled}
        text = value(f"COALESCE({self.dialect.form('CAST({} AS VARCHAR)')}, '')", column)
        plain = {key: place for key, place in spelled.items() if key and plain_number(key) == key}
        return self._by_text(text, spelled, self._by_number(text, plain) if plain else -1.0)

    def _by_text(self, text: Value, places: Mapping[str, int], other: Number) -> Number:
        """The place of a text, or another value."""
        found = [(self.dialect.text(key), float(place)) for key, place in places.items()]
        return case(*found, of=text, default=other) if places else other

    def _by_number(self, text: Value, places: dict[str, int]) -> Value:
        """The place of the `plain_number` of a text, by functions of texts that every database has."""

        def like(pattern: str) -> Value:
            return compare("LIKE", text, f"'{pattern}'")

        def formed(template: str, given: Value) -> Value:
            return value(self.dialect.form(template), given)

        unsigned = case((like("-%"), formed("SUBSTRING({} FROM 2)", text)), default=text)
        bare = formed("TRIM(LEADING '0' FROM {})", unsigned)
        short = formed("TRIM(TRAILING '.' FROM {})", formed("TRIM(TRAILING '0' FROM {})", bare))
        digits = case((compare("LIKE", bare, "'%.%'"), short), default=bare)
        # What is left of a zero is nothing, and of 0.5 it is .5; signs are no part of it, or 0-5 would be -5.
        zero = case((like("%0%"), float(places.pop("0", -1))), default=-1.0)
        below = {key[1:].removeprefix("0"): place for key, place in places.items() if key.startswith("-")}
        above = {key.removeprefix("0"): place for key, place in places.items() if not key.startswith("-")}
        negative, positive = (self._by_text(digits, keys, -1.0) for keys in (below, above))
        return case((like("%.%.%"), -1.0), (compare("=", digits, "''"), zero), (like("-%"), negative), default=positive)

    def prepare(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Value]:
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
        marked = compare("=", case((valid, "1"), default="0"), "1")
        x = self.where(Row([marked]), x, 0.5 if fitted.independent else 1.0 / len(x.values))
        return (x if fitted.columns is None or len(given) == 1 else self.columns(x, fitted.columns)), marked

    def _probabilities(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Value]:
        most = largest_allowed(len(given) == 1, fitted.renormalize, ROUNDING)
        x = Row([case((compare(">=", v, 0.0) & compare("<=", v, most), v)) for v in given])
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
            valid = self.each("abs", total - 1.0) <= ROUNDING
        return self.maximum(x / total, self.floor), valid.values[0]

    def _labels(self, fitted: Map, given: Sequence[Value]) -> tuple[Row, Value]:
        """The probabilities that independent labels are not, and are, true."""
        least, most = (-_LARGEST, _LARGEST) if fitted.logits else (0.0, 1.0 + ROUNDING)
        x = Row([case((compare(">=", v, least) & compare("<=", v, most), v)) for v in given])
        if fitted.logits:
            far = self.where(x > _FARTHEST, _FARTHEST, self.where(x < -_FARTHEST, -_FARTHEST, x))
            off, on = sides(self, far)
        else:
            on = self.where(x > 1.0, 1.0, x)
            off = 1.0 - on
        return self.maximum(self.join([off, on]), self.floor), reduce(and_, map(_known, x.values))

    def _logits(self, given: Row) -> tuple[Row, Value]:
        known = given.map(lambda entry: case((compare("<=", entry, _LARGEST), entry)))
        top = self.largest(known)
        # A difference of numbers such as 1e308 and -1e308 is an error in some databases; it is never computed.
        x = self.where(known < top - _FARTHEST, -_FARTHEST, known - top)
        logs = x - self.each("log", self.total(self.exp(x)))
        valid = compare(">=", top.values[0], -_LARGEST)
        for entry in known.values:
            if isinstance(entry, Value):
                valid &= _known(entry)
        return self.maximum(logs, LOG_FLOOR).map(lambda entry: value("EXP({})", entry)), valid


def _known(entry: Value) -> Value:
    """Whether an entry is not NULL."""
    return Value("NOT {} IS NULL", (entry,), condition=True)


def _polynomial(x: Number, coefficients: Sequence[Number]) -> Number:
    """``c_0 + c_1 x + ...`` by Horner's rule."""
    out = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        out = arithmetic("+", arithmetic("*", out, x), coefficient)
    return out
