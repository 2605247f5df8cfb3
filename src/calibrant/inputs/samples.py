"""Labels and probabilities as a `Sample`: what every metric is handed.

The contract is that of the calibrators, whose functions do the naming of columns; here probabilities stay unchanged
(no logarithm, no copy of a large table) and plain column numbers as labels take a short cut.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from calibrant.inputs.class_columns import pairs
from calibrant.inputs.label_matrix import check_not_labels
from calibrant.inputs.labels import are_positions, check_labels, encode, is_matrix, name_columns, tell_classes
from calibrant.inputs.observations import check_groups, check_sample_weight, repeated_rows
from calibrant.inputs.predictions import as_matrix, rounding_of, to_probabilities
from calibrant.inputs.words import METRIC, CalibrationWarning, Words
from calibrant.sample import Sample
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, Label

#: Rows that the order of columns is checked on: a wrong order shows in far fewer.
_CHECKED_ROWS = 5000
#: Observations, mean gain and standard errors from which another order is far better. To these errors come those by
#: which the best of k! orders is better by chance.
_FAR_ROWS, _FAR_GAIN, _FAR_ERRORS = 20, 0.05, 5.0
_SECOND = " (a single column is that of the second class)"
#: Classes up to which orders are compared: the work grows with the cube of their number.
_MOST_CLASSES = 2000


def check_sample(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Label] | AnyArray | None = None,
    *,
    groups: object = None,
    blocks: int | None = None,
) -> Sample:
    """Validate labels, probabilities, counts and groups; `classes` names the columns of `y_prob` in their order."""
    if y_true is None:
        raise ValueError("y_true is None: labels are needed.")
    array, names = as_matrix(y_prob, METRIC)
    together = check_groups(groups, blocks, len(array))
    rows, n = None, len(array)
    if is_matrix(y_true):
        check_not_labels(array, y_true, METRIC)
        k = array.shape[1] if array.ndim == 2 and array.shape[1] > 1 else 2
        rows, y_true, sample_weight = repeated_rows(y_true, n, k, sample_weight, classes, METRIC)
        n = len(rows)
    labels, categories = check_labels(y_true, n, METRIC)
    counts = check_sample_weight(sample_weight, n)
    proba = to_probabilities(array, rounding=rounding_of(y_prob), words=METRIC)
    if rows is not None:
        proba, together = proba[rows], None if together is None else together[rows]
    k, order = proba.shape[1], None
    plain = classes is None and names is None and categories is None and labels.dtype.kind in "iu"
    if plain and labels.min() == 0 and labels.max() < k:  # the usual case, in which nothing has to be looked up
        y, named = labels.astype(np.int64, copy=False), np.arange(k)
    else:
        named, order = name_columns(labels, k, classes=classes, names=names, categories=categories, words=METRIC)
        y = encode(labels, named)
    if order is not None:
        proba = np.ascontiguousarray(proba[:, order])
    sample = Sample(proba, y, counts, together, named, rows=rows)
    if classes is None and (wrong := order_in_doubt(sample, names, METRIC)):
        warnings.warn(wrong, CalibrationWarning, stacklevel=4)
    if counts is None or counts.all():
        return sample
    kept = np.flatnonzero(counts)
    return replace(sample.take(kept), rows=kept if rows is None else rows[kept])


def order_in_doubt(sample: Sample, names: Sequence[Label] | None, words: Words) -> str:
    """A message if columns whose names do not tell their classes fit the labels far better in another order.

    Empty if nothing is wrong. Columns are those of the sample, whose classes are in their order; of a single column the
    second class is its own. Columns of an array have no names.
    """
    assert sample.classes is not None
    if names is not None and not are_positions(names) and tell_classes(names, sample.classes):
        return ""
    better = better_order(sample.take(slice(None, None, max(1, sample.n_rows // _CHECKED_ROWS))))
    if better is None:
        return ""
    classes = sample.names
    if names is None or are_positions(names):
        given, fits = (list_names(labels, 10) for labels in (classes, [classes[j] for j in better]))
        return (
            f"The columns of {words.predictions} are read as the classes {given}, but the labels in {words.labels} fit "
            f"them far better as {fits}{_SECOND if len(classes) == 2 else ''}. Pass classes=[...] with the label of "
            "each column, even if the order is right."
        )
    advice = "the label of each column" if len(names) > 1 else "both labels, that of the column last"
    return (
        f"The names of the columns of {words.predictions} ({list_names(names, 10)}) do not show their classes, and the "
        f"labels do not fit their order: {pairs(names, classes)} is far worse than "
        f"{pairs(names, [classes[j] for j in better])}. Pass classes=[...] with {advice}."
    )


def better_order(sample: Sample) -> list[int] | None:
    """The class of each column in an order that makes the labels far more probable than the order given, if any.

    A model that gives all rows too much of one class fits another order better, but not row by row: probabilities must
    also be far better when the mean of each column is taken from them.
    """
    from scipy.sparse import csr_array  # heavy, and not every command needs it

    p, k, count = sample.proba, sample.n_classes, sample.total
    if k > _MOST_CLASSES or sample.units < _FAR_ROWS:
        return None
    place = (sample.y, np.arange(sample.n_rows))
    total = csr_array((sample.each, place), shape=(k, sample.n_rows)) @ p
    own = np.diag(total)[:, None]
    if (total - own).max(axis=1).sum() <= _FAR_GAIN * count:  # no order can be so much better: the usual case
        return None
    from scipy.optimize import linear_sum_assignment

    _, column_of = linear_sum_assignment(-total)
    means = total.sum(axis=0) / count
    errors = math.sqrt(_FAR_ERRORS**2 + 2.0 * math.lgamma(k + 1))
    for values, centred in ((p, False), (p - means, True)):
        gain = values[place[1], column_of[sample.y]] - values[place[1], sample.y]
        mean = float(sample.each @ gain) / count
        spread = math.sqrt(float(sample.sum_variance(gain - mean))) / count
        # Of a rare class, predictions hardly vary: how much is far depends on how much they do.
        size = float(sample.each @ np.abs(gain)) / count if centred else 1.0
        if mean <= max(_FAR_GAIN * size, errors * spread):
            return None
    return np.argsort(column_of).tolist()
