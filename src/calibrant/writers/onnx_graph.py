"""ONNX of plain operators (opset 17), in double or single precision, for any number of rows.

A map that compares values with thresholds (trees, functions given by points) is computed in double
precision inside, whatever goes in and comes out: rounded, a value may get the other answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.optional import require
from calibrant.runtime import Map
from calibrant.steps import check_steps
from calibrant.typing import FloatArray
from calibrant.writers.common import MissingRuntimeError, Segments, arrays_beside, check_precision, facts
from calibrant.writers.onnx_nodes import DOUBLE, INT64, OPSET, Graph, Tensor, code

#: The newest version of the format that runtimes of opset 17 know.
_IR_VERSION = 8
_LARGEST = float(np.finfo(np.float64).max)


def write(fitted: Map, notes: Iterable[str] = (), *, dtype: object = np.float64, inside: object = None) -> Any:
    """The model: input `predictions` (n, k), output `probabilities` (n, k), NaN for rows that are not predictions.

    A map that takes segments has a second input `segments` (n, c), always in double precision: the place of a row's
    level among those in the metadata, -1 for another one, or the number itself, NaN for a missing one. A map with a
    rule has a further output `action` (n,), the number of the cheapest of the actions in the metadata, -1 for rows that
    are not predictions, and an input `amounts` (n, m) in double precision if the costs name any; one with intervals has
    the outputs `low` and `high` (n, k).
    """
    helper = require("onnx", extra="export").helper
    check_steps(fitted.steps, fitted.width)
    outside, precision = check_precision(fitted.steps, dtype, inside)
    graph = Graph(precision, outside)
    inputs = {"predictions": (code(outside), fitted.k)}
    x = graph.cast(Tensor(graph, "predictions"), outside, graph.dtype)
    if fitted.scaling is not None:
        x = graph.run([fitted.scaling], x, fitted.k)
    if fitted.independent:
        x, valid = graph.prepare_labels(x, logits=fitted.logits)
    else:
        x, valid = graph.prepare(x, fitted.steps, logits=fitted.logits, renormalize=fitted.renormalize)
    if fitted.columns is not None:
        x = graph.columns(x, fitted.columns)
    if fitted.segments:
        inputs["segments"] = (DOUBLE, len(fitted.segments))
        beside = graph.segments(Tensor(graph, "segments"))
        x = graph.join([x, graph.cast(beside, np.float64, graph.dtype)])
    p = graph.run(fitted.steps, x, fitted.width)
    results = {"probabilities": graph.cast(graph.where(valid, p, np.nan), graph.dtype, outside)}
    if fitted.interval is not None:
        ends = graph.cast(graph.where(valid, graph.run(fitted.interval, x, fitted.k), np.nan), graph.dtype, outside)
        for name, first in (("low", 0), ("high", fitted.k)):
            results[name] = graph.columns(ends, range(first, first + fitted.k))
    outputs = [helper.make_tensor_value_info(name, code(outside), ["n", fitted.k]) for name in results]
    if fitted.rule is not None:
        known, amounts = valid, None
        if fitted.rule.amounts:
            inputs["amounts"] = (DOUBLE, len(fitted.rule.amounts))
            amounts = Tensor(graph, "amounts")
            right = (amounts >= graph.const(0.0, np.float64)) & (amounts <= graph.const(_LARGEST, np.float64))
            known = known & graph.every(right)
            amounts = graph.cast(amounts, np.float64, graph.dtype)
        action = graph.action(p, fitted.rule, amounts)
        results["action"] = graph.op("Where", graph.flat(known), action, graph.index(-1))
        outputs.append(helper.make_tensor_value_info("action", INT64, ["n"]))
    graph.prune(*results.values())
    for name, result in results.items():
        graph.nodes.append(helper.make_node("Identity", [result.name], [name]))
    given = [helper.make_tensor_value_info(name, kind, ["n", width]) for name, (kind, width) in inputs.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "calibrant", given, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="calibrant",
    )
    helper.set_model_props(model, facts(fitted, notes))
    require("onnx", extra="export").checker.check_model(model, full_check=True)
    return model


def to_bytes(written: Any) -> bytes:
    return bytes(written.SerializeToString())


def run(
    written: object,
    fitted: Map,
    rows: FloatArray,
    segments: Segments | None = None,
    amounts: Segments | None = None,
    **options: object,
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
    given = {"predictions": rows.astype(dtype), **arrays_beside(fitted, len(rows), segments, amounts)}
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in session.run(None, given)])
