"""Weights are counts: every public callable that takes `sample_weight` treats weight 3 as three copies of the row.

The callables are found by inspection. Values agree exactly, fits to 1e-8, and what rests on random numbers (ends of
intervals, p-values) within the noise of resampling: four standard deviations of the difference of two such runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import matplotlib
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant import decisions, metrics, plots
from tests.quick import few
from tests.samples import draw_labels

N_RESAMPLES = 400
#: Leaves of a result that rest on random numbers.
ENDS, P_VALUES = {"low", "high"}, {"p_value"}
#: What takes a matrix of labels that are true of a row, each by itself.
OF_LABELS = ("MultilabelCalibrator", "multilabel_metrics")
#: Of a report these count rows, not observations, or are the clock's.
OF_ROWS = {"rows", "seconds", "n_rows", "rows_", "rows_sha256"}
#: Sentences about an interval, which may end on either side of a limit.
OF_ENDS = {"says"}


def made(k: int, n: int = 90) -> dict[str, Any]:
    """Predictions that are somewhat too extreme, labels, whole-number weights, and what else callables ask for."""
    rng = np.random.default_rng(k)
    z = rng.normal(size=(n, k)) * 1.2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = draw_labels(p, rng)
    y[:k] = np.arange(k)
    sharp = p**1.2
    sharp /= sharp.sum(axis=1, keepdims=True)
    return {
        "y_true": y,
        "y_prob": sharp,
        "X": sharp,
        "y": y,
        "before": sharp,
        "after": p,
        "y_prob_before": sharp,
        "y_prob_after": p,
        "segments": np.where(rng.random(n) < 0.5, "north", "south"),
        "weight": rng.integers(1, 4, n).astype(np.float64),
    }


ROWS = ("y_true", "y_prob", "X", "y", "before", "after", "y_prob_before", "y_prob_after", "segments")


def repeated(data: dict[str, Any]) -> dict[str, Any]:
    rows = np.repeat(np.arange(len(data["y"])), data["weight"].astype(int))
    return {name: data[name][rows] for name in ROWS}


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, class or method with a parameter `sample_weight`."""
    for module in (calibrant, metrics, plots, decisions):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found):
                for method in ("__init__", "fit", "update", "from_predictions"):
                    if takes_weight(getattr(found, method, None)):
                        yield f"{name}.{method}", found
            elif takes_weight(found):
                yield name, found


def takes_weight(found: Any) -> bool:
    if not callable(found):
        return False
    parameter = inspect.signature(found).parameters.get("sample_weight")
    return parameter is not None and not str(parameter.annotation).startswith("str")  # the name of a column


def arguments(function: Callable[..., Any], data: dict[str, Any]) -> dict[str, Any]:
    """What a callable must be given: by the names of its parameters."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "metric":
            given[name] = "ece"
        elif name == "calibrator":
            given[name] = fixed(data)
        elif name == "rule" and data["y_prob"].shape[1] == 2:
            given[name] = calibrant.DecisionRule(false_positive=1, false_negative=5)
        elif name == "rule":
            given[name] = calibrant.DecisionRule([[0, 5, 9], [1, 0, 2], [1, 2, 0], [3, 3, 3]])
        elif name == "precision":
            given[name] = 0.5
        elif name == "pos_label" and data["y_prob"].shape[1] > 2:
            given[name] = 1
        elif name in data and parameter.kind is not parameter.VAR_KEYWORD:
            given[name] = data[name]
        elif name == "level" and parameter.default is None:
            given[name] = 0.9
        elif name == "n_resamples":
            given[name] = N_RESAMPLES
        elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise AssertionError(f"{function} needs {name}: say in this test what to give it")
    return given


def fixed(data: dict[str, Any]) -> Any:
    """A calibrator that does not depend on weights."""
    probe = made(data["y_prob"].shape[1])["y_prob"]
    return calibrant.NoCalibrator().fit(probe, np.arange(len(probe)) % probe.shape[1])


def call(name: str, found: Any, data: dict[str, Any], weight: Any) -> Any:
    """What a callable makes of some rows, as something whose numbers can be compared."""
    owner, _, method = name.partition(".")
    probe = made(data["y_prob"].shape[1])["y_prob"]
    if owner in OF_LABELS:
        on = (np.arange(data["y_prob"].shape[1]) == np.asarray(data["y"])[:, None]).astype(int)
        on[:, 0] |= data["segments"] == "north"  # of two labels one is not the opposite of the other
        data = {**data, "y": on, "y_true": on}
    if method == "fit":
        return fitted(found, data, weight).predict_proba(probe)
    if method == "update":
        if owner == "CalibrationMonitor":
            watched = found(fixed(data)).update(data["y_prob"], data["y_true"], sample_weight=weight)
            return {"evidence": watched.log_evidence_, "performance": watched.performance_}
        running = found("ece") if owner == "Running" else found()
        return running.update(data["y_true"], data["y_prob"], weight).result(0.9)
    if owner == "adapt":
        adapted = found(fixed(data), unlabelled=data["y_prob"], sample_weight=weight)
        return {"prior": adapted.prior_, "predictions": adapted.predict_proba(probe)}
    if owner == "document":
        with few():  # values alone are compared
            written = found(fixed(data), data["y_true"], data["y_prob"], sample_weight=weight).values["rows"]
        return {"metrics": [row[1] for row in written["metrics"]], "bands": [row[:4] for row in written["bands"]]}
    if owner == "record_fit":
        return found(fixed(data), data["X"], data["y"], weight, time=datetime(2026, 1, 1)).audit_
    if owner == "best_threshold" and probe.shape[1] > 2:
        pytest.skip("for two classes")
    if owner == "CalibrationReport":
        report = found(data["y_true"], data["y_prob"], sample_weight=weight, methods=["ts"])
        tables = {name: {c: table[c].to_numpy() for c in table} for name, table in report.tables.items()}
        return {"verdict": report.verdict, "tables": tables}
    if method == "from_predictions":
        both = (data["before"], data["after"]) if owner == "BeforeAfterDisplay" else (data["y_prob"],)
        display = found.from_predictions(data["y_true"], *both, sample_weight=weight)
        matplotlib.pyplot.close("all")
        return {key: value for key, value in vars(display).items() if is_dataclass(value) or isinstance(value, tuple)}
    target = found if method == "" else getattr(found, method)
    return target(**arguments(target, data), sample_weight=weight)


def fitted(found: Any, data: dict[str, Any], weight: Any) -> Any:
    if found.__name__ == "CalibratedClassifier":
        model = LogisticRegression().fit(*(made(data["X"].shape[1])[name] for name in ("X", "y")))
        return found(FrozenEstimator(model), method="sms").fit(data["X"], data["y"], sample_weight=weight)
    if found.__name__ == "SegmentedCalibrator":
        segments = {"region": data["segments"]}
        segmented = found().fit(data["X"], data["y"], weight, segments=segments)
        return _Applied(segmented)
    if found.__name__.startswith("OneVs"):
        return found(calibrant.get_calibrator("beta")).fit(data["X"], data["y"], weight)
    if found.__name__ == "BinaryLogisticCalibrator" and data["X"].shape[1] > 2:
        pytest.skip("a method of two classes")
    return found().fit(data["X"], data["y"], weight)


class _Applied:
    def __init__(self, segmented: Any) -> None:
        self._segmented = segmented

    def predict_proba(self, p: Any) -> Any:
        return self._segmented.predict_proba(p, segments={"region": np.resize(["north", "south"], len(p))})


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All numbers and texts of a result, with their names."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, str(name)))
    elif hasattr(value, "_asdict"):
        yield from leaves(value._asdict(), path)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, str(number)))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        yield path, value.astype(np.float64)
    elif isinstance(value, (int, float, np.number)):
        yield path, np.asarray(float(value))
    else:
        yield path, str(value)


def kind_of(path: tuple[str, ...]) -> str:
    last = path[-1] if path else ""
    if last in ENDS or last.endswith(("_low", "_high")):
        return "end"
    if last in P_VALUES or last.startswith("p_value"):
        return "p-value"
    return "rows" if last in OF_ROWS else "value"


def assert_same(first: Any, second: Any, tolerance: float) -> None:
    one, two = dict(leaves(first)), dict(leaves(second))
    assert one.keys() == two.keys()
    for path, value in one.items():
        other, kind = two[path], kind_of(path)
        if "size" in path:  # rows beside observations
            continue
        if isinstance(value, str):
            assert value == other or path[-1] in OF_ROWS | OF_ENDS, path
        elif kind == "value":
            np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance, err_msg=str(path))
        elif kind == "p-value":
            if _both_nan(value, other):
                continue
            spread = np.sqrt(2.0 * np.maximum(value * (1.0 - value), 1.0 / N_RESAMPLES) / N_RESAMPLES)
            assert (np.abs(value - other) <= 4.0 * spread + 2.0 / N_RESAMPLES).all(), (path, value, other)
        elif kind == "end":
            # The 5 % quantile of N draws of a normal variable varies by 0.13 standard deviations for N = 400, the
            # 2.5 % one by 0.13; an interval is 3.3 or more of them wide. Four times the root of two of that.
            sides = {end: np.asarray(one[_sibling(path, end)]) for end in ("low", "high") if _sibling(path, end) in one}
            width = np.abs(sides["high"] - sides["low"])
            assert (np.abs(value - other) <= 0.23 * width + 1e-9).all() or _both_nan(value, other), (path, value, other)


def _sibling(path: tuple[str, ...], end: str) -> tuple[str, ...]:
    last = path[-1]
    stem = last[: -len("low")] if last.endswith("low") else last[: -len("high")]
    return (*path[:-1], stem + end)


def _both_nan(value: Any, other: Any) -> bool:
    return bool(np.array_equal(np.isnan(value), np.isnan(other)) and np.isnan(value).any())


#: Resample many metrics or draw them: two classes, and votes instead of labels, are left to the slow tests.
DEAR = (
    *("document", "CalibrationReport.__init__", "validation_table", "classwise_corp_curves", "evaluate"),
    *("RunningMetrics.update", "SegmentedCalibrator.fit"),
    *("BeforeAfterDisplay.from_predictions", "ReliabilityDisplay.from_predictions"),
)
CASES = [
    pytest.param(name, found, k, id=f"{name}-{k}", marks=[pytest.mark.slow] * (name in DEAR and k == 2))
    for name, found in callables()
    for k in (2, 3)
]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize(("name", "found", "k"), CASES)
def test_a_weight_counts_observations(name: str, found: Any, k: int) -> None:
    data = made(k)
    weighted = call(name, found, data, data["weight"])
    assert_same(weighted, call(name, found, repeated(data), None), 1e-8 if name.endswith("fit") else 1e-9)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param(name, found, id=name, marks=[pytest.mark.slow] * (name in DEAR))
        for name, found in callables()
        if "." not in name or name.endswith((".fit", ".update"))
    ],
)
def test_votes_are_repeated_rows(name: str, found: Any) -> None:
    data = made(3)
    rng = np.random.default_rng(5)
    votes = rng.multinomial(3, data["after"] / data["after"].sum(axis=1, keepdims=True))
    rows, labels = np.nonzero(votes)
    number = votes[rows, labels]
    copied = {key: np.repeat(data[key][rows], number, axis=0) for key in ROWS}
    copied["y"] = copied["y_true"] = np.repeat(labels, number)
    voted = {**data, "y": votes, "y_true": votes}
    if name.startswith(("CalibratedClassifier", "CalibrationMonitor", "adapt", "document", *OF_LABELS)):
        pytest.skip("takes labels alone, or none")
    assert_same(call(name, found, voted, None), call(name, found, copied, None), 1e-8)
