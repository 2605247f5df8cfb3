"""ONNX of plain operators (opset 17), in double or single precision, for any number of rows.

A map that decides on which side of a number a value lies (trees, functions given by points) is computed in double
precision inside, whatever goes in and comes out: rounded, a value may get the other answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING
from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.steps.actions import TIE, CostTable
from calibrant.steps.formulas import Operations, rests
from calibrant.steps.step import decides
from calibrant.typing import FloatArray
from calibrant.writers.common import MissingRuntimeError, Segments, amounts_of, check_precision, facts
from calibrant.writers.onnx_alongside import leading_steps, run_alongside
from calibrant.writers.onnx_nodes import IR_VERSION, OPSET, Nodes, Tensor, code

#: Largest difference of a probability, in double precision.
TOLERANCE = 1e-12
_LARGEST = float(np.finfo(np.float64).max)


class Graph(Nodes, Operations):
    """Nodes of the steps of a map."""

    target = "ONNX"

    def __init__(self, dtype: Any = np.float64, outside: Any = None, opset: int = OPSET) -> None:
        super().__init__(dtype, outside, opset)
        self._least: dict[Tensor, float] = {}  # known bounds, which need not be drawn again

    def numbers(self, values: FloatArray | float) -> Any:
        return values

    def each(self, function: str, x: Tensor, *numbers: float) -> Tensor:
        if function == "max" and numbers[0] <= self._least.get(x, -np.inf):
            return x
        out = self.op(function.capitalize(), x, *numbers)
        if function == "max":
            self._least[out] = numbers[0]
        return out

    def where(self, condition: Tensor, yes: Any, no: Any) -> Tensor:
        return self.op("Where", condition, yes, no)

    def total(self, x: Tensor) -> Tensor:
        return self.sum(x)

    def largest(self, x: Tensor) -> Tensor:
        return self.extreme("ReduceMax", x)

    def least(self, x: Tensor) -> Tensor:
        return self.extreme("ReduceMin", x)

    def is_top(self, x: Tensor, width: int) -> Tensor:
        return self.op("Equal", self.index(np.arange(width)[None]), self.op("ArgMax", x, axis=1, keepdims=1))

    def first(self, condition: Tensor, *rows: Tensor) -> list[Tensor]:
        place = self.op("ArgMax", self.op("Cast", condition, to=self.type), axis=1, keepdims=1)
        return [self.op("GatherElements", row, place, axis=1) for row in rows]

    def columns(self, x: Tensor, index: Iterable[int]) -> Tensor:
        places = [int(j) for j in index]
        return self.column(x, places[0]) if len(places) == 1 else self.op("Gather", x, self.index(places), axis=1)

    def product(self, x: Tensor, matrix: FloatArray) -> Tensor:
        return self.op("MatMul", x, matrix)

    def lookup(self, tables: Sequence[FloatArray], place: Tensor) -> list[Tensor]:
        whole = self.op("Cast", self.flat(place), to=7)
        return [self.op("Gather", self.large(table), whole, axis=0) for table in tables]

    def piecewise(self, x: Tensor, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Tensor:
        flat = self.flat(x)
        piece = self.op("Cast", self.below(flat, edges), to=7)
        return self.op("Reshape", self.polynomial(flat, piece, origins, coefficients), self.index([-1, 1]))

    def step_softmax(self, step: s.Softmax, x: Tensor, width: int) -> Tensor:
        return self.op("Softmax", x, axis=1)

    def step_trees(self, step: s.Trees, x: Tensor, width: int) -> Tensor:
        count, depth = step.features.shape
        asked = self.op("MatMul", x, self.large(step.differences(width)[:, step.pairs[2].ravel()]))
        answers = self.op("Cast", asked > step.thresholds.ravel(), to=1)
        # Whole numbers below 2**24 are exact in single precision.
        bits = self.const(2.0 ** np.arange(depth)[:, None], np.float32)
        leaf = self.op("MatMul", self.op("Reshape", answers, self.index([-1, depth])), bits)
        leaf = self.op("Transpose", self.op("Reshape", leaf, self.index([-1, count])), perm=[1, 0])
        place = self.op("Cast", leaf, to=7) + self.index(np.arange(count)[:, None] << depth)
        steps = self.op("Gather", self.large(step.values.reshape(-1, step.values.shape[2])), place, axis=0)
        return self.op("ReduceSum", steps, self.index([0]), keepdims=0)

    def step_one_vs_rest(self, step: s.OneVsRest, x: Tensor, width: int) -> Tensor:
        columns, alike = [rests(self, x, width), x], leading_steps(step.parts)
        for level in zip(*(part[:alike] for part in step.parts)):
            columns = run_alongside(self, level, columns)
        if all(len(part) == alike for part in step.parts):
            return columns[1]
        out = []
        for j, part in enumerate(step.parts):
            own = self.join([self.column(matrix, j) for matrix in columns], single=True)
            out.append(self.column(self.run(part[alike:], own, len(columns)), 1))
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
            no_more, no_less = (self.op("Cast", test, to=1) for test in (x <= largest, x >= -largest))  # nor NaN
            valid = self.extreme("ReduceMin", no_more) * self.extreme("ReduceMax", no_less)
            return self.maximum(self.op("Softmax", x, axis=1), self.floor), valid > self.const(0.0, np.float32)
        least = self.least(x) >= 0.0
        if renormalize:
            top = self.largest(x)
            x = x / self.where(top > 2.0, top, 1.0)
        # Between two points that lie close together a map may be so steep that the sum's last bit matters.
        total = self.ordered_sum(x) if decides(steps) else self.sum(x)
        right = total > 0.0 if renormalize else self.each("abs", total - 1.0) <= ROUNDING
        # A number that is missing or infinite makes the sum such, too.
        return self.maximum(x / total, self.floor), least & right

    def action(self, p: Tensor, rule: CostTable, amounts: Tensor | None) -> Tensor:
        """The number of the cheapest action of each row."""
        costs = self.product(p, rule.numbers.T)
        for number, places in enumerate(rule.amounts.values()):
            assert amounts is not None
            costs = costs + self.product(p, places.T) * self.column(amounts, number)
        return self.op("ArgMax", self.op("Cast", costs <= self.least(costs) * (1.0 + TIE), to=6), axis=1, keepdims=0)

    def prepare_labels(self, x: Tensor, *, logits: bool) -> tuple[Tensor, Tensor]:
        """The probabilities that independent labels are not, and are, true, and whether the row holds predictions."""
        least, most = (-np.inf, np.inf) if logits else (0.0, 1.0 + ROUNDING)
        inside = self.op("Cast", (x >= least) & (x <= most), to=1)  # not so for NaN
        valid = self.extreme("ReduceMin", inside) > self.const(0.0, np.float32)
        if logits:
            small = self.exp(self.numbers(0.0) - self.each("abs", x))
            lesser, greater = small / (small + 1.0), 1.0 / (small + 1.0)
            on, off = self.where(x >= 0.0, greater, lesser), self.where(x >= 0.0, lesser, greater)
        else:
            on = self.minimum(x, 1.0)
            off = 1.0 - on
        return self.maximum(self.join([off, on]), self.floor), valid

    def where_valid(self, x: Tensor, valid: Tensor) -> Tensor:
        """The rows `x`, NaN where they were made of rows that are not predictions."""
        return self.where(valid, x, np.nan)


def write(fitted: Map, notes: Iterable[str] = (), *, dtype: Any = np.float64, inside: Any = None) -> Any:
    """The model: input `predictions` (n, k), output `probabilities` (n, k), NaN for rows that are not predictions.

    A map that takes segments has a second input `segments` (n, c), always in double precision: the place of a row's
    level among those in the metadata, -1 for another one, or the number itself, NaN for a missing one. A map with a
    rule has a further output `action` (n,), the number of the cheapest of the actions in the metadata, -1 for rows that
    are not predictions, and an input `amounts` (n, m) in double precision if the costs name any; one with intervals has
    the outputs `low` and `high` (n, k).
    """
    onnx = require("onnx", extra="export")
    width = fitted.width
    s.check_steps(fitted.steps, width)
    outside, precision = check_precision(fitted.steps, dtype, inside)
    graph = Graph(precision, outside)
    x = graph.cast(Tensor(graph, "predictions"), outside, graph.dtype)
    if fitted.scaling is not None:
        x = graph.run([fitted.scaling], x, fitted.k)
    if fitted.independent:
        x, valid = graph.prepare_labels(x, logits=fitted.logits)
    else:
        x, valid = graph.prepare(x, fitted.steps, logits=fitted.logits, renormalize=fitted.renormalize)
    if fitted.columns is not None:
        x = graph.columns(x, fitted.columns)
    inputs = [onnx.helper.make_tensor_value_info("predictions", code(outside), ["n", fitted.k])]
    if fitted.segments:
        inputs.append(onnx.helper.make_tensor_value_info("segments", code(np.float64), ["n", len(fitted.segments)]))
        beside = graph.segments(Tensor(graph, "segments"))
        x = graph.join([x, graph.cast(beside, np.dtype(np.float64), graph.dtype)])
    p, value = graph.run(fitted.steps, x, width), onnx.helper.make_tensor_value_info
    out = graph.cast(graph.where_valid(p, valid), graph.dtype, outside)
    results = {"probabilities": (out, value("probabilities", code(outside), ["n", fitted.k]))}
    if fitted.interval is not None:
        ends = graph.cast(graph.where_valid(graph.run(fitted.interval, x, fitted.k), valid), graph.dtype, outside)
        for name, first in (("low", 0), ("high", fitted.k)):
            part = graph.columns(ends, range(first, first + fitted.k))
            results[name] = (part, value(name, code(outside), ["n", fitted.k]))
    if fitted.rule is not None:
        known, amounts = valid, None
        if fitted.rule.amounts:
            inputs.append(value("amounts", code(np.float64), ["n", len(fitted.rule.amounts)]))
            amounts = Tensor(graph, "amounts")
            right = (amounts >= graph.const(0.0, np.float64)) & (amounts <= graph.const(_LARGEST, np.float64))
            known = known & (graph.extreme("ReduceMin", graph.op("Cast", right, to=6)) > graph.const(0, np.int32))
            amounts = graph.cast(amounts, np.dtype(np.float64), graph.dtype)
        action = graph.op("Where", graph.flat(known), graph.action(p, fitted.rule, amounts), graph.index(-1))
        results["action"] = (action, value("action", 7, ["n"]))
    graph.prune(*(result for result, _ in results.values()))
    for name, (result, _) in results.items():
        graph.nodes.append(onnx.helper.make_node("Identity", [result.name], [name]))
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "calibrant",
            inputs,
            [info for _, info in results.values()],
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


def run(
    written: Any,
    fitted: Map,
    rows: FloatArray,
    segments: Segments | None = None,
    amounts: Segments | None = None,
    **options: Any,
) -> FloatArray:
    """Predictions of the model by ONNX Runtime, and the numbers of its actions."""
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
    if amounts is not None and fitted.rule is not None:
        given["amounts"] = amounts_of(fitted.rule, amounts, len(rows))
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in session.run(None, given)])
