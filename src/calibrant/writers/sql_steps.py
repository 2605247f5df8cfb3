"""Each step as SQL expressions: plain arithmetic, CASE, LN, EXP, ABS, GREATEST and LEAST.

Functions given by points and trees become CASE expressions: points by halving what is left, trees by the number of
their leaf. A row that is no prediction (a NULL, a negative number, a sum other than one) is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatchmethod
from itertools import combinations
from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.inputs.rows import ROUNDING, largest_allowed
from calibrant.inputs.segments import LARGEST, MISSING, MISSING_TEXTS, places_of, plain_number
from calibrant.runtime import Map
from calibrant.simplex import FLOOR, LOG_FLOOR
from calibrant.steps.base import NotSupportedError
from calibrant.steps.branches import TIE
from calibrant.steps.lines import pieces
from calibrant.typing import FloatArray
from calibrant.writers.sql_dialects import Dialect, check_text
from calibrant.writers.sql_program import Program, Value, number

#: PostgreSQL fails where a result is too small for a double; nor is the product of two of these.
_LEAST_EXPONENT = -345.0
#: From so many points on, arrays are faster than CASE.
_MANY = 30
_LARGEST = number(np.finfo(np.float64).max)

Row = list["str | Value"]


class QueryWriter(Program):
    """The expressions of a map's steps."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.dialect = dialect

    def run(self, steps: s.Steps, x: Row) -> Row:
        """The row that a list of steps makes of `x`."""
        for step in steps:
            x = self.step(step, x)
        return x

    def greatest(self, x: Sequence[str | Value]) -> Value:
        """The largest of some values."""
        return self.call("GREATEST", *x)

    def exp(self, x: str | Value) -> Value:
        """The exponential function, at least 1e-150."""
        return self.call("EXP", self.call("GREATEST", x, number(_LEAST_EXPONENT)))

    def times(self, x: str | Value, factor: float) -> str | Value:
        """The product with a number."""
        return x if factor == 1.0 else self.op(x, "*", number(factor))

    def plus(self, x: str | Value, term: float) -> str | Value:
        """The sum with a number."""
        return x if term == 0.0 else self.op(x, "+", number(term))

    def weighted(self, x: Row, weights: FloatArray, shift: float = 0.0) -> str | Value:
        """A weighted sum of columns."""
        terms = [self.times(value, weight) for value, weight in zip(x, weights) if weight]
        return self.sum([*terms, number(shift)] if shift or not terms else terms)

    @singledispatchmethod
    def step(self, step: s.Step, x: Row) -> Row:
        """The row that one step makes of `x`."""
        raise NotSupportedError(f"A step of the kind {step.kind or 'function'!r} cannot be written as SQL.")

    @step.register
    def _(self, step: s.Exp, x: Row) -> Row:
        return [self.exp(value) for value in x]

    @step.register
    def _(self, step: s.Log, x: Row) -> Row:
        logs = [self.call("LN", self.call("GREATEST", value, number(FLOOR))) for value in x]
        return [self.call("GREATEST", value, number(LOG_FLOOR)) for value in logs]

    @step.register
    def _(self, step: s.Clip, x: Row) -> Row:
        low, high = number(step.low), number(step.high)
        return [self.call("LEAST", self.call("GREATEST", value, low), high) for value in x]

    @step.register
    def _(self, step: s.Mix, x: Row) -> Row:
        return [self.plus(self.times(value, 1.0 - step.weight), step.weight / len(x)) for value in x]

    @step.register
    def _(self, step: s.Scale, x: Row) -> Row:
        factor, shift = (np.broadcast_to(value, len(x)) for value in (step.factor, step.shift))
        return [self.plus(self.times(value, factor[j]), shift[j]) for j, value in enumerate(x)]

    @step.register
    def _(self, step: s.Polynomial, x: Row) -> Row:
        return [self.polynomial(value, step.coefficients) for value in x]

    def polynomial(self, x: str | Value, coefficients: FloatArray) -> str | Value:
        """``c_0 + c_1 x + ...`` by Horner's rule."""
        out: str | Value = number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            out = self.plus(self.op(out, "*", x), coefficient)
        return out

    @step.register
    def _(self, step: s.Softmax, x: Row) -> Row:
        top = self.greatest(x)
        parts: Row = [self.exp(self.op(value, "-", top)) for value in x]
        total = self.sum(parts)
        return [self.op(part, "/", total) for part in parts]

    @step.register
    def _(self, step: s.Normalize, x: Row) -> Row:
        total = self.sum(x)
        zero, uniform = number(0.0), number(1.0 / len(x))
        return [self.case((total, ">", zero), self.op(value, "/", total), uniform) for value in x]

    @step.register
    def _(self, step: s.Columns, x: Row) -> Row:
        return [x[j] for j in step.index]

    @step.register
    def _(self, step: s.LogOdds, x: Row) -> Row:
        return [self.op(x[1], "-", x[0])]

    @step.register
    def _(self, step: s.Lead, x: Row) -> Row:
        largest = self.greatest(x)
        top = self._first(x, "=", largest, [str(j) for j in range(len(x))])
        others = [self.case((top, "=", str(j)), f"(-{_LARGEST})", value) for j, value in enumerate(x)]
        return [largest, self.op(largest, "-", self.greatest(others))]

    @step.register
    def _(self, step: s.Sigmoid, x: Row) -> Row:
        small = self.exp(self.value("(-", self.call("ABS", x[0]), ")"))
        lesser = self.op(small, "/", self.plus(small, 1.0))
        greater = self.op(number(1.0), "-", lesser)
        positive = (x[0], ">=", number(0.0))
        return [self.case(positive, lesser, greater), self.case(positive, greater, lesser)]

    @step.register
    def _(self, step: s.Complement, x: Row) -> Row:
        return [self.op(number(1.0), "-", x[0]), x[0]]

    @step.register
    def _(self, step: s.Linear, x: Row) -> Row:
        shift = np.broadcast_to(step.shift, step.matrix.shape[1])
        return [self.weighted(x, column, shift[j]) for j, column in enumerate(step.matrix.T)]

    @step.register
    def _(self, step: s.Curves, x: Row) -> Row:
        out: Row = []
        for value, u in zip(x, step.coefficients.T):
            q = self.exp(value)
            rest = self.call("LN", self.op(number(1.0), "-", self.call("LEAST", q, number(1.0 - 1e-12))))
            square = self.op(value, "*", value)
            out.append(self.weighted([square, self.call("GREATEST", rest, number(-20.0)), q], u * [0.2, 1.0, 1.0]))
        return out

    @step.register
    def _(self, step: s.Kernel, x: Row) -> Row:
        mean = self.times(self.sum(x), 1.0 / len(x))
        z: Row = [self.times(self.op(value, "-", mean), 1.0 / step.spread) for value in x]
        z += [self.times(self.exp(value), step.weight) for value in x]
        squares = self.sum([self.op(value, "*", value) for value in z])
        out: Row = []
        for landmark in step.landmarks:
            distance = self.op(squares, "+", self.weighted(z, -2.0 * landmark, float(landmark @ landmark)))
            out.append(self.exp(self.times(self.call("GREATEST", distance, number(0.0)), -1.0 / step.bandwidth)))
        return out

    @step.register
    def _(self, step: s.Trees, x: Row) -> Row:
        leaves = [self._leaf(x, *tree) for tree in zip(step.features, step.subtracted, step.thresholds)]
        return [
            self.sum([self._choice(leaf, values) for leaf, values in zip(leaves, step.values[:, :, j])])
            for j in range(step.values.shape[2])
        ]

    @step.register
    def _(self, step: s.Levels, x: Row) -> Row:
        count, level = len(step.intercept), x[-1]
        known = ["CASE WHEN ", level, " >= 0e0 AND ", level, f" < {number(count)} THEN CAST(FLOOR(", level]
        place = self.value(*known, f") AS INTEGER) ELSE {count} END")
        tables = (np.vstack([table, np.zeros((1, len(x) - 1))]) for table in (step.intercept, step.slope))
        intercepts, slopes = ([self._choice(place, column) for column in table.T] for table in tables)
        return [self.op(self.op(b, "*", value), "+", a) for a, b, value in zip(intercepts, slopes, x)]

    def _leaf(self, x: Row, features: Any, subtracted: Any, thresholds: FloatArray) -> str | Value:
        """The number of the leaf of a tree, from the answers to its questions."""
        bits = []
        for bit, (feature, other, threshold) in enumerate(zip(features, subtracted, thresholds)):
            asked = x[feature] if other < 0 else self.op(x[feature], "-", x[other])
            bits.append(self.case((asked, ">", number(threshold)), str(1 << bit), "0"))
        return self.sum(bits)

    def _choice(self, place: str | Value, values: FloatArray) -> str | Value:
        """One of some numbers."""
        if np.all(values == values[-1]):
            return number(values[-1])
        if self.dialect.arrays:
            return self.value(f"({self.array(values)})[", place, " + 1]")
        chosen = "".join(f" WHEN {j} THEN {number(v)}" for j, v in enumerate(values[:-1]) if v != values[-1])
        return self.value("CASE ", place, f"{chosen} ELSE {number(values[-1])} END")

    def array(self, values: FloatArray) -> str:
        """Many numbers, as one text: databases plan that in no time."""
        text = ",".join(map(repr, values.tolist()))
        return f"CAST(STRING_TO_ARRAY('{text}', ',') AS {self.dialect.double}[])"

    @step.register(s.StepFunction)
    @step.register(s.Line)
    @step.register(s.Spline)
    def _(self, step: Any, x: Row) -> Row:
        edges, origins, coefficients = pieces(step)
        degree = int(max(np.flatnonzero(np.any(coefficients != 0.0, axis=0)), default=0))
        if self.dialect.arrays and len(edges) > _MANY:
            return [self._from_arrays(x[0], edges, origins, coefficients[:, : degree + 1])]
        parts: list[str | Value] = []

        def search(low: int, high: int) -> None:
            if low == high:
                parts.append(self.polynomial(self.plus(x[0], -origins[low]), coefficients[low, : degree + 1]))
                return
            middle = (low + high) // 2
            parts.extend(["CASE WHEN ", x[0], f" > {number(edges[middle])} THEN "])
            search(middle + 1, high)
            parts.append(" ELSE ")
            search(low, middle)
            parts.append(" END")

        search(0, len(edges))
        return [self.value(*parts)]

    def _from_arrays(self, x: str | Value, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Value:
        """The polynomial of the piece that `x` lies in, which is found by halving what is left."""
        half = 1 << (len(edges).bit_length() - 1)
        padded = np.full(2 * half, np.finfo(np.float64).max)
        padded[: len(edges)] = edges
        table = self.value(self.array(padded))
        place: str | Value = "0"
        while half:  # entries count from one
            beyond = self.value(table, "[", place, f" + {half}]")
            place = self.op(place, "+", self.case((x, ">", beyond), str(half), "0"))
            half //= 2

        def of_piece(values: FloatArray) -> Value:
            return self.value(f"({self.array(values)})[", place, " + 1]")

        out = of_piece(coefficients[:, -1])
        if coefficients.shape[1] > 1:
            t = self.op(x, "-", of_piece(origins))
            for column in coefficients.T[-2::-1]:
                out = self.op(self.op(out, "*", t), "+", of_piece(column))
        return out

    @step.register
    def _(self, step: s.Sum, x: Row) -> Row:
        return [self.sum(terms) for terms in zip(*(self.run(part, x) for part in step.parts))]

    @step.register
    def _(self, step: s.Join, x: Row) -> Row:
        return [value for part in step.parts for value in self.run(part, x)]

    @step.register
    def _(self, step: s.KeepTop, x: Row) -> Row:
        z = self.run(step.parts[0], x)
        near = self.plus(self.greatest(x), -TIE)
        top_x, top_z = (self._first(x, ">=", near, row) for row in (x, z))
        shares = []
        for x_j, z_j in zip(x, z):
            ahead = self.op(top_x, "-", x_j)
            lead = self.case((ahead, "<", number(TIE)), number(0.0), ahead)
            change = self.op(self.op(top_z, "-", z_j), "-", lead)
            share = self.op(lead, "/", self.value("(-", change, ")"))
            shares.append(self.case((change, "<", number(0.0)), share, number(2.0)))
        share = self.call("LEAST", self.op(self.call("LEAST", *shares), "*", number(1.0 - 1e-9)), number(1.0))
        return [self.op(x_j, "+", self.op(share, "*", self.op(z_j, "-", x_j))) for x_j, z_j in zip(x, z)]

    def _first(self, x: Row, sign: str, bound: str | Value, row: Sequence[str | Value]) -> Value:
        """The entry of `row` in the first column of `x` for which a comparison holds."""
        parts: list[str | Value] = ["CASE"]
        for value, entry in zip(x[:-1], row):
            parts += [" WHEN ", value, f" {sign} ", bound, " THEN ", entry]
        return self.value(*parts, " ELSE ", row[-1], " END")

    @step.register
    def _(self, step: s.OneVsRest, x: Row) -> Row:
        largest = self.greatest(x)
        top = self._first(x, "=", largest, [str(j) for j in range(len(x))])
        others = self.sum([self.case((top, "=", str(j)), number(0.0), value) for j, value in enumerate(x)])
        total = self.op(others, "+", largest)
        out: Row = []
        for j, (value, part) in enumerate(zip(x, step.parts)):
            rest = self.case((top, "=", str(j)), others, self.op(total, "-", value))
            out.append(self.run(part, [self.call("GREATEST", rest, number(FLOOR)), value])[1])
        return out

    @step.register
    def _(self, step: s.OneVsOne, x: Row) -> Row:
        terms: list[Row] = [[] for _ in x]
        for (i, j), part in zip(combinations(range(len(x)), 2), step.parts):
            both = self.op(x[i], "+", x[j])
            two: Row = [self.call("GREATEST", self.op(x[c], "/", both), number(FLOOR)) for c in (i, j)]
            for place, r in zip((i, j), self.run(part, two)):
                terms[place].append(self.op(number(1.0), "/", self.call("GREATEST", r, number(1e-300))))
        sums = [self.plus(self.sum(row), -float(len(x) - 2)) for row in terms]
        return [self.op(number(1.0), "/", self.call("GREATEST", value, number(1.0))) for value in sums]

    def segment(self, name: str, levels: Sequence[str] | None) -> Value:
        """The number that a column of segments gives."""
        column = self.dialect.quote(name)
        if levels is None:
            column = f"CAST({column} AS {self.dialect.double})"
            within = f"LEAST(GREATEST({column}, {number(-LARGEST)}), {number(LARGEST)})"
            return self.value(f"CASE WHEN ABS({column}) <= {_LARGEST} THEN {within} ELSE {number(MISSING)} END")
        spelled = places_of(levels)
        if "" in spelled:
            spelled = {**dict.fromkeys(MISSING_TEXTS, spelled[""]), **spelled}
        text = self.value(f"COALESCE(CAST({column} AS {self.dialect.text}), '')")
        plain = {key: place for key, place in spelled.items() if key and plain_number(key) == key}
        other = self._by_number(text, plain) if plain else number(-1.0)
        return self._by_text(text, spelled, other)

    def _by_text(self, text: Value, places: Mapping[str, int], other: str | Value) -> Value:
        """The place of a text, or another value."""
        literal = self.dialect.literal
        chosen = "".join(f" WHEN {literal(check_text(key))} THEN {number(place)}" for key, place in places.items())
        return self.value("CASE ", text, f"{chosen} ELSE ", other, " END")

    def _by_number(self, text: Value, places: dict[str, int]) -> Value:
        """The place of the `plain_number` of a text, by functions of texts that every database has."""
        none = number(-1.0)
        unsigned = self.value("CASE WHEN ", text, " LIKE '-%' THEN SUBSTR(", text, ", 2) ELSE ", text, " END")
        bare = self.value(*self.dialect.trim("LEADING", "0", unsigned))
        short = self.value(*self.dialect.trim("TRAILING", "0", bare))
        short = self.value(*self.dialect.trim("TRAILING", ".", short))
        digits = self.value("CASE WHEN ", bare, " LIKE '%.%' THEN ", short, " ELSE ", bare, " END")
        # What is left of a zero is nothing, and of 0.5 it is .5; signs are no part of it, or 0-5 would be -5.
        zero = number(places.pop("0", -1))
        below = {key[1:].removeprefix("0"): place for key, place in places.items() if key.startswith("-")}
        above = {key.removeprefix("0"): place for key, place in places.items() if not key.startswith("-")}
        negative, positive = (self._by_text(digits, keys, none) if keys else none for keys in (below, above))
        parts: list[str | Value] = ["CASE WHEN ", text, f" LIKE '%.%.%' THEN {none} WHEN ", digits, " = '' THEN "]
        parts += ["CASE WHEN ", text, f" LIKE '%0%' THEN {zero} ELSE {none} END WHEN ", text, " LIKE '-%' THEN "]
        return self.value(*parts, negative, " ELSE ", positive, " END")

    def prepare(self, fitted: Map, given: list[Value]) -> tuple[Row, Value]:
        """The row that the first step gets, uniform where it is no prediction, and whether it is one (1 or 0)."""
        if fitted.logits:
            x, valid = self._logits([number(0.0), *given] if len(given) == 1 else given)
        else:
            x, valid = self._probabilities(fitted, given)
        uniform = number(1.0 / len(x))
        x = [self.case((valid, "=", "1"), value, uniform) for value in x]
        return (x if fitted.columns is None or len(given) == 1 else [x[j] for j in fitted.columns]), valid

    def _probabilities(self, fitted: Map, given: Sequence[str | Value]) -> tuple[Row, Value]:
        most = number(largest_allowed(len(given) == 1, fitted.renormalize, ROUNDING))
        x: Row = [
            self.value("CASE WHEN ", value, " >= 0e0 AND ", value, f" <= {most} THEN ", value, " END")
            for value in given
        ]
        if len(x) == 1:
            # LEAST leaves NULL out in some databases.
            second = self.case((x[0], ">", number(1.0)), number(1.0), x[0])
            x = [self.op(number(1.0), "-", second), second]
        if fitted.renormalize and len(given) > 1:
            small = (self.greatest(x), "<", number(1e-100))
            x = [self.case(small, self.times(value, 1e300), value) for value in x]
            top = self.greatest(x)
            large = self.case((top, ">", number(2.0)), top, number(1.0))
            # A quotient that is too small for a double is an error in some databases.
            x = [
                self.case((value, "<", self.op(large, "*", "1e-100")), number(0.0), self.op(value, "/", large))
                for value in x
            ]
        total = self.sum(x)  # NULL if one of them is
        condition: tuple[str | Value, str, str] = (total, ">", number(0.0))
        if not fitted.renormalize:
            condition = (self.call("ABS", self.plus(total, -1.0)), "<=", number(ROUNDING))
        valid = self.case(condition, "1", "0")
        return [self.call("GREATEST", self.op(value, "/", total), number(FLOOR)) for value in x], valid

    def _logits(self, given: Sequence[str | Value]) -> tuple[Row, Value]:
        x: Row = [self.value("CASE WHEN ", value, f" <= {_LARGEST} THEN ", value, " END") for value in given]
        top = self.greatest(x)
        x = [self.op(value, "-", top) for value in x]
        total = self.call("LN", self.sum([self.exp(value) for value in x]))
        present: list[str | Value] = ["CASE WHEN ", top, f" >= (-{_LARGEST})"]
        for value in x:
            present += [" AND ", value, " IS NOT NULL"]
        logs = [self.call("GREATEST", self.op(value, "-", total), number(LOG_FLOOR)) for value in x]
        return [self.call("EXP", value) for value in logs], self.value(*present, " THEN 1 ELSE 0 END")
