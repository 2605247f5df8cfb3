"""The input contract for many labels: independent probabilities (n, L) with what is true of each row.

What is true is a matrix of zeros and ones, dense or sparse, with the columns of the predictions, or a list of labels
for each row. Columns that have names are matched by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.inputs.class_columns import classes_of_names, label_text
from calibrant.inputs.labels import in_order, is_matrix
from calibrant.inputs.observations import check_groups, check_sample_weight
from calibrant.inputs.predictions import label_predictions, to_numpy
from calibrant.inputs.rows import LEAST_ROWS, ROUNDING
from calibrant.inputs.words import CALIBRATOR, CalibrationWarning, Words
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, FloatArray, IntArray, Label, Labels

#: If more than this share of rows do not sum to one, columns are not classes of which one is true.
_MANY = 0.5
#: Cells of all observations that are held in memory at once, about 80 MB with their labels, counts and groups.
_MOST_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class LabelMatrix:
    off: FloatArray
    on: FloatArray
    y: IntArray
    rows: Sample

    @property
    def labels(self) -> list[Label]:
        """The name of each column."""
        return self.rows.names

    def take(self, rows: Any) -> LabelMatrix:
        return LabelMatrix(self.off[rows], self.on[rows], self.y[rows], self.rows.take(rows))

    def label(self, j: int) -> Sample:
        """One label as a sample of two classes."""
        return self._two(np.s_[:, j], self.rows.counts, self.rows.groups)

    def pooled(self) -> Sample:
        """All labels as one sample of two classes, in which the cells of an observation belong together.

        A row that counts for several observations is there several times, the last of them for the rest of a count
        that is no whole number; of very many observations those of one row belong together as well.
        """
        n_labels, counts = self.on.shape[1], self.rows.counts
        copies = np.ceil(self.rows.each).clip(1.0, 1e18).astype(np.int64)
        if counts is None or self.rows.groups is not None or copies.sum() * n_labels > _MOST_CELLS:
            each = None if counts is None else np.repeat(counts, n_labels)
            return self._two(np.s_[:, :], each, np.repeat(self.rows.group_numbers, n_labels))
        rows = np.repeat(np.arange(len(self.on)), copies)
        share = np.ones(len(rows))
        share[np.cumsum(copies) - 1] = counts - (copies - 1)
        return self._two(rows, np.repeat(share, n_labels), np.repeat(np.arange(len(rows)), n_labels))

    def _two(self, part: Any, counts: Any, groups: Any) -> Sample:
        values = np.column_stack([self.off[part].ravel(), self.on[part].ravel()])
        return Sample(values, self.y[part].ravel(), counts, groups, np.arange(2))


def label_matrix(
    y: object,
    X: object,
    sample_weight: object = None,
    labels: Labels | None = None,
    *,
    groups: object = None,
    blocks: int | None = None,
    logits: bool = False,
    words: Words = CALIBRATOR,
) -> LabelMatrix:
    """Validate predictions of many labels with what is true; `labels` names the columns of the predictions."""
    off, on, names = label_predictions(X, logits=logits, words=words)
    n, n_labels = on.shape
    truth, found = _truth(y, n, n_labels, names, labels, words)
    together = check_groups(groups, blocks, n)
    counts = check_sample_weight(sample_weight, n)
    frequency = truth.sum(axis=0) if counts is None else counts @ truth
    rarest = np.where(truth == 1, frequency, np.inf).argmin(axis=1)
    # Labels are numbered by how often they are true, so that folds do not depend on the order of columns.
    code = np.where(truth.any(axis=1), frequency.argsort(kind="stable").argsort(kind="stable")[rarest], n_labels)
    data = LabelMatrix(off, on, truth, Sample(on, code, counts, together, _as_classes(found)))
    if counts is None or counts.all():
        return data
    return data.take(np.flatnonzero(counts))


def check_not_labels(array: AnyArray, y: Any, words: Words = CALIBRATOR, *, logits: bool = False) -> None:
    """Refuse independent labels where one of several classes is true: rows far from one with zeros and ones.

    Logits of labels cannot be told from those of classes, nor zeros and ones from votes: where rows have none and
    several ones there is a warning.
    """
    if not is_matrix(y) or array.ndim != 2:
        return
    truth = to_numpy(y.toarray() if hasattr(y, "tocsr") else y, words.labels)
    if truth.dtype.kind not in "fiub" or not np.isin(truth, (0, 1)).all():
        return
    ones = truth.sum(axis=1)
    if logits:
        if len(ones) >= LEAST_ROWS and (ones == 0).any() and (ones > 1).any():
            warnings.warn(
                f"{words.labels} is a matrix of zeros and ones with none or several ones in a row, read as votes for "
                f"classes. If any number of labels may be true in a row, {words.many}.",
                CalibrationWarning,
                stacklevel=4,
            )
        return
    inside = array.min() >= 0.0 and array.max() <= 1.0 + ROUNDING
    if inside and (ones != 1).any() and float((np.abs(array.sum(axis=1) - 1.0) > ROUNDING).mean()) > _MANY:
        raise ValueError(
            f"The rows of {words.predictions} do not sum to 1, and {words.labels} is a matrix of zeros and ones with "
            "none or several ones in a row: these are labels, any number of which may be true, not classes, exactly "
            f"one of which is. {words.many[0].upper()}{words.many[1:]}."
        )


def _truth(
    y: Any, n: int, n_labels: int, names: list[Label] | None, labels: Labels | None, words: Words
) -> tuple[IntArray, list[Label]]:
    """The matrix of zeros and ones in the order of the predictions' columns, and the names of these."""
    named = None if labels is None else list(labels)
    if named is not None and (len(named) != n_labels or len(set(named)) < n_labels):
        raise ValueError(
            f"labels names {len(named)} columns ({list_names(named, 5)}); {words.predictions} has {n_labels}, and each "
            "needs a name of its own."
        )
    if y is None:
        raise ValueError(f"{words.labels} is None: the true labels of each row are needed.")
    sets = None if hasattr(y, "tocsr") or hasattr(y, "columns") else _label_lists(y, n_labels)
    if sets is not None:
        return _of_lists(sets, n, n_labels, names, named, words)
    columns = list(y.columns) if hasattr(y, "columns") else None
    truth = to_numpy(y.toarray() if hasattr(y, "tocsr") else y, words.labels)
    if truth.ndim != 2 or len(truth) != n or truth.shape[1] != n_labels:
        raise ValueError(
            f"{words.labels} has shape {truth.shape}, expected ({n}, {n_labels}): a row of zeros and ones for each row "
            f"of {words.predictions}, one column per label, or a list of labels for each row.{words.order}"
        )
    numbers = truth if truth.dtype.kind in "fiub" else np.full(truth.shape, np.nan)
    wrong = ~np.isin(numbers, (0, 1))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        raise ValueError(
            f"{words.labels} holds {truth[row, column]!s:.40} at row {row}, column {column}: 1 is expected where a "
            "label is true of a row, 0 where it is not. Leave out rows where that is not known."
        )
    found: list[Label] = columns if columns is not None else names if names is not None else list(range(n_labels))
    if columns is not None:
        over = named if named is not None else names
        found = columns if over is None else _matched(over, columns, words)
        truth = truth[:, [columns.index(label) for label in found]]
    return truth.astype(np.int64), found if named is None else named


def _label_lists(y: Any, n_labels: int) -> list[Sequence[object]] | None:
    """The labels of each row, if `y` is a list of lists or sets of them and not a matrix."""
    if getattr(y, "ndim", 1) != 1:
        return None
    rows = list(y)
    if not all(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in rows):
        return None
    numeric = all(isinstance(item, (int, float, np.generic)) for row in rows for item in row)
    wide = all(len(row) == n_labels for row in rows) or any(len(set(row)) < len(row) for row in rows)
    if numeric and wide and not any(isinstance(row, (set, frozenset)) for row in rows):
        return None  # a matrix: lists of labels neither name all of them in every row nor one of them twice
    return [list(row) for row in rows]


def _of_lists(
    sets: Sequence[Sequence[object]],
    n: int,
    n_labels: int,
    names: list[Label] | None,
    named: list[Label] | None,
    words: Words,
) -> tuple[IntArray, list[Label]]:
    if len(sets) != n:
        raise ValueError(f"{words.labels} has {len(sets)} lists of labels, {words.predictions} has {n} rows.")
    seen = in_order({item for row in sets for item in row})
    if named is None and names is not None:
        named = (classes_of_names([str(name) for name in names], seen) if seen else None) or names
    found = seen if named is None else named
    place = {label: j for j, label in enumerate(found)}
    unknown = [label for label in seen if label not in place]
    if unknown or len(found) != n_labels:
        raise ValueError(
            f"{words.labels} names {len(seen)} labels ({list_names(seen, 5)}), and {words.predictions} has {n_labels} "
            "columns, but nothing shows which label each column is for. Pass labels=[...] with the label of each "
            "column, or a data frame whose columns are called like the labels."
        )
    truth = np.zeros((n, n_labels), dtype=np.int64)
    for row, items in enumerate(sets):
        truth[row, [place[item] for item in items]] = 1
    return truth, found


def _matched(names: Sequence[Label], columns: list[Label], words: Words) -> list[Label]:
    """The label of each column of the predictions, called `names`, among the columns of what is true."""
    if names == columns:
        return columns
    by_text: dict[Label, Label] = {label_text(column): column for column in columns}
    found = classes_of_names([str(name) for name in names], list(by_text))
    if found is None or set(found) != set(by_text):
        raise ValueError(
            f"The columns of {words.predictions} ({list_names(names, 5)}) and of {words.labels} "
            f"({list_names(columns, 5)}) have names that do not match: choose matching names, such as sports and "
            "p_sports, or pass arrays with their columns in the same order."
        )
    return [by_text[text] for text in found]


def _as_classes(found: Sequence[Label]) -> AnyArray:
    array = np.array(found)
    plain = array.ndim == 1 and array.tolist() == found
    return array if plain else np.fromiter(found, dtype=object, count=len(found))


def only_rows(data: LabelMatrix, most: int, seed: int) -> LabelMatrix:
    """At most so many rows, drawn at random; groups stay whole."""
    rows = data.rows
    if rows.n_rows <= most:
        return data
    numbered = replace(rows, rows=np.arange(rows.n_rows)).thinned(most, np.random.RandomState(seed))
    return data.take(numbered.rows)
