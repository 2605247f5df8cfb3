"""Whole models as one ONNX graph: a converter of `CalibratedClassifier` for skl2onnx.

skl2onnx writes the classifier (onnxmltools one of LightGBM or XGBoost), this module the calibrators and the average
over folds, in double precision. What a graph predicts is therefore as exact as their version of the classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from calibrant.classifier import CalibratedClassifier
from calibrant.classifier.pair import CalibratedPair, response_method
from calibrant.inputs.labels import encode
from calibrant.optional import require
from calibrant.steps.step import NotSupportedError, decides
from calibrant.writers.onnx_nodes import DOUBLE, FLOAT, Graph, Tensor

_ALIAS = "CalibrantCalibratedClassifier"
#: Boosters: their class, and where onnxmltools converts it. It gives probabilities, never decision values.
_BOOSTERS = {
    "LGBMClassifier": ("lightgbm", "onnxmltools.convert.lightgbm.operator_converters.LightGbm", "convert_lightgbm"),
    "XGBClassifier": ("xgboost", "onnxmltools.convert.xgboost.operator_converters.XGBoost", "convert_xgboost"),
}


def register_with_skl2onnx() -> None:
    """Teach skl2onnx to convert `CalibratedClassifier`, alone and in pipelines: call it once before converting.

    Where onnxmltools is installed, classifiers of LightGBM and XGBoost are registered as well; their models need
    ``target_opset={"": 18, "ai.onnx.ml": 3}``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> import calibrant
    >>> from calibrant.writers.whole_models import register_with_skl2onnx
    >>> model = calibrant.CalibratedClassifier(LogisticRegression(), method="ts")
    >>> model = model.fit([[0.0], [1.0], [2.0], [3.0]] * 10, [0, 1, 0, 1] * 10)
    >>> register_with_skl2onnx()  # doctest: +SKIP
    >>> onnx_model = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})  # doctest: +SKIP
    """
    skl2onnx = require("skl2onnx", extra="export")
    shapes = require("skl2onnx.common.shape_calculator", extra="export")
    skl2onnx.update_registered_converter(
        CalibratedClassifier,
        _ALIAS,
        shapes.calculate_linear_classifier_output_shapes,
        _convert,
        options={"zipmap": [True, False, "columns"], "output_class_labels": [False, True], "nocl": [True, False]},
    )
    for name, (package, module, converter) in _BOOSTERS.items():
        try:
            found, convert = getattr(import_module(package), name), getattr(import_module(module), converter)
        except ImportError:  # nothing to register
            continue
        skl2onnx.update_registered_converter(
            found,
            f"Calibrant{name}",
            shapes.calculate_linear_classifier_output_shapes,
            convert,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )


def _scores(scope: object, operator: Any, container: object, pair: CalibratedPair) -> str:
    """The name of what skl2onnx's version of a classifier will give: probabilities or decision values."""
    parsing = require("skl2onnx._parse", extra="export")
    classifier = pair.estimator.estimator if isinstance(pair.estimator, FrozenEstimator) else pair.estimator
    if isinstance(_last(classifier), (RandomForestClassifier, ExtraTreesClassifier)) and decides(
        pair.calibrators[0].to_map().steps
    ):
        raise NotSupportedError(
            f"skl2onnx adds up the trees of {type(_last(classifier)).__name__} in single precision, and "
            f"{type(pair.calibrators[0]).__name__} compares probabilities with thresholds: some rows would be off by "
            "0.1 or more. Calibrate with a smooth method, such as sms, or export the calibrator alone."
        )
    _set_options(scope, container, classifier, raw_scores=_decides(pair))
    found = parsing.parse_sklearn(scope, classifier, operator.inputs)
    for variable in found:  # skl2onnx takes them for outputs of the whole model
        variable.init_status(is_leaf=False)
    return str(found[1].full_name)


def _last(classifier: object) -> Any:
    """The classifier at the end of a pipeline, or inside of a frozen one."""
    while isinstance(classifier, (Pipeline, FrozenEstimator)):
        classifier = classifier.estimator if isinstance(classifier, FrozenEstimator) else classifier.steps[-1][1]
    return classifier


def _whole_numbers(add_node: Callable[..., object]) -> Callable[..., object]:
    """`add_node` that takes lists of truth values, which skl2onnx writes for histogram-based gradient boosting."""

    def add_whole(op_type: object, inputs: object, outputs: object, **attributes: object) -> object:
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(item, (bool, np.bool_)) for item in value):
                attributes[name] = [int(item) for item in value]
        return add_node(op_type, inputs, outputs, **attributes)

    return add_whole


def _set_options(scope: Any, container: Any, classifier: object, *, raw_scores: bool) -> None:
    """Ask skl2onnx for arrays, and for decision values if the calibrator was fitted to these."""
    classifier = _last(classifier)
    known = scope.registered_models
    alias = known["aliases"].get(type(classifier))
    allowed = known["conv"][alias].get_allowed_options() if alias in known["conv"] else None
    wanted = {"zipmap": False, "raw_scores": raw_scores}
    if raw_scores and "raw_scores" not in (allowed or ()):
        raise NotSupportedError(
            f"skl2onnx does not export decision values of {type(classifier).__name__}, which this model calibrates: "
            "calibrate its probabilities, with another method than sigmoid, isotonic or temperature."
        )
    for place in (scope, container):
        place.add_options(id(classifier), {name: value for name, value in wanted.items() if name in (allowed or ())})


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Nodes of a fitted `CalibratedClassifier`: classifiers, calibrators, the average over folds, and the label."""
    model: CalibratedClassifier = operator.raw_operator
    double = type(operator.outputs[1].type).__name__.startswith("Double")
    graph = Graph(np.float64, opset=container.target_opset_onnx)
    container.add_node = _whole_numbers(container.add_node)
    pairs = [pair for pair in model.calibrated_classifiers_ if isinstance(pair, CalibratedPair)]
    if not pairs:
        raise NotSupportedError(
            "A multi-label classifier cannot be exported to ONNX as a whole: export its calibrators_."
        )
    scores = [Tensor(graph, _scores(scope, operator, container, pair)) for pair in pairs]
    mean = reduce(add, [_calibrated(graph, *found) for found in zip(pairs, scores)]) / float(len(pairs))
    probabilities = graph.op("Cast", mean, to=DOUBLE if double else FLOAT)
    best = graph.op("ArgMax", mean, axis=1, keepdims=0)
    graph.prune(probabilities, best)
    names = _add(scope, container, graph)
    classes = np.asarray(model.classes_)
    labels = scope.get_unique_variable_name("classes")
    if classes.dtype.kind in "iub":
        container.add_initializer(labels, 7, [len(classes)], classes.astype(np.int64).tolist())
    else:
        container.add_initializer(labels, 8, [len(classes)], [str(label).encode() for label in classes.tolist()])
    for kind, inputs, output in (
        ("Identity", [names[probabilities.name]], operator.outputs[1]),
        ("Gather", [labels, names[best.name]], operator.outputs[0]),
    ):
        container.add_node(kind, inputs, output.full_name, name=scope.get_unique_operator_name(kind))


def _decides(pair: CalibratedPair) -> bool:
    """Whether decision values are needed; those of boosters are logits, whose softmax their converter gives."""
    if type(_last(pair.estimator)).__name__ in _BOOSTERS and pair.scaling is None:
        return False
    return response_method(pair.estimator, decisions=pair.decisions) == "decision_function"


def _calibrated(graph: Graph, pair: CalibratedPair, scores: Tensor) -> Tensor:
    """Probabilities of all classes, from the scores of one classifier."""
    calibrator, classes = pair.calibrators[0], pair.classes
    known = np.asarray(getattr(pair.estimator, "classes_", classes))
    x = graph.op("Cast", scores, to=DOUBLE)
    logits = _decides(pair)
    if not logits:  # in single precision, one minus a sum may be a hair below zero
        x = graph.maximum(x, 0.0)
    if logits:
        if len(known) == 2:  # two classes have one decision value, the log-odds
            x = graph.op("Gather", x, graph.index([-1]), axis=1)
            x = graph.join([x * 0.0, x])
        if pair.scaling is not None:
            x = graph.run([pair.scaling], x, len(classes))
    fitted = calibrator.to_map()
    x, valid = graph.prepare(x, fitted.steps, logits=logits)
    if len(known) < len(classes):
        x = _spread(graph, x, encode(known, classes), len(classes))
        x = graph.maximum(x, graph.floor)
    if fitted.columns is not None:
        x = graph.columns(x, fitted.columns)
    p = graph.where(valid, graph.run(fitted.steps, x, fitted.k), np.nan)
    if fitted.k < len(classes):
        return _spread(graph, p, np.asarray(calibrator.classes_), len(classes))
    return p


def _spread(graph: Graph, x: Tensor, places: Any, width: int) -> Tensor:
    """The columns of `x` at their places among `width`; the others are zero."""
    source = np.full(width, len(places))
    source[places] = np.arange(len(places))
    return graph.columns(graph.join([x, graph.columns(x, [0]) * 0.0]), source)


def _add(scope: Any, container: Any, graph: Graph) -> dict[str, str]:
    """Put the nodes and constants of a graph into skl2onnx's; returns what values are called there."""
    names: dict[str, str] = {}
    for tensor in graph.constants:
        names[tensor.name] = scope.get_unique_variable_name("calibrant")
        container.add_initializer(names[tensor.name], None, None, tensor)
    onnx = require("onnx", extra="export")
    for node in graph.nodes:
        inputs = [names.get(name, name) for name in node.input]
        for name in node.output:
            names[name] = scope.get_unique_variable_name("calibrant")
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        container.add_node(
            node.op_type,
            inputs,
            [names[name] for name in node.output],
            name=scope.get_unique_operator_name(node.op_type),
            **attributes,
        )
    return names
