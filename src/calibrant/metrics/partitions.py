"""Metrics of Dask collections: each partition is taken in where it is, and what was taken in is merged in a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import dask
import numpy as np

from calibrant.calibrators.partitions import aligned
from calibrant.inputs.labels import check_labels, distinct, name_columns
from calibrant.inputs.words import METRIC
from calibrant.metrics.running import RunningMetrics

#: Metrics of partitions that one task merges.
_FAN_IN = 8


def evaluate_partitions(
    y: Any,
    P: Any,
    weight: Any,
    metrics: Sequence[str] | None,
    classes: Sequence[Any] | None,
    options: Mapping[str, Mapping[str, Any]] | None,
    level: float | None,
) -> dict[str, Any]:
    """What `evaluate` gives for partitions of predictions, labels and weights."""
    RunningMetrics(metrics, options=options)  # says what cannot be done before anything is computed
    pieces = aligned(P, y, weight)
    if classes is None:
        seen = dask.delayed(_labels, pure=False)
        found = [part for part in dask.compute(*[seen(*piece[:2]) for piece in pieces]) if part is not None]
        if not found:
            raise ValueError("No partition holds a row.")
        labels = distinct(np.concatenate([part[0] for part in found]))
        _, categories, n_columns, names = found[0]
        classes = name_columns(labels, n_columns, names=names, categories=categories, words=METRIC)[0].tolist()
    take_in, merge = dask.delayed(_taken_in, pure=False), dask.delayed(_merged, pure=False)
    parts = [take_in(*piece, metrics, classes, options) for piece in pieces]
    while len(parts) > 1:
        parts = [merge(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    (total,) = dask.compute(parts[0])
    result: dict[str, Any] = total.result(level)
    return result


def _labels(P: Any, y: Any) -> Any:
    if not len(y):
        return None
    labels, categories = check_labels(y, len(y), METRIC)
    names = list(P.columns) if hasattr(P, "columns") else None
    return distinct(labels), categories, P.shape[1] if P.ndim == 2 and P.shape[1] > 1 else 2, names


def _taken_in(P: Any, y: Any, weight: Any, metrics: Any, classes: Any, options: Any) -> RunningMetrics:
    if weight is not None:
        some = np.asarray(weight) > 0  # a partition of no weight is none
        P, y, weight = P[some], y[some], weight[some]
    return RunningMetrics(metrics, classes=classes, options=options).update(y, P, weight)


def _merged(parts: list[RunningMetrics]) -> RunningMetrics:
    return reduce(RunningMetrics.merge, parts)
