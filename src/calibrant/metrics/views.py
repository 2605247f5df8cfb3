"""Binary views of predictions: pairs of a score and whether what it promised came true.

Calibration of a k-vector is judged through such pairs: the positive class of two (`binary`), the predicted class
(`top-label`), or every class against the rest (`class-wise`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from calibrant.metrics.scalars import Summed
from calibrant.sample import Sample
from calibrant.typing import AnyFloatArray, AnyIntArray, Label

Kind = Literal["auto", "binary", "top-label", "class-wise"]
# Prepared class-wise statistics are kept for reuse up to this many entries (n × k), else made again at each call.
CACHED_ENTRIES = 20_000_000


class View(NamedTuple):
    """Scores in [0, 1] and outcomes, 1.0 where the event happened."""

    score: AnyFloatArray
    hit: AnyFloatArray


def resolve_kind(data: Sample, kind: str) -> str:
    """The kind that "auto" stands for: binary for two classes, else top-label."""
    if kind == "auto":
        return "binary" if data.n_classes == 2 else "top-label"
    if kind not in ("binary", "top-label", "class-wise"):
        raise ValueError(f"kind must be 'auto', 'binary', 'top-label' or 'class-wise', got {kind!r}")
    if kind == "binary" and data.n_classes != 2:
        raise ValueError(f"kind='binary' needs two classes, these predictions have {data.n_classes}")
    return kind


def class_view(data: Sample, column: int) -> View:
    """One class against the rest."""
    score = np.ascontiguousarray(data.proba[:, column], dtype=np.float64)
    return View(score, (data.y == column).astype(np.float64))


def column_of(data: Sample, label: Label) -> int:
    """The column of the class with this label."""
    found = [column for column, name in enumerate(data.names) if name == label]
    if not found:
        raise ValueError(f"no class is labelled {label!r}; the classes are {data.names}")
    return found[0]


def one_against_rest(data: Sample, label: Label) -> Sample:
    """The same rows with two classes: all others, and the class with this label; all classes if it is None."""
    if label is None:
        return data
    column = column_of(data, label)
    score = np.asarray(data.proba[:, column], dtype=np.float64)
    pair = data.with_values(np.column_stack([1.0 - score, score]), logs=False, y=(data.y == column).astype(np.intp))
    return replace(pair, classes=np.array(["rest", label], dtype=object))


def single_view(data: Sample, kind: str) -> View:
    """The view of a kind that has one pair per row."""
    if resolve_kind(data, kind) == "binary":
        return class_view(data, 1)
    return View(data.confidence, (data.top == data.y).astype(np.float64))


class Shown(NamedTuple):
    """The view that a diagram shows, of which kind it is and whose probability is judged; None for top-label."""

    view: View
    kind: str
    label: Any


def shown_view(data: Sample, kind: str, label: Label) -> Shown:
    """The view of a diagram: of a kind that has one, or of the class with this label against the rest."""
    if label is not None:
        return Shown(class_view(data, column_of(data, label)), "class-wise", label)
    resolved = resolve_kind(data, kind)
    if resolved == "class-wise":
        raise ValueError(
            "kind='class-wise' has a diagram per class: call classwise_corp_curves or classwise_reliability_tables, "
            "or give label="
        )
    positive = data.names[1] if resolved == "binary" else None
    return Shown(single_view(data, resolved), resolved, positive)


def mean_of_classes(values: Sequence[float]) -> float:
    return float(np.mean(values))


def view_statistic(
    data: Sample,
    kind: str,
    prepare: Callable[[View], Callable[[AnyFloatArray], object]],
    combine: Callable[[list[Any]], object] = mean_of_classes,
) -> Callable[[AnyFloatArray], Any]:
    """Statistic of the one view, or of all classes' views combined."""
    if resolve_kind(data, kind) != "class-wise":
        return prepare(single_view(data, kind))

    def made() -> Iterator[Callable[[AnyFloatArray], Any]]:
        return (prepare(class_view(data, column)) for column in range(data.n_classes))

    kept = list(made()) if data.n_rows * data.n_classes <= CACHED_ENTRIES else None

    def each_class() -> Iterator[Any]:
        return made() if kept is None else iter(kept)

    first = next(each_class())
    if not isinstance(first, Summed):
        return lambda counts: combine([statistic(counts) for statistic in each_class()])
    return Summed(
        first.form.over_classes(combine),
        lambda counts: np.stack([statistic.sums(counts) for statistic in each_class()]),
        # Classes before cells; where there are replicates of moves, they come first.
        lambda data: np.stack([statistic.spread(data) for statistic in each_class()], axis=-2),
    )


class SortedView(NamedTuple):
    """A view sorted by score, with the position at which each run of equal scores starts."""

    order: AnyIntArray
    score: AnyFloatArray
    hit: AnyFloatArray
    starts: AnyIntArray

    @property
    def ends(self) -> AnyIntArray:
        """The position at which each run ends."""
        return np.append(self.starts[1:], len(self.score)) - 1


def sort_view(view: View) -> SortedView:
    """Sort by score; equal scores form one run, so that results do not depend on the order of the rows."""
    order = np.argsort(view.score, kind="stable")
    score = view.score[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(score)) + 1])
    return SortedView(order, score, view.hit[order], starts)
