"""ONNX of plain operators (opset 17), in double or single precision, for any number of rows.

A map that decides on which side of a number a value lies (trees, functions given by points) is computed in double
precision inside, whatever goes in and comes out: rounded, a value may get the other answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatchmethod
from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING
from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.steps.base import NotSupportedError
from calibrant.steps.branches import TIE
from calibrant.steps.decisions import decides
from calibrant.steps.lines import pieces
from calibrant.typing import FloatArray
from calibrant.writers.export_options import check_precision
from calibrant.writers.onnx_alongside import leading_steps, run_alongside
from calibrant.writers.onnx_nodes import IR_VERSION, OPSET, Nodes, code
from calibrant.writers.source import Segments, facts
from calibrant.writers.tools import MissingRuntimeError

#: Largest difference of a probability, in double precision.
TOLERANCE = 1e-12


class Graph(Nodes):
    """Nodes of the steps of a map."""

    def run(self, steps: s.Steps, x: str, width: int) -> str:
        """The value of a list of steps."""
        for step in steps:
            x = self.step(step, x, width)
            width = step.check(width)
        return x

    @singledispatchmethod
    def step(self, step: s.Step, x: str, width: int) -> str:
        """The value of one step."""
        raise NotSupportedError(f"A step of the kind {step.kind or 'function'!r} cannot be written as ONNX.")

    @step.register
    def _(self, step: s.Exp, x: str, width: int) -> str:
        return self.op("Exp", x)

    @step.register
    def _(self, step: s.Log, x: str, width: int) -> str:
        return self.log(x)

    @step.register
    def _(self, step: s.Clip, x: str, width: int) -> str:
        return self.op("Min", self.op("Max", x, self.const(step.low)), self.const(step.high))

    @step.register
    def _(self, step: s.Mix, x: str, width: int) -> str:
        return self.op("Add", self.times(x, 1.0 - step.weight), self.const(step.weight / width))

    @step.register
    def _(self, step: s.Scale, x: str, width: int) -> str:
        scaled = self.times(x, step.factor)
        return scaled if not np.any(step.shift) else self.op("Add", scaled, self.const(step.shift))

    @step.register
    def _(self, step: s.Polynomial, x: str, width: int) -> str:
        out = self.const(step.coefficients[-1])
        for coefficient in step.coefficients[-2::-1]:
            out = self.op("Add", self.op("Mul", out, x), self.const(coefficient))
        return out

    @step.register
    def _(self, step: s.Softmax, x: str, width: int) -> str:
        return self.op("Softmax", x, axis=1)

    @step.register
    def _(self, step: s.Normalize, x: str, width: int) -> str:
        total = self.sum(x)
        some = self.op("Greater", total, self.const(0.0))
        safe = self.op("Where", some, total, self.const(1.0))
        return self.op("Where", some, self.op("Div", x, safe), self.const(1.0 / width))

    @step.register
    def _(self, step: s.Columns, x: str, width: int) -> str:
        if len(step.index) == 1:
            return self.column(x, int(step.index[0]))
        return self.op("Gather", x, self.index(step.index), axis=1)

    @step.register
    def _(self, step: s.LogOdds, x: str, width: int) -> str:
        return self.op("Sub", self.column(x, 1), self.column(x, 0))

    @step.register
    def _(self, step: s.Lead, x: str, width: int) -> str:
        largest = self.extreme("ReduceMax", x)
        is_top = self.op("Equal", self.index(np.arange(width)[None]), self.op("ArgMax", x, axis=1, keepdims=1))
        second = self.extreme("ReduceMax", self.op("Where", is_top, self.const(-1e300), x))
        return self.join(largest, self.op("Sub", largest, second))

    @step.register
    def _(self, step: s.Sigmoid, x: str, width: int) -> str:
        return self.join(*self.sides(x))

    @step.register
    def _(self, step: s.Complement, x: str, width: int) -> str:
        return self.join(self.op("Sub", self.const(1.0), x), x)

    @step.register
    def _(self, step: s.Linear, x: str, width: int) -> str:
        product = self.op("MatMul", x, self.const(step.matrix))
        return product if not np.any(step.shift) else self.op("Add", product, self.const(step.shift))

    @step.register
    def _(self, step: s.Curves, x: str, width: int) -> str:
        u = step.coefficients
        q = self.op("Exp", x)
        rest = self.op("Log", self.op("Sub", self.const(1.0), self.op("Min", q, self.const(1.0 - 1e-12))))
        if self.dtype != np.float64:  # 1 - 1e-12 is 1 in single precision
            rest = self.op("Log", self.op("Max", self.op("Sub", self.const(1.0), q), self.const(1e-30)))
        parts = (
            self.op("Mul", self.op("Mul", x, x), self.const(u[0] / 5.0)),
            self.op("Mul", self.op("Max", rest, self.const(-20.0)), self.const(u[1])),
            self.op("Mul", q, self.const(u[2])),
        )
        return self.op("Add", self.op("Add", parts[0], parts[1]), parts[2])

    @step.register
    def _(self, step: s.Kernel, x: str, width: int) -> str:
        mean = self.op("Div", self.sum(x), self.const(float(width)))
        centred = self.op("Div", self.op("Sub", x, mean), self.const(step.spread))
        z = self.op("Concat", centred, self.op("Mul", self.op("Exp", x), self.const(step.weight)), axis=1)
        squares = self.op("Add", self.sum(self.op("Mul", z, z)), self.const((step.landmarks**2).sum(axis=1)[None]))
        product = self.op("MatMul", z, self.const(2.0 * step.landmarks.T))
        distance = self.op("Max", self.op("Sub", squares, product), self.const(0.0))
        return self.op("Exp", self.op("Mul", distance, self.const(-1.0 / step.bandwidth)))

    @step.register
    def _(self, step: s.Trees, x: str, width: int) -> str:
        count, depth = step.features.shape
        asked = self.op("MatMul", x, self.large(step.differences(width)))
        answers = self.op("Cast", self.op("Greater", asked, self.const(step.thresholds.ravel())), to=1)
        # Whole numbers below 2**24 are exact in single precision.
        bits = self.const(2.0 ** np.arange(depth)[:, None], np.float32)
        leaf = self.op("MatMul", self.op("Reshape", answers, self.index([-1, depth])), bits)
        leaf = self.op("Transpose", self.op("Reshape", leaf, self.index([-1, count])), perm=[1, 0])
        place = self.op("Add", self.op("Cast", leaf, to=7), self.index(np.arange(count)[:, None] << depth))
        steps = self.op("Gather", self.large(step.values.reshape(-1, step.values.shape[2])), place, axis=0)
        return self.op("ReduceSum", steps, self.index([0]), keepdims=0)

    @step.register
    def _(self, step: s.Levels, x: str, width: int) -> str:
        # The last row of the tables is that of no level.
        count = len(step.intercept)
        level = self.flat(self.column(x, width - 1))
        above = self.op("GreaterOrEqual", level, self.const(0.0))
        known = self.op("And", above, self.op("Less", level, self.const(float(count))))
        place = self.op("Cast", self.op("Where", known, self.op("Floor", level), self.const(float(count))), to=7)
        none = np.zeros((1, width - 1))
        intercept, slope = (
            self.op("Gather", self.large(np.vstack([table, none])), place, axis=0)
            for table in (step.intercept, step.slope)
        )
        rest = self.op("Gather", x, self.index(np.arange(width - 1)), axis=1)
        return self.op("Add", self.op("Mul", slope, rest), intercept)

    @step.register(s.StepFunction)
    @step.register(s.Line)
    @step.register(s.Spline)
    def _(self, step: Any, x: str, width: int) -> str:
        edges, origins, coefficients = pieces(step)
        flat = self.flat(x)
        piece = self.op("Cast", self.below(flat, edges), to=7)
        return self.op("Reshape", self.polynomial(flat, piece, origins, coefficients), self.index([-1, 1]))

    @step.register
    def _(self, step: s.Sum, x: str, width: int) -> str:
        out = self.run(step.parts[0], x, width)
        for part in step.parts[1:]:
            out = self.op("Add", out, self.run(part, x, width))
        return out

    @step.register
    def _(self, step: s.Join, x: str, width: int) -> str:
        return self.op("Concat", *(self.run(part, x, width) for part in step.parts), axis=1)

    @step.register
    def _(self, step: s.KeepTop, x: str, width: int) -> str:
        z = self.run(step.parts[0], x, width)
        near = self.op("Sub", self.extreme("ReduceMax", x), self.const(TIE))
        top = self.op("ArgMax", self.op("Cast", self.op("GreaterOrEqual", x, near), to=self.type), axis=1, keepdims=1)
        lead = self.op("Sub", self.op("GatherElements", x, top, axis=1), x)
        lead = self.op("Where", self.op("Less", lead, self.const(TIE)), self.const(0.0), lead)
        change = self.op("Sub", self.op("Sub", self.op("GatherElements", z, top, axis=1), z), lead)
        falls = self.op("Less", change, self.const(0.0))
        ratio = self.op("Neg", self.op("Div", lead, self.op("Where", falls, change, self.const(-1.0))))
        share = self.extreme("ReduceMin", self.op("Where", falls, ratio, self.const(2.0)))
        share = self.op("Min", self.times(share, 1.0 - 1e-9), self.const(1.0))
        return self.op("Add", x, self.op("Mul", share, self.op("Sub", z, x)))

    @step.register
    def _(self, step: s.OneVsRest, x: str, width: int) -> str:
        top = self.op("ArgMax", x, axis=1, keepdims=1)
        is_top = self.op("Equal", self.index(np.arange(width)[None]), top)
        largest = self.extreme("ReduceMax", x)
        others = self.sum(self.op("Where", is_top, self.const(0.0), x))
        rest = self.op("Where", is_top, others, self.op("Sub", self.op("Add", others, largest), x))
        rest = self.op("Max", rest, self.const(self.floor()))
        columns, alike = [rest, x], leading_steps(step.parts)
        for level in zip(*(part[:alike] for part in step.parts)):
            columns = run_alongside(self, level, columns)
        if all(len(part) == alike for part in step.parts):
            return columns[1]
        out = []
        for j, part in enumerate(step.parts):
            own = self.join(*(self.column(matrix, j) for matrix in columns))
            out.append(self.column(self.run(part[alike:], own, len(columns)), 1))
        return self.join(*out)

    @step.register
    def _(self, step: s.OneVsOne, x: str, width: int) -> str:
        inverse: list[str] = [""] * width
        number = 0
        for i in range(width):
            for j in range(i + 1, width):
                two = self.op("Gather", x, self.index([i, j]), axis=1)
                two = self.op("Max", self.op("Div", two, self.sum(two)), self.const(self.floor()))
                r = self.op("Div", self.const(1.0), self.run(step.parts[number], two, 2))
                number += 1
                for place, side in ((i, 0), (j, 1)):
                    term = self.column(r, side)
                    inverse[place] = self.op("Add", inverse[place], term) if inverse[place] else term
        sums = self.op("Sub", self.op("Concat", *inverse, axis=1), self.const(float(width - 2)))
        return self.op("Div", self.const(1.0), self.op("Max", sums, self.const(1.0)))

    def segments(self, x: str) -> str:
        """Numbers of segments as the first step gets them, in double precision."""
        finite = self.op("LessOrEqual", self.op("Abs", x), self.const(np.finfo(np.float64).max, np.float64))
        low, high, missing = (self.const(value, np.float64) for value in (-LARGEST, LARGEST, MISSING))
        return self.op("Where", finite, self.op("Min", self.op("Max", x, low), high), missing)

    def prepare(self, x: str, steps: s.Steps, *, logits: bool, renormalize: bool = False) -> tuple[str, str]:
        """The row that the first of `steps` gets, columns in the order of the predictions, and whether it is one."""
        if logits:
            largest = self.const(np.finfo(self.dtype).max)
            no_more = self.op("Cast", self.op("LessOrEqual", x, largest), to=1)  # false for NaN, too
            no_less = self.op("Cast", self.op("GreaterOrEqual", x, self.op("Neg", largest)), to=1)
            valid = self.op("Mul", self.extreme("ReduceMin", no_more), self.extreme("ReduceMax", no_less))
            x = self.op("Max", self.op("Softmax", x, axis=1), self.const(self.floor()))
            return x, self.op("Greater", valid, self.const(0.0, np.float32))
        least = self.op("GreaterOrEqual", self.extreme("ReduceMin", x), self.const(0.0))
        if renormalize:
            top = self.extreme("ReduceMax", x)
            x = self.op("Div", x, self.op("Where", self.op("Greater", top, self.const(2.0)), top, self.const(1.0)))
        # Between two points that lie close together a map may be so steep that the sum's last bit matters.
        total = self.ordered_sum(x) if decides(steps) else self.sum(x)
        if renormalize:
            right = self.op("Greater", total, self.const(0.0))
        else:
            right = self.op("LessOrEqual", self.op("Abs", self.op("Sub", total, self.const(1.0))), self.const(ROUNDING))
        # A number that is missing or infinite makes the sum such, too.
        return self.op("Max", self.op("Div", x, total), self.const(self.floor())), self.op("And", least, right)

    def where_valid(self, x: str, valid: str) -> str:
        """The rows `x`, NaN where they were made of rows that are no predictions."""
        return self.op("Where", valid, x, self.const(np.nan))


def write(fitted: Map, notes: Iterable[str] = (), *, dtype: Any = np.float64, inside: Any = None) -> Any:
    """The model: input `predictions` (n, k), output `probabilities` (n, k), NaN for rows that are no predictions.

    A map that takes segments has a second input `segments` (n, c), always in double precision: the place of a row's
    level among those in the metadata, -1 for another one, or the number itself, NaN for a missing one.
    """
    onnx = require("onnx", extra="export")
    width = fitted.k + len(fitted.segments)
    s.check_steps(fitted.steps, width)
    outside, precision = check_precision(fitted.steps, dtype, inside)
    graph = Graph(precision, outside)
    x = graph.cast("predictions", outside, graph.dtype)
    x, valid = graph.prepare(x, fitted.steps, logits=fitted.logits, renormalize=fitted.renormalize)
    if fitted.columns is not None:
        x = graph.op("Gather", x, graph.index(fitted.columns), axis=1)
    inputs = [onnx.helper.make_tensor_value_info("predictions", code(outside), ["n", fitted.k])]
    if fitted.segments:
        inputs.append(onnx.helper.make_tensor_value_info("segments", code(np.float64), ["n", len(fitted.segments)]))
        x = graph.op("Concat", x, graph.cast(graph.segments("segments"), np.dtype(np.float64), graph.dtype), axis=1)
    out = graph.where_valid(graph.run(fitted.steps, x, width), valid)
    out = graph.cast(out, graph.dtype, outside)
    graph.prune(out)
    graph.nodes.append(onnx.helper.make_node("Identity", [out], ["probabilities"]))
    shape = ["n", fitted.k]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "calibrant",
            inputs,
            [onnx.helper.make_tensor_value_info("probabilities", code(outside), shape)],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calibrant",
    )
    onnx.helper.set_model_props(model, facts(fitted, notes))
    onnx.checker.check_model(model, full_check=True)
    return model


def to_bytes(written: Any) -> bytes:
    """The file."""
    return bytes(written.SerializeToString())


def run(written: Any, fitted: Map, rows: FloatArray, segments: Segments | None = None, **options: Any) -> FloatArray:
    """Predictions of the model by ONNX Runtime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingRuntimeError("onnxruntime is not installed.") from error
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_bytes(written), settings, providers=["CPUExecutionProvider"])
    dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    given = {"predictions": rows.astype(dtype)}
    numbers = fitted.numbers(segments, len(rows))
    if numbers is not None:
        given["segments"] = np.where(numbers == MISSING, np.nan, numbers)
    return np.asarray(session.run(None, given)[0], dtype=np.float64)
