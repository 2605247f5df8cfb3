"""Many metrics at once: of arrays, of dense outputs, and of rows that come in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.docs import describe_parameters
from calibrant.inputs.batches import BatchReader, SeenLabels, Source, as_source
from calibrant.inputs.dense import labelled_rows
from calibrant.inputs.labels import distinct, name_columns
from calibrant.inputs.observations import encoded, observations, row_weights
from calibrant.inputs.predictions import is_dask
from calibrant.inputs.samples import check_sample
from calibrant.inputs.top_k import TopK
from calibrant.inputs.words import METRIC
from calibrant.metrics.intervals import DEFAULT_METRICS, estimates
from calibrant.metrics.running import RunningMetrics, refuse_blocks
from calibrant.metrics.scalars import find_scalar
from calibrant.threads import limited
from calibrant.typing import Label


@limited
@describe_parameters
def evaluate(
    y_true: Any,
    y_prob: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    *,
    level: float | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    sample_weight: ArrayLike | str | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    classes: Sequence[Label] | None = None,
    options: Mapping[str, Mapping[str, object]] | None = None,
    axis: int | None = None,
    ignore_index: Label = None,
    label: str | None = None,
    probs: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Several metrics of the same predictions, validated and prepared once.

    Rows that do not fit into memory are added part by part, by the running forms of the metrics: Dask arrays and
    data frames partition by partition where they are, and sources of batches in place of `y_true`.

    Parameters
    ----------
    y_true : array-like of shape (n,), or a source of batches
        Observed labels: column numbers, or any labels (see `classes`). Without `y_prob`, a source as `fit_batches`
        takes it: a function that returns a fresh iterator of ``(P, y)`` or ``(P, y, weight)``, a pyarrow Table or
        Dataset, and the like.
    y_prob : array-like of shape (n, k), (n, 1) or (n,), default=None
        Predicted probabilities; a single column is the probability of the second of two classes.
    metrics : sequence of str, optional
        Names of metrics; `list_metrics()` has them all. By default log loss, Brier score, accuracy, AUROC, ECE, smooth
        ECE and Kuiper; of rows in parts those that are sums.
    level : float, optional
        Confidence level. When given, every value is an `Estimate` with an interval, all from the same resamples.
    options : mapping, optional
        Options of each metric by its name, such as `{"ece": {"n_bins": 10}}`.
    axis : int, default=None
        The axis of the classes in predictions of any shape, such as 1 for segmentations (images, classes, height,
        width); labels and weights have that shape without it.
    ignore_index : label, default=None
        Rows or places with this label are left out.
    label : str, default=None
        The column of the labels in a pyarrow Table, Dataset or Scanner; `sample_weight` may name one, too.
    probs : str or sequence of str, default=None
        Its columns of probabilities; by default they are found by the labels.

    Returns
    -------
    dict
        Name of the metric to its value, a float or an `Estimate`.

    Examples
    --------
    >>> from calibrant.metrics import evaluate
    >>> scores = evaluate([0, 1, 1], [0.2, 0.6, 0.9], ["log_loss", "accuracy"])
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'log_loss': 0.28, 'accuracy': 1.0}
    """
    grouped = groups is not None or blocks is not None
    if grouped and (y_prob is None or isinstance(y_prob, TopK) or is_dask(y_prob)):
        raise ValueError("groups and blocks work with arrays; for rows in parts, pass them to RunningMetrics.update")
    if isinstance(y_prob, TopK):
        source: Source = partial(y_prob.batches, y_true, sample_weight)
        reader = BatchReader(source, words=METRIC)
        return _of_batches(RunningMetrics(metrics, options=options), reader, classes).result(level)
    if y_prob is None:
        column = sample_weight if isinstance(sample_weight, str) else None
        source = as_source(y_true, label=label, sample_weight=column, probs=probs)
        reader = BatchReader(source, classes=classes, axis=axis, ignore_index=ignore_index, words=METRIC)
        return _of_batches(RunningMetrics(metrics, options=options), reader, classes).result(level)
    if axis is not None or ignore_index is not None:
        refuse_blocks(blocks)
        beside: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups}
        y_prob, y_true, sample_weight, groups = labelled_rows(y_prob, y_true, axis, ignore_index, METRIC, **beside)
    if is_dask(y_prob):
        empty = RunningMetrics(metrics, options=options)
        return _of_partitions(empty, y_true, y_prob, sample_weight, classes).result(level)
    metrics = DEFAULT_METRICS if metrics is None else metrics
    options, wanted = options or {}, []
    for metric in metrics:
        entry = find_scalar(metric)
        if entry is None:
            raise ValueError(f"evaluate takes names of metrics, got {metric!r}")
        wanted.append((entry, options.get(entry.name, {})))
    if unused := set(options) - set(metrics):
        raise ValueError(f"options are given for {sorted(unused)}, which are not among the metrics asked for")
    data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
    if level is None:
        return {entry.name: entry.prepare(data, **given)(data.each) for entry, given in wanted}
    return dict(zip(metrics, estimates(wanted, data, level, n_resamples, random_state)))


def _of_batches(running: RunningMetrics, reader: BatchReader, classes: Sequence[Label] | None) -> RunningMetrics:
    """Add batches, in one pass, or in two if the first has to find out which labels there are."""
    named: Any = classes
    if named is None:
        seen = SeenLabels()
        for part in reader.read():
            seen.add(distinct(part.y), reader.place_of)
            n_columns = part.n_classes
        with seen.named():
            named, _ = name_columns(
                seen.labels, n_columns, names=reader.names, categories=reader.categories, words=METRIC
            )
    for part in reader.read():
        seen = SeenLabels()
        seen.add(distinct(part.y), reader.place_of)
        # With the names of columns, and an error about a label that is none of them.
        with seen.named():
            columns, order = name_columns(part.y, part.n_classes, classes=named, names=reader.names, words=METRIC)
        running.add(encoded(part, columns, order))
    return running


#: Metrics of partitions that one task merges.
_FAN_IN = 8


def _of_partitions(
    empty: RunningMetrics, y: object, P: object, weight: object, classes: Sequence[Label] | None
) -> RunningMetrics:
    """Metrics of Dask collections: partitions are summed where they are, and merged in a tree."""
    import dask

    from calibrant.calibrators.partitions import aligned

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
    take_in, merge = (
        dask.delayed(_taken_in, pure=False),
        dask.delayed(partial(reduce, RunningMetrics.merge), pure=False),
    )
    parts = [take_in(*piece, number, empty, classes) for number, piece in enumerate(pieces)]
    while len(parts) > 1:
        parts = [merge(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    total: RunningMetrics = dask.compute(parts[0])[0]
    return total


def _labels(P: Any, y: Any, number: int) -> Any:
    if not len(y):
        return None
    with _in_partition(number):
        _, labels, _, categories = observations(y, P.shape, words=METRIC)
    names = list(P.columns) if hasattr(P, "columns") else None
    return distinct(labels), categories, P.shape[1] if P.ndim == 2 and P.shape[1] > 1 else 2, names


def _taken_in(P: Any, y: Any, weight: Any, number: int, empty: RunningMetrics, classes: Any) -> RunningMetrics:
    with _in_partition(number):
        if weight is not None:
            some = row_weights(weight, len(y)) > 0  # a partition of no weight is none
            P, y, weight = P[some], y[some], weight[some]
        running = deepcopy(empty)
        running.classes = classes
        return running.update(y, P, weight)


@contextmanager
def _in_partition(number: int) -> Iterator[None]:
    """Say in errors which partition they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (Partition {number}.)") from None
