"""The maps of one-vs-rest in ONNX, all classes at once.

A part for each class of its own is thousands of nodes for a hundred classes, and ONNX Runtime needs seconds to load
them: its time grows with their square. Parts are alike up to their numbers, so that a step of all of them is one of
matrices: each column of the row that a part works on becomes a matrix (n, k) with a column for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import steps as s
from calibrant.steps.formulas import sides
from calibrant.steps.lines import pieces
from calibrant.typing import FloatArray

if TYPE_CHECKING:
    from calibrant.writers.onnx_nodes import Graph, Tensor

#: The columns of the rows that parts work on, each of all classes.
Matrices = list["Tensor"]


def leading_steps(parts: Sequence[s.Steps]) -> int:
    """How many steps from the first on are alike in all parts up to their numbers, and of a kind written here."""
    alike = [len(set(map(_form, level))) == 1 and type(level[0]) in _WRITERS for level in zip(*parts)]
    return alike.index(False) if False in alike else len(alike)


def _form(step: s.Step) -> tuple[object, ...]:
    """What steps have in common that can be written as one."""
    if isinstance(step, s.Columns):
        return (s.Columns, *step.index.tolist())
    return (s.Linear, *step.matrix.shape) if isinstance(step, s.Linear) else (type(step),)


def run_alongside(graph: Graph, level: Sequence[Any], x: Matrices) -> Matrices:
    """One step of every part."""
    return _WRITERS[type(level[0])](graph, level, x)


def _each(values: Sequence[object], name: str, width: int) -> FloatArray:
    """A number, or one per column, of every part: (parts, columns)."""
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
    """Functions given by points: each class has its own, their pieces are numbered through."""
    found = [pieces(step) for step in level]
    by_class = graph.op("Transpose", x[0], perm=[1, 0])
    shape = graph.index([len(level), -1])
    counts = [graph.below(graph.op("Gather", by_class, graph.index(j), axis=0), found[j][0]) for j in range(len(level))]
    first = np.cumsum([0, *(len(origins) for _, origins, _ in found[:-1])])
    place = graph.op("Cast", graph.op("Reshape", graph.op("Concat", *counts, axis=0), shape), to=7)
    place = graph.flat(place + graph.index(first[:, None]))
    origins: FloatArray = np.concatenate([part for _, part, _ in found])
    out = graph.polynomial(graph.flat(by_class), place, origins, np.concatenate([part for *_, part in found]))
    return [graph.op("Transpose", graph.op("Reshape", out, shape), perm=[1, 0])]


_WRITERS: dict[type[s.Step], Callable[[Any, Sequence[Any], Matrices], Matrices]] = {
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
