"""Nodes and constants of an ONNX graph, and the sums, columns and searches that steps are made of.

The piece of a function given by points is found in blocks of points, then in the block: a row is compared with few
points, without operators of `ai.onnx.ml`, which compare in single precision or are not known everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.optional import require
from calibrant.simplex import FLOOR
from calibrant.typing import FloatArray

OPSET = 17
#: The newest version of the format that runtimes of opset 17 know.
IR_VERSION = 8


#: Points that all rows are compared with at once: fewer cost more operators, more cost memory.
_AT_ONCE = 32
#: Points of the block of its own that each row is compared with.
_BLOCK = 8


def _node(kind: str, turned: bool = False) -> Callable[[Tensor, Any], Tensor]:
    """The method of an operator."""

    def method(self: Tensor, other: Any) -> Tensor:
        return self.graph.op(kind, *((other, self) if turned else (self, other)))

    return method


@dataclass(frozen=True)
class Tensor:
    """A value of a graph, by its name, with operators that make new nodes."""

    graph: Nodes
    name: str

    __add__, __sub__, __truediv__ = _node("Add"), _node("Sub"), _node("Div")
    __rsub__, __rtruediv__, __and__ = _node("Sub", turned=True), _node("Div", turned=True), _node("And")
    __gt__, __ge__, __lt__, __le__ = (_node(kind) for kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"))

    def __neg__(self) -> Tensor:
        return self.graph.op("Neg", self)

    def __mul__(self, other: Any) -> Tensor:
        if not isinstance(other, Tensor):
            # ONNX Runtime leaves out a factor that is one in single precision, whatever the precision of the graph.
            beyond_one = np.asarray(other, dtype=np.float64) - 1.0
            if np.any(beyond_one) and np.all(np.abs(beyond_one) < 1e-6):
                return self + self.graph.op("Mul", self, beyond_one)
        return self.graph.op("Mul", self, other)


class Nodes:
    """Nodes and constants of a graph whose values are named by numbers."""

    def __init__(self, dtype: Any = np.float64, outside: Any = None, opset: int = OPSET) -> None:
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.outside = self.dtype if outside is None else np.dtype(outside)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._columns: dict[Tensor, tuple[Tensor, ...]] = {}
        # Single precision has no smaller normal number.
        self.floor = FLOOR if self.dtype == np.float64 else float(np.finfo(np.float32).tiny)
        self._made = 0
        self._helper = require("onnx", extra="export").helper
        self._numpy = require("onnx", extra="export").numpy_helper

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Tensor:
        """The output of a new node, whose inputs are tensors, or numbers of the graph's precision."""
        names = [(item if isinstance(item, Tensor) else self.const(item)).name for item in inputs]
        self._made += 1
        self.nodes.append(self._helper.make_node(kind, names, [f"v{self._made}"], **attributes))
        return Tensor(self, f"v{self._made}")

    def const(self, value: Any, dtype: Any = None) -> Tensor:
        """A constant, by default of the graph's precision; equal ones are stored once."""
        array: NDArray[Any] = np.ascontiguousarray(np.asarray(value, dtype=dtype or self.dtype))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"c{len(self._known)}"
            self.constants.append(self._numpy.from_array(array, self._known[key]))
        return Tensor(self, self._known[key])

    def large(self, value: FloatArray) -> Tensor:
        """A constant that is stored in the precision of what goes in and comes out."""
        return self.cast(self.const(value, self.outside), self.outside, self.dtype)

    def cast(self, x: Tensor, dtype: Any, to: Any) -> Tensor:
        """The numbers `x` of one precision in another."""
        return x if dtype == to else self.op("Cast", x, to=code(to))

    def index(self, value: Any) -> Tensor:
        """A constant of whole numbers."""
        return self.const(value, np.int64)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of each row, as a column."""
        return self.op("ReduceSum", x, self.index([1]), keepdims=1)

    def ordered_sum(self, x: Tensor) -> Tensor:
        """The sum of each row, added from left to right, to the last bit."""
        return self.op("Gather", self.op("CumSum", x, self.const(1, np.int64)), self.index([-1]), axis=1)

    def extreme(self, kind: str, x: Tensor) -> Tensor:
        """The largest (ReduceMax) or least (ReduceMin) number of each row, as a column."""
        if self.opset < 18:
            return self.op(kind, x, axes=[1], keepdims=1)
        return self.op(kind, x, self.index([1]), keepdims=1)

    def column(self, x: Tensor, j: int) -> Tensor:
        """Column j."""
        return self._columns[x][j] if x in self._columns else self.op("Gather", x, self.index([j]), axis=1)

    def join(self, rows: Sequence[Tensor], *, single: bool = False) -> Tensor:
        """Rows side by side; asked for one of `single` columns, the graph goes back to it."""
        x = self.op("Concat", *rows, axis=1)
        if single:
            self._columns[x] = tuple(rows)
        return x

    def prune(self, *results: Tensor) -> None:
        """Leave out nodes that none of the results needs, and their constants."""
        needed, kept = {result.name for result in results}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = [tensor for tensor in self.constants if tensor.name in needed]

    def polynomial(self, x: Tensor, piece: Tensor, origins: FloatArray, coefficients: FloatArray) -> Tensor:
        """The polynomials of each number's piece, of numbers and whole numbers without a second axis."""

        def of_piece(values: FloatArray) -> Tensor:  # several times faster than Gather
            return self.op("GatherElements", self.const(values), piece, axis=0)

        t = x - of_piece(origins)
        out = of_piece(coefficients[:, -1])
        for column in coefficients.T[-2::-1]:
            out = out * t + of_piece(column)
        return out

    def flat(self, x: Tensor) -> Tensor:
        """A column without its second axis."""
        return self.op("Reshape", x, self.index([-1]))

    def below(self, x: Tensor, edges: FloatArray) -> Tensor:
        """How many of ascending `edges` are below each number, in single precision: in which block, and where in that.

        Of `x`, which has no second axis, all numbers are compared with one point after the other: programs are fast
        along the last axis.
        """
        if len(edges) <= _AT_ONCE:
            return self._count(x, self.const(edges[:, None]), 0)
        padded = np.full(-(-len(edges) // _BLOCK) * _BLOCK, np.inf)
        padded[: len(edges)] = edges
        blocks = padded.reshape(-1, _BLOCK)
        block = self.below(x, blocks[:-1, -1])
        own = self.op("Gather", self.const(blocks), self.op("Cast", block, to=7), axis=0)
        inner = self._count(self.op("Reshape", x, self.index([-1, 1])), own, 1)
        return block * self.const(float(_BLOCK), np.float32) + inner

    def _count(self, x: Tensor, edges: Tensor, axis: int) -> Tensor:
        # Whole numbers below 2**24 are exact in single precision, and their sums are the fastest.
        below = self.op("Cast", x > edges, to=1)
        return self.op("ReduceSum", below, self.index([axis]), keepdims=0)

    @property
    def type(self) -> int:
        """The code of the graph's precision in ONNX."""
        return code(self.dtype)


def code(dtype: Any) -> int:
    """The number of a precision in ONNX."""
    return 11 if np.dtype(dtype) == np.float64 else 1
