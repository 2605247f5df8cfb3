"""The operations of a map's steps as nodes of an ONNX graph, with its constants.

The piece of a function given by points is found in blocks of points, then in the block: a row is compared with few
points, without operators of `ai.onnx.ml`, which compare in single precision or are not known everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING
from calibrant.optional import require
from calibrant.simplex import FLOOR
from calibrant.steps.actions import CostTable
from calibrant.steps.formulas import Operations, Operators, are_cheapest, rests, sides
from calibrant.steps.lines import pieces
from calibrant.steps.step import decides
from calibrant.typing import AnyArray, FloatArray

#: Operators of ONNX 1.12, of 2022: older than the lowest version that pyproject.toml asks for, for older runtimes.
OPSET = 17
#: Points that all rows are compared with at once: fewer cost more operators, more cost memory.
_AT_ONCE = 32
#: Points of the block of its own that each row is compared with.
_BLOCK = 8
#: Types of numbers in ONNX.
FLOAT, INT32, INT64, DOUBLE = 1, 6, 7, 11
_SIGNS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "&": "And"} | {
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "<": "Less",
    "<=": "LessOrEqual",
}


def code(dtype: Any) -> int:
    """The number of a precision in ONNX."""
    return DOUBLE if np.dtype(dtype) == np.float64 else FLOAT


@dataclass(frozen=True)
class Tensor(Operators):
    """A value of a graph, by its name, with operators that make new nodes."""

    graph: Graph
    name: str

    def combined(self, sign: str, left: object, right: object) -> Tensor:
        return self.graph.op(_SIGNS[sign], left, right)

    def __neg__(self) -> Tensor:
        return self.graph.op("Neg", self)

    def __mul__(self, other: object) -> Tensor:
        if not isinstance(other, Tensor):
            # ONNX Runtime leaves out a factor that is one in single precision, whatever the precision of the graph.
            beyond_one = np.asarray(other, dtype=np.float64) - 1.0
            if np.any(beyond_one) and np.all(np.abs(beyond_one) < 1e-6):
                return self + self.graph.op("Mul", self, beyond_one)
        return self.graph.op("Mul", self, other)


class Graph(Operations):
    """Nodes of the steps of a map, and constants; values are named by numbers."""

    target = "ONNX"

    def __init__(self, dtype: Any = np.float64, outside: Any = None, opset: int = OPSET) -> None:
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.outside = self.dtype if outside is None else np.dtype(outside)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._columns: dict[Tensor, tuple[Tensor, ...]] = {}
        self._least: dict[Tensor, float] = {}  # known bounds, which need not be drawn again
        # Single precision has no smaller normal number.
        self.floor = FLOOR if self.dtype == np.float64 else float(np.finfo(np.float32).tiny)
        self._made = 0
        self._onnx = require("onnx", extra="export")

    def op(self, kind: str, *inputs: object, **attributes: object) -> Tensor:
        """The output of a new node, whose inputs are tensors, or numbers of the graph's precision."""
        names = [(item if isinstance(item, Tensor) else self.const(item)).name for item in inputs]
        self._made += 1
        self.nodes.append(self._onnx.helper.make_node(kind, names, [f"v{self._made}"], **attributes))
        return Tensor(self, f"v{self._made}")

    def const(self, value: object, dtype: Any = None) -> Tensor:
        """A constant, by default of the graph's precision; equal ones are stored once."""
        array: AnyArray = np.ascontiguousarray(np.asarray(value, dtype=dtype or self.dtype))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"c{len(self._known)}"
            self.constants.append(self._onnx.numpy_helper.from_array(array, self._known[key]))
        return Tensor(self, self._known[key])

    def large(self, value: FloatArray) -> Tensor:
        """A constant that is stored in the precision of what goes in and comes out."""
        return self.cast(self.const(value, self.outside), self.outside, self.dtype)

    def index(self, value: object) -> Tensor:
        """A constant of whole numbers."""
        return self.const(value, np.int64)

    def cast(self, x: Tensor, dtype: Any, to: object) -> Tensor:
        """The numbers `x` of one precision in another."""
        return x if dtype == to else self.op("Cast", x, to=code(to))

    def flat(self, x: Tensor) -> Tensor:
        """A column without its second axis."""
        return self.op("Reshape", x, self.index([-1]))

    def prune(self, *results: Tensor) -> None:
        """Leave out nodes that none of the results needs, and their constants."""
        needed, kept = {result.name for result in results}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = [tensor for tensor in self.constants if tensor.name in needed]

    def each(self, function: str, x: Tensor, *numbers: float) -> Tensor:
        if function == "max" and numbers[0] <= self._least.get(x, -np.inf):
            return x
        out = self.op(function.capitalize(), x, *numbers)
        if function == "max":
            self._least[out] = numbers[0]
        return out

    def where(self, condition: Tensor, yes: object, no: object) -> Tensor:
        return self.op("Where", condition, yes, no)

    def reduced(self, function: str, x: Tensor) -> Tensor:
        kind = {"total": "ReduceSum", "largest": "ReduceMax", "least": "ReduceMin"}[function]
        if function != "total" and self.opset < 18:
            return self.op(kind, x, axes=[1], keepdims=1)
        return self.op(kind, x, self.index([1]), keepdims=1)

    def every(self, condition: Tensor) -> Tensor:
        """Whether a condition holds in all columns."""
        return self.least(self.op("Cast", condition, to=FLOAT)) > self.const(0.0, np.float32)

    def is_top(self, x: Tensor, width: int) -> Tensor:
        return self.op("Equal", self.index(np.arange(width)[None]), self.op("ArgMax", x, axis=1, keepdims=1))

    def first(self, condition: Tensor, *rows: Tensor) -> list[Tensor]:
        place = self.op("ArgMax", self.op("Cast", condition, to=code(self.dtype)), axis=1, keepdims=1)
        return [self.op("GatherElements", row, place, axis=1) for row in rows]

    def columns(self, x: Tensor, index: Iterable[int]) -> Tensor:
        places = [int(j) for j in index]
        known = self._columns.get(x) if len(places) == 1 else None
        return known[places[0]] if known else self.op("Gather", x, self.index(places), axis=1)

    def join(self, rows: Sequence[Tensor], *, single: bool = False) -> Tensor:
        """Rows side by side; asked for one of `single` columns, the graph goes back to it."""
        x = self.op("Concat", *rows, axis=1)
        if single:
            self._columns[x] = tuple(rows)
        return x

    def product(self, x: Tensor, matrix: FloatArray) -> Tensor:
        return self.op("MatMul", x, matrix)

    def lookup(self, tables: Sequence[FloatArray], place: Tensor) -> list[Tensor]:
        whole = self.op("Cast", self.flat(place), to=INT64)
        return [self.op("Gather", self.large(table), whole, axis=0) for table in tables]

    def piecewise(self, x: Tensor, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Tensor:
        flat = self.flat(x)
        piece = self.op("Cast", self.below(flat, edges), to=INT64)
        return self.op("Reshape", self.polynomial(flat, piece, origins, coefficients), self.index([-1, 1]))

    def polynomial(self, x: Tensor, piece: Tensor, origins: FloatArray, coefficients: FloatArray) -> Tensor:
        """The polynomials of each number's piece, of numbers and whole numbers without a second axis."""

        def of_piece(values: FloatArray) -> Tensor:  # several times faster than Gather
            return self.op("GatherElements", self.const(values), piece, axis=0)

        t = x - of_piece(origins)
        out = of_piece(coefficients[:, -1])
        for column in coefficients.T[-2::-1]:
            out = out * t + of_piece(column)
        return out

    def below(self, x: Tensor, edges: FloatArray) -> Tensor:
        """How many of the ascending `edges` are below each number, in single precision: first the block, then where.

        All numbers of `x`, which has no second axis, are compared with one point after the other: programs are fast
        along the last axis.
        """
        if len(edges) <= _AT_ONCE:
            return self._count(x, self.const(edges[:, None]), 0)
        padded = np.full(-(-len(edges) // _BLOCK) * _BLOCK, np.inf)
        padded[: len(edges)] = edges
        blocks = padded.reshape(-1, _BLOCK)
        block = self.below(x, blocks[:-1, -1])
        own = self.op("Gather", self.const(blocks), self.op("Cast", block, to=INT64), axis=0)
        inner = self._count(self.op("Reshape", x, self.index([-1, 1])), own, 1)
        return block * self.const(float(_BLOCK), np.float32) + inner

    def _count(self, x: Tensor, edges: Tensor, axis: int) -> Tensor:
        # Whole numbers below 2**24 are exact in single precision, and their sums are the fastest.
        below = self.op("Cast", x > edges, to=FLOAT)
        return self.op("ReduceSum", below, self.index([axis]), keepdims=0)

    def step_softmax(self, step: s.Softmax, x: Tensor, width: int) -> Tensor:
        return self.op("Softmax", x, axis=1)

    def step_trees(self, step: s.Trees, x: Tensor, width: int) -> Tensor:
        count, depth = step.features.shape
        asked = self.op("MatMul", x, self.large(step.differences(width)[:, step.pairs[2].ravel()]))
        answers = self.op("Cast", asked > step.thresholds.ravel(), to=FLOAT)
        # Whole numbers below 2**24 are exact in single precision.
        bits = self.const(2.0 ** np.arange(depth)[:, None], np.float32)
        leaf = self.op("MatMul", self.op("Reshape", answers, self.index([-1, depth])), bits)
        leaf = self.op("Transpose", self.op("Reshape", leaf, self.index([-1, count])), perm=[1, 0])
        place = self.op("Cast", leaf, to=INT64) + self.index(np.arange(count)[:, None] << depth)
        steps = self.op("Gather", self.large(step.values.reshape(-1, step.values.shape[2])), place, axis=0)
        return self.op("ReduceSum", steps, self.index([0]), keepdims=0)

    def step_one_vs_rest(self, step: s.OneVsRest, x: Tensor, width: int) -> Tensor:
        columns, alike = [rests(self, x, width), x], _leading_steps(step.parts)
        for level in zip(*(part[:alike] for part in step.parts)):
            columns = _ALONGSIDE[type(level[0])](self, level, columns)
        if all(len(part) == alike for part in step.parts):
            return columns[1]
        out = []
        for j, part in enumerate(step.parts):
            own = self.join([self.columns(matrix, [j]) for matrix in columns], single=True)
            out.append(self.columns(self.run(part[alike:], own, len(columns)), [1]))
        return self.join(out, single=True)

    def segments(self, x: Tensor) -> Tensor:
        """Numbers of segments as the first step gets them, in double precision."""
        finite = self.op("Abs", x) <= self.const(np.finfo(np.float64).max, np.float64)
        low, high, missing = (self.const(value, np.float64) for value in (-LARGEST, LARGEST, MISSING))
        return self.op("Where", finite, self.op("Min", self.op("Max", x, low), high), missing)

    def prepare(self, x: Tensor, steps: s.Steps, *, logits: bool, renormalize: bool = False) -> tuple[Tensor, Tensor]:
        """The row that the first of `steps` gets, columns in the order of the predictions, and whether it is one."""
        if logits:
            largest = float(np.finfo(self.dtype).max)
            possible = self.largest(self.op("Cast", x >= -largest, to=FLOAT)) > self.const(0.0, np.float32)
            valid = self.every(x <= largest) & possible  # not so for NaN
            return self.maximum(self.op("Softmax", x, axis=1), self.floor), valid
        least = self.least(x) >= 0.0
        if renormalize:
            top = self.largest(x)
            x = x / self.where(top > 2.0, top, 1.0)
        total = self.total(x)
        if decides(steps):
            # Between two points that lie close together a map may be so steep that the sum's last bit matters: numbers
            # are added from left to right.
            total = self.columns(self.op("CumSum", x, self.index(1)), [-1])
        right = total > 0.0 if renormalize else self.each("abs", total - 1.0) <= ROUNDING
        # A missing or infinite number makes the sum missing or infinite, too.
        return self.maximum(x / total, self.floor), least & right

    def prepare_labels(self, x: Tensor, *, logits: bool) -> tuple[Tensor, Tensor]:
        """The probabilities that independent labels are not, and are, true, and whether the row holds predictions."""
        least, most = (-np.inf, np.inf) if logits else (0.0, 1.0 + ROUNDING)
        valid = self.every((x >= least) & (x <= most))  # not so for NaN
        on = self.minimum(x, 1.0)
        off, on = sides(self, x) if logits else (1.0 - on, on)
        return self.maximum(self.join([off, on]), self.floor), valid

    def action(self, p: Tensor, rule: CostTable, amounts: Tensor | None) -> Tensor:
        """The number of the cheapest action of each row."""
        columns = [] if amounts is None else [self.columns(amounts, [j]) for j in range(len(rule.amounts))]
        cheap = self.op("Cast", are_cheapest(self, rule, p, columns), to=INT32)
        return self.op("ArgMax", cheap, axis=1, keepdims=0)


# One-vs-rest of all classes at once. A part for each class of its own is thousands of nodes for a hundred classes, and
# ONNX Runtime needs seconds to load them: its time grows with their square. Parts are alike up to their numbers, so a
# step of all of them is one of matrices: each column of the row that a part works on becomes a matrix (n, k) with a
# column for each class.
#: The columns of the rows that parts work on, each of all classes.
Matrices = list[Tensor]


def _leading_steps(parts: Sequence[s.Steps]) -> int:
    """How many steps from the first on are alike in all parts up to their numbers, and of a kind written here."""
    alike = [len(set(map(_form, level))) == 1 and type(level[0]) in _ALONGSIDE for level in zip(*parts)]
    return alike.index(False) if False in alike else len(alike)


def _form(step: s.Step) -> tuple[Any, ...]:
    """What steps have in common that can be written as one."""
    if isinstance(step, s.Columns):
        return (s.Columns, *step.index.tolist())
    return (s.Linear, *step.matrix.shape) if isinstance(step, s.Linear) else (type(step),)


def _each(values: Sequence[object], name: str, width: int) -> FloatArray:
    """An attribute of all parts, (parts, columns), whether it is one number or one per column."""
    return np.array([np.broadcast_to(getattr(step, name), width) for step in values])


def _clip(graph: Graph, level: Sequence[s.Clip], x: Matrices) -> Matrices:
    low, high = (_each(level, name, 1)[:, 0] for name in ("low", "high"))
    return [graph.op("Min", graph.op("Max", matrix, low), high) for matrix in x]


def _scale(graph: Graph, level: Sequence[s.Scale], x: Matrices) -> Matrices:
    factor, shift = (_each(level, name, len(x)) for name in ("factor", "shift"))
    return [matrix * factor[:, c] + shift[:, c] for c, matrix in enumerate(x)]


def _linear(graph: Graph, level: Sequence[s.Linear], x: Matrices) -> Matrices:
    matrix = np.array([step.matrix for step in level])
    shift = _each(level, "shift", matrix.shape[2])
    products = [[column * matrix[:, c, m] for c, column in enumerate(x)] for m in range(matrix.shape[2])]
    return [reduce(add, terms) + shift[:, m] for m, terms in enumerate(products)]


def _pieces(graph: Graph, level: Sequence[Any], x: Matrices) -> Matrices:
    """Functions given by points, one per class; their pieces have consecutive numbers."""
    found = [pieces(step) for step in level]
    by_class = graph.op("Transpose", x[0], perm=[1, 0])
    shape = graph.index([len(level), -1])
    counts = [graph.below(graph.op("Gather", by_class, graph.index(j), axis=0), found[j][0]) for j in range(len(level))]
    first = np.cumsum([0, *(len(origins) for _, origins, _ in found[:-1])])
    place = graph.op("Cast", graph.op("Reshape", graph.op("Concat", *counts, axis=0), shape), to=INT64)
    place = graph.flat(place + graph.index(first[:, None]))
    origins: FloatArray = np.concatenate([part for _, part, _ in found])
    out = graph.polynomial(graph.flat(by_class), place, origins, np.concatenate([part for *_, part in found]))
    return [graph.op("Transpose", graph.op("Reshape", out, shape), perm=[1, 0])]


_ALONGSIDE: dict[type[s.Step], Callable[[Any, Sequence[Any], Matrices], Matrices]] = {
    s.Log: lambda graph, level, x: [graph.run(level[:1], matrix, 0) for matrix in x],
    s.Clip: _clip,
    s.Scale: _scale,
    s.Columns: lambda graph, level, x: [x[int(j)] for j in level[0].index],
    s.LogOdds: lambda graph, level, x: [x[1] - x[0]],
    s.Linear: _linear,
    s.Sigmoid: lambda graph, level, x: sides(graph, x[0]),
    s.Complement: lambda graph, level, x: [1.0 - x[0], x[0]],
    s.StepFunction: _pieces,
    s.Line: _pieces,
    s.Spline: _pieces,
}
