"""Fits to Dask arrays and data frames: a survey of the partitions, then rows that stay in them.

Partitions are checked where they are and kept there as log-probabilities if there is a cluster; without one, where all
would end up in this process, they are made again in every pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.labels import check_labels, distinct, encode, name_columns, warn_of_missing_information
from calibrant.inputs.predictions import as_matrix, rounding_of, to_log_probabilities
from calibrant.inputs.weights import check_counts, row_weights
from calibrant.inputs.words import CALIBRATOR
from calibrant.softmax.rows.dask import DaskRows
from calibrant.softmax.rows.memory import ArrayRows
from calibrant.softmax.rows.sums import Block
from calibrant.threads import limit
from calibrant.typing import FloatArray

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

#: Rows of the sample from which fits start and take their curvature: at most, at least, and as a share of all.
_MOST_NUMBERS, _LEAST_ROWS, _SHARE = 1 << 21, 20_000, 0.02
#: Numbers of the sample that a method is fitted to which needs its rows at hand.
_MEMORY_NUMBERS = 1 << 22


class Checked(NamedTuple):
    """A checked partition: log-probabilities (m, columns), labels as they are, positive weights (`None`: all one)."""

    x: FloatArray
    y: NDArray[Any]
    weight: FloatArray | None


class Facts(NamedTuple):
    """What is known of a partition without looking at its rows again."""

    n_rows: int
    labels: NDArray[Any] | None
    counts: FloatArray | None
    categories: NDArray[Any] | None
    names: list[Any] | None
    n_given: int
    first: FloatArray | None
    all_equal: bool


class PartitionSurvey:
    """What a first pass over partitions finds out; `rows` makes a home of them.

    Parameters
    ----------
    X : dask array or data frame
        Predictions.
    y, sample_weight : dask array or series, or array-like
        Labels and weights, in the same partitions if their sizes are not known.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any, *, logits: bool, renormalize: bool) -> None:
        pieces = aligned(X, y, sample_weight)
        check = dask.delayed(_check, pure=False)
        parts = [check(*piece, number, logits, renormalize) for number, piece in enumerate(pieces)]
        if _has_cluster():
            parts = list(dask.persist(*parts))
        self._parts = parts
        all_facts = dask.compute(*[dask.delayed(_facts, pure=False)(part) for part in parts])
        facts = [fact for fact in all_facts if fact.labels is not None]
        if not facts:
            raise ValueError("No partition holds a row with a positive weight.")
        self._sizes = [fact.n_rows for fact in all_facts]
        self._counts: dict[Any, float] = {}
        for fact in facts:
            for label, count in zip(fact.labels.tolist(), fact.counts.tolist(), strict=True):
                self._counts[label] = self._counts.get(label, 0.0) + count
        self.n_rows = sum(self._sizes)
        self.total_weight = float(sum(self._counts.values()))
        if sample_weight is not None:
            check_counts(self.total_weight, self.n_rows)
        self.labels = distinct(np.concatenate([fact.labels for fact in facts]))
        self.categories, self.names, self.n_given = facts[0].categories, facts[0].names, facts[0].n_given
        self.all_equal = all(fact.all_equal and np.array_equal(fact.first, facts[0].first) for fact in facts)
        self.n_columns = len(facts[0].first)

    def class_weights(self, classes: NDArray[Any]) -> FloatArray:
        """The weight of the rows with each label."""
        return np.array([self._counts.get(label, 0.0) for label in classes.tolist()])

    def sample(self, most: int, seed: int) -> Checked:
        """A uniform sample of so many rows, or all, drawn where they are."""
        rng = np.random.default_rng(seed)
        counts = self._sizes
        if self.n_rows > most:
            counts = rng.multivariate_hypergeometric(self._sizes, most).tolist()
        draw = dask.delayed(_draw, pure=False)
        seeds = rng.integers(2**31, size=len(counts)).tolist()
        drawn = [draw(part, count, s) for part, count, s in zip(self._parts, counts, seeds, strict=True) if count]
        found = dask.compute(*drawn)
        weights = [np.ones(len(part.y)) if part.weight is None else part.weight for part in found]
        weight = np.concatenate(weights)
        return Checked(
            np.concatenate([part.x for part in found]),
            np.concatenate([part.y for part in found]),
            None if bool(np.all(weight == 1.0)) else weight,
        )

    def in_memory(self, classes: NDArray[Any], order: NDArray[np.intp] | None) -> Block:
        """A uniform sample of the rows, all if they are few: for methods that need rows at hand."""
        return _encoded(self.sample(_MEMORY_NUMBERS // len(classes), 0), classes, order)

    def rows(self, classes: NDArray[Any], order: NDArray[np.intp] | None, seed: int = 0) -> DaskRows:
        """The rows with column numbers for labels and columns in the order of the classes."""
        most = max(_LEAST_ROWS, min(int(_SHARE * self.n_rows), _MOST_NUMBERS // len(classes)))
        sample = _encoded(self.sample(most, seed), classes, order)
        encode_part = dask.delayed(_encoded, pure=False)
        parts = [encode_part(part, classes, order) for part in self._parts]
        if _has_cluster():
            parts = list(dask.persist(*parts))
            self._parts = []  # what was only on the way need not be kept
        return DaskRows(
            parts,
            n_rows=self.n_rows,
            total_weight=self.total_weight,
            class_weights=self.class_weights(classes),
            sample=ArrayRows(*sample),
        )


def fit_partitions(calibrator: Calibrator, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit to a Dask array or data frame whose partitions stay where they are, or to a sample of its rows."""
    with limit():
        survey = PartitionSurvey(
            X, y, sample_weight, logits=calibrator.input == "logits", renormalize=calibrator.renormalize
        )
        calibrator.n_features_in_ = survey.n_given
        calibrator._set_names(survey.names)
        classes, order = name_columns(
            survey.labels,
            survey.n_columns,
            classes=calibrator.classes,
            names=survey.names,
            categories=survey.categories,
        )
        calibrator.classes_, calibrator._column_order = classes, order
        calibrator.class_counts_ = survey.class_weights(classes)
        only = survey.labels[0] if len(survey.labels) == 1 else None
        warn_of_missing_information(survey.n_rows, only, survey.all_equal)
        if hasattr(calibrator, "_fit_rows"):
            calibrator._fit_rows(survey.rows(classes, order))
        else:
            calibrator._fit(*survey.in_memory(classes, order))


def lazily(predict: Callable[[Any], Any], X: Any, k: int) -> Any:
    """A Dask array (n, k) of what `predict` makes of each partition, when it is asked for."""
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


def _predicted(part: Any, predict: Callable[[Any], Any], none: FloatArray) -> Any:
    return predict(part) if len(part) else none


def _has_cluster() -> bool:
    """Whether computations go to workers, where partitions can be kept."""
    if dask.config.get("scheduler", None) in ("synchronous", "sync", "single-threaded", "threads", "processes"):
        return False
    try:
        from distributed import default_client

        default_client()
    except (ImportError, ValueError):
        return False
    return True


def aligned(X: Any, y: Any, weight: Any) -> list[tuple[Any, Any, Any]]:
    """Partitions of predictions, labels (`None`: none) and weights that belong together, as delayed objects."""
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1}) if X.ndim > 1 else X
        sizes = X.chunks[0]
        parts = list(X.to_delayed().ravel())
    else:
        parts = X.to_delayed()
        sizes = (np.nan,) * len(parts)
    return list(zip(parts, _split(y, sizes, parts, "y"), _split(weight, sizes, parts, "sample_weight"), strict=True))


def _split(values: Any, sizes: Any, parts: list[Any], name: str) -> list[Any]:
    """Labels or weights in the partitions of the predictions."""
    if values is None:
        return [None] * len(parts)
    known = not any(np.isnan(size) for size in sizes)
    if hasattr(values, "rechunk"):
        values = values.reshape(-1) if values.ndim > 1 else values
        found = values.chunks[0]
        if known and not any(np.isnan(size) for size in found):
            if sum(found) != sum(sizes):
                raise ValueError(f"{name} has {sum(found)} rows, X has {sum(sizes)}.")
            values = values.rechunk((tuple(sizes),))
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
            f"{name} has {len(pieces)} partitions and X {len(parts)}, of sizes that are not known: call "
            "compute_chunk_sizes() on both, or give them the same partitions."
        )
    return pieces


def _check(X: Any, y: Any, weight: Any, number: int, logits: bool, renormalize: bool) -> tuple[Checked, Any]:
    """A partition as the input contract wants it, and what else it says of all."""
    words = CALIBRATOR._replace(
        predictions=f"X (partition {number})", labels=f"y (partition {number})", order=CALIBRATOR.order
    )
    if len(X) == 0:
        return Checked(np.empty((0, 1)), np.empty(0), None), None
    array, names = as_matrix(X, words)
    labels, categories = check_labels(y, len(array), words)
    w = None if weight is None else row_weights(weight, len(array))
    x = to_log_probabilities(array, logits=logits, renormalize=renormalize, rounding=rounding_of(X), words=words)
    n_given = 1 if array.ndim == 1 else array.shape[1]
    if w is not None:
        present = w > 0.0
        x, labels, w = x[present], labels[present], w[present]
        w = None if bool(np.all(w == 1.0)) else w
    return Checked(x, labels, w), (categories, None if n_given == 1 else names, n_given)


def _facts(part: tuple[Checked, Any]) -> Facts:
    (x, labels, weight), about = part
    if not len(labels):
        return Facts(0, None, None, None, None, 0, None, True)
    seen = distinct(labels)
    counts = np.bincount(encode(labels, seen), weight, minlength=len(seen)).astype(np.float64)
    categories, names, n_given = about
    first = x[0].copy()
    return Facts(len(labels), seen, counts, categories, names, n_given, first, bool((x == first).all()))


def _draw(part: tuple[Checked, Any], count: int, seed: int) -> Checked:
    (x, labels, weight), _ = part
    rows = np.sort(np.random.default_rng(seed).choice(len(labels), count, replace=False))
    return Checked(x[rows], labels[rows], None if weight is None else weight[rows])


def _encoded(part: Any, classes: NDArray[Any], order: NDArray[np.intp] | None) -> Block:
    x, labels, weight = part if isinstance(part, Checked) else part[0]
    if not len(labels):
        return Block(np.empty((0, len(classes))), np.empty(0, dtype=np.int64), None)
    return Block(x if order is None else np.ascontiguousarray(x[:, order]), encode(labels, classes), weight)
