"""Metrics of Dask collections: each partition is taken in where it is, and what was taken in is merged in a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import dask

from calibrant.calibrators.partitions import aligned
from calibrant.inputs.labels import distinct, name_columns
from calibrant.inputs.observations import observations
from calibrant.inputs.seen import SeenLabels
from calibrant.inputs.weights import row_weights
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
        look, seen = dask.delayed(_labels, pure=False), SeenLabels()
        found = dask.compute(*[look(*piece[:2], number) for number, piece in enumerate(pieces)])
        for number, part in enumerate(found):
            if part is not None:
                seen.add(part[0], f"partition {number}")
        first = next((part for part in found if part is not None), None)
        if first is None:
            raise ValueError("No partition holds a row.")
        _, categories, n_columns, names = first
        with seen.named():
            named, _ = name_columns(seen.labels, n_columns, names=names, categories=categories, words=METRIC)
        classes = named.tolist()
    take_in, merge = dask.delayed(_taken_in, pure=False), dask.delayed(_merged, pure=False)
    parts = [take_in(*piece, number, metrics, classes, options) for number, piece in enumerate(pieces)]
    while len(parts) > 1:
        parts = [merge(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    (total,) = dask.compute(parts[0])
    result: dict[str, Any] = total.result(level)
    return result


def _labels(P: Any, y: Any, number: int) -> Any:
    if not len(y):
        return None
    with _named(number):
        _, labels, _, categories = observations(y, P.shape, words=METRIC)
    names = list(P.columns) if hasattr(P, "columns") else None
    return distinct(labels), categories, P.shape[1] if P.ndim == 2 and P.shape[1] > 1 else 2, names


def _taken_in(P: Any, y: Any, weight: Any, number: int, metrics: Any, classes: Any, options: Any) -> RunningMetrics:
    with _named(number):
        if weight is not None:
            some = row_weights(weight, len(y)) > 0  # a partition of no weight is none
            P, y, weight = P[some], y[some], weight[some]
        return RunningMetrics(metrics, classes=classes, options=options).update(y, P, weight)


@contextmanager
def _named(number: int) -> Iterator[None]:
    """Say in errors which partition they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (Partition {number}.)") from None


def _merged(parts: list[RunningMetrics]) -> RunningMetrics:
    return reduce(RunningMetrics.merge, parts)
