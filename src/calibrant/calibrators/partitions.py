"""Fits to Dask arrays and data frames: a survey of the partitions, then rows that stay in them.

Partitions are checked where they are and kept there as log-probabilities if there is a cluster; without one, where all
would end up in this process, they are computed again in every pass.

A pass over the rows is a map and a tree reduction. A partition of a lost worker is computed again; the sums over the
others are kept. The order of additions is fixed by the partitions, so the result does not depend on which worker
computed what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from calibrant.calibrators.batch_fitting import Facts, Findings, facts_of, fit_to_sample
from calibrant.inputs.batches import checksum
from calibrant.inputs.observations import encoded, observations
from calibrant.inputs.predictions import as_matrix, rounding_of, to_log_probabilities
from calibrant.inputs.words import CALIBRATOR
from calibrant.sample import Sample
from calibrant.softmax.rows.row_source import ArrayRows, BlockFunction, Extent, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up, block_rows
from calibrant.text_table import list_names
from calibrant.threads import limit, limited
from calibrant.typing import AnyArray, FloatArray, Labels

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: The sample in this process, where fits start and take curvature from: a share of the rows, at most so many numbers
#: (16 MiB) and at least so many rows, with which steps reduce the error tenfold for 200 coefficients (√(D/m)).
_MOST_NUMBERS, _LEAST_ROWS, _SHARE = 1 << 21, 20_000, 0.02
#: Numbers of the sample (32 MiB) for methods that need their rows in memory.
_MEMORY_NUMBERS = 1 << 22


class Partition(NamedTuple):
    """A checked partition: its rows with labels as given, and what it says of the columns and labels of all.

    Predictions have `n_given` columns, one or one per class, with `names`, if there are any; `categories` are those of
    the labels.
    """

    sample: Sample
    n_given: int
    names: list[object] | None
    categories: AnyArray | None


def fit_partitions(calibrator: Calibrator, X: object, y: object, sample_weight: object) -> None:
    """Fit to a Dask array or data frame whose partitions stay where they are, or to a sample of its rows.

    Labels and weights are in the same partitions if their sizes are not known.
    """
    with limit():
        kept, check = _kept(), dask.delayed(_check, pure=False)
        what = (calibrator.input == "logits", calibrator.renormalize, calibrator.classes)
        parts = kept([check(*piece, number, *what) for number, piece in enumerate(aligned(X, y, sample_weight))])
        facts = dask.compute(*[dask.delayed(_facts, pure=False)(part) for part in parts])
        found, first = Findings(), next((fact for fact in facts if fact is not None), None)
        if first is None:
            raise ValueError("No partition holds a row with a positive weight.")
        for number, fact in enumerate(facts):
            if fact is not None:
                _check_alike(fact[1], first[1], number)
                found.add(fact[0], f"partition {number}")
        extent = found.describe(calibrator, first[1].n_given, first[1].names, first[1].categories)
        classes, order = calibrator.classes_, calibrator._column_order
        sizes = [0 if fact is None else fact[0].n_rows for fact in facts]
        if not hasattr(calibrator, "_fit_rows"):
            drawn = _sample(parts, sizes, _MEMORY_NUMBERS // len(classes))
            fit_to_sample(calibrator, encoded(drawn, classes, order), found.n_rows)
            return
        most = max(_LEAST_ROWS, min(int(_SHARE * found.n_rows), _MOST_NUMBERS // len(classes)))
        sample = ArrayRows(encoded(_sample(parts, sizes, most), classes, order))
        encode_part = dask.delayed(_encoded, pure=False)
        known = [None if fact is None else fact[2] for fact in facts]
        parts = kept([encode_part(part, classes, order, *one) for part, *one in zip(parts, range(len(parts)), known)])
        calibrator._fit_rows(DaskRows(parts, extent, sample))


def _sample(parts: list[Delayed], sizes: list[int], most: int) -> Sample:
    """A uniform sample of at most so many rows, drawn where they are."""
    rng = np.random.default_rng(0)
    counts = sizes if sum(sizes) <= most else rng.multivariate_hypergeometric(sizes, most).tolist()
    seeds = rng.integers(2**31, size=len(counts)).tolist()
    draw = dask.delayed(_draw, pure=False)
    drawn = [draw(part, count, seed) for part, count, seed in zip(parts, counts, seeds, strict=True) if count]
    return Sample.joined(list(dask.compute(*drawn)))


def lazily(predict: Callable[[Any], object], X: Any, k: int) -> Any:
    """A lazy Dask array (n, k) of what `predict` returns for each partition."""
    import dask.array as da

    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1}) if X.ndim > 1 else X[:, None]
        dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64
        meta = np.empty((0, k), dtype=dtype)
        return X.map_blocks(_predicted, predict, meta, dtype=dtype, chunks=(X.chunks[0], (k,)), meta=meta)
    part_of = dask.delayed(_predicted)
    none = np.empty((0, k))
    parts = [da.from_delayed(part_of(p, predict, none), (np.nan, k), dtype=np.float64) for p in X.to_delayed()]
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)


def _predicted(part: Any, predict: Callable[[Any], object], none: FloatArray) -> object:
    return predict(part) if len(part) else none


def _kept() -> Callable[[list[Delayed]], list[Delayed]]:
    """Keeps delayed partitions on the workers of a cluster, if there is one that computations go to."""
    if dask.config.get("scheduler", None) in ("synchronous", "sync", "single-threaded", "threads", "processes"):
        return list
    try:
        from distributed import default_client

        default_client()
    except (ImportError, ValueError):
        return list
    return lambda parts: list(dask.persist(*parts))


def aligned(X: Any, y: object, weight: object) -> list[tuple[object, object, object]]:
    """Partitions of predictions, labels (`None`: none) and weights that belong together, as delayed objects."""
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1}) if X.ndim > 1 else X
        sizes = X.chunks[0]
        parts = list(X.to_delayed().ravel())
    else:
        parts = X.to_delayed()
        sizes = (np.nan,) * len(parts)
    return list(zip(parts, _split(y, sizes, parts, "y"), _split(weight, sizes, parts, "sample_weight"), strict=True))


def _split(values: Any, sizes: Sequence[float], parts: list[Delayed], name: str) -> list[object]:
    """Labels or weights in the partitions of the predictions."""
    if values is None:
        return [None] * len(parts)
    known = not any(np.isnan(size) for size in sizes)
    if hasattr(values, "rechunk"):
        values = values.reshape(-1) if values.ndim > 1 and values.shape[1] == 1 else values
        found = values.chunks[0]
        if known and not any(np.isnan(size) for size in found):
            if sum(found) != sum(sizes):
                raise ValueError(f"{name} has {sum(found)} rows, X has {sum(sizes)}.")
            values = values.rechunk({0: tuple(sizes), **({1: -1} if values.ndim > 1 else {})})
        pieces = list(values.to_delayed().ravel())
    elif hasattr(values, "to_delayed"):
        pieces = values.to_delayed()
    else:
        if not known:
            sizes = dask.compute(*[dask.delayed(len)(part) for part in parts])
        if len(values) != sum(sizes):
            raise ValueError(f"{name} has {len(values)} rows, X has {sum(sizes)}.")
        values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        pieces = np.split(values, np.cumsum(sizes)[:-1].astype(int))
    if len(pieces) != len(parts):
        raise ValueError(
            f"{name} has {len(pieces)} partitions and X {len(parts)}, and their sizes are unknown: call "
            "compute_chunk_sizes() on both, or give them the same partitions."
        )
    return pieces


def _check(
    X: Any, y: object, weight: object, number: int, logits: bool, renormalize: bool, classes: Labels
) -> Partition:
    """A partition after the checks that all predictions and labels get."""
    if len(X) == 0:
        return Partition(Sample(np.empty((0, 1)), np.empty(0, dtype=np.int64), logs=True), 0, None, None)
    words = CALIBRATOR._replace(
        predictions=f"X (partition {number})",
        labels=f"y (partition {number})",
        weights=f"sample_weight (partition {number})",
    )
    array, names = as_matrix(X, words)
    rows, labels, counts, categories = observations(y, array.shape, weight, classes, words)
    x = to_log_probabilities(array, logits=logits, renormalize=renormalize, rounding=rounding_of(X), words=words)
    n_given = 1 if array.ndim == 1 else array.shape[1]
    return Partition(Sample(x if rows is None else x[rows], labels, counts, logs=True), n_given, names, categories)


def _facts(part: Partition) -> tuple[Facts, Partition, int] | None:
    """What is known of a partition, its first row with what it says of all, its checksum; nothing if it is empty."""
    sample = part.sample
    return (facts_of(sample), part._replace(sample=sample.take(slice(1))), checksum(sample)) if sample.n_rows else None


def _check_alike(part: Partition, first: Partition, number: int) -> None:
    """Raise an error unless a partition has columns and labels like those of the first one."""
    if (part.n_given, part.names) != (first.n_given, first.names):
        raise ValueError(
            f"Partition {number} has {part.n_given} columns{_called(part.names)}, the first one "
            f"{first.n_given}{_called(first.names)}."
        )
    kind, first_kind = part.sample.y.dtype.kind, first.sample.y.dtype.kind
    if kind != first_kind and {kind, first_kind} - set("iu"):
        raise ValueError(
            f"The labels of partition {number} have another type than those of the first one (NumPy's kinds {kind!r} "
            f"and {first_kind!r}): convert them to one type."
        )


def _called(names: list[object] | None) -> str:
    return "" if names is None else f" called {list_names(names)}"


def _draw(part: Partition, count: int, seed: int) -> Sample:
    sample = part[0]
    return sample.take(np.sort(np.random.default_rng(seed).choice(sample.n_rows, count, replace=False)))


def _encoded(
    part: Partition,
    classes: AnyArray,
    order: NDArray[np.intp] | None,
    number: int,
    known: int | None,
) -> Sample:
    """A partition as fits need it; an error if it was computed again and has changed."""
    sample = part[0]
    if (checksum(sample) if sample.n_rows else None) != known:
        raise ValueError(
            f"Partition {number} has changed since it was first computed. Partitions are computed again in every pass, "
            "or when a worker is lost: fix the seed and the order of the rows, or persist the collection."
        )
    if known is None:
        return Sample(np.empty((0, len(classes))), np.empty(0, dtype=np.int64), logs=True)
    return encoded(sample, classes, order)


#: Sums that one task adds up: with eight, a thousand partitions take four levels of tasks.
_FAN_IN = 8


class DaskRows(SummedRows):
    """Labelled log-probabilities in partitions, each a delayed `Sample`; some may be empty."""

    def __init__(self, partitions: Sequence[Delayed], extent: Extent, sample: ArrayRows) -> None:
        super().__init__(extent, sample)
        self._partitions = partitions

    def sums(self, function: BlockFunction) -> RowSums:
        part = dask.delayed(_sums_of_partition, pure=False)
        return tree_sum([part(block, function) for block in self._partitions])


def tree_sum(parts: list[Delayed]) -> RowSums:
    """Lists of numbers and arrays added up entry by entry where they are, see `add_up`."""
    add = dask.delayed(add_up, pure=False)
    while len(parts) > 1:
        parts = [add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    (total,) = dask.compute(parts[0])
    if not total:
        raise ValueError("No partition holds a row.")
    return list(total)


@limited
def _sums_of_partition(block: Sample, function: BlockFunction) -> RowSums:
    return add_up(function(piece) for piece in block.pieces(block_rows(block.n_classes)))
