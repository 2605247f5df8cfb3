"""The input contract for labels: which column stands for which label.

Labels of any sortable type are turned into column numbers. Columns are named by `classes=`, by the column names of
a data frame, by the categories of a pandas categorical, or by the sorted labels themselves, in that order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.class_columns import (
    are_numbered,
    class_of_single,
    classes_of_names,
    columns_of_classes,
    number_positions,
    speaks_of_an_event,
)
from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.rows import first_true
from calibrant.inputs.words import (
    CALIBRATOR,
    CalibrationWarning,
    ClassOrderWarning,
    RequestError,
    UnknownLabelError,
    Words,
)
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, Label, Labels


def warn_of_missing_information(n: int, only_label: Label, all_equal: bool) -> None:
    """Warn if `n` rows have the same label, `only_label`, or the same prediction."""
    if only_label is not None:
        label = only_label.item() if isinstance(only_label, np.generic) else only_label
        rows = "The only calibration row has" if n == 1 else f"All {n} calibration rows have"
        message = f"{rows} the label {label!r}: nothing can be learned about the other classes."
    elif all_equal:
        message = f"All {n} calibration rows hold the same prediction: nothing can be learned about others."
    else:
        return
    warnings.warn(message, CalibrationWarning, stacklevel=4)


def is_matrix(y: object) -> bool:
    """Whether labels are a matrix with more than one column."""
    if isinstance(y, (list, tuple)):
        return len(y) > 0 and isinstance(y[0], (list, tuple, np.ndarray)) and len(y[0]) > 1 and np.ndim(y) == 2
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def check_labels(
    y: object, n: int, words: Words = CALIBRATOR, *, first_row: int = 0
) -> tuple[AnyArray, AnyArray | None]:
    """Labels as a flat array, and the categories if `y` is a pandas categorical; errors count from `first_row`."""
    name = words.labels
    if y is None:
        raise ValueError(f"This calibrator requires y to be passed, but the target {name} is None.")
    categories = getattr(getattr(y, "cat", y), "categories", None)
    labels = to_numpy(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = f"A column-vector {name} was passed when a 1d array was expected."
        from sklearn.exceptions import DataConversionWarning  # heavy, and nothing else here needs it

        warnings.warn(message, DataConversionWarning, stacklevel=4)
        labels = labels.ravel()
    if labels.ndim != 1:
        raise ValueError(
            f"{name} should be a 1d array of labels, got an array of shape {labels.shape} instead. "
            f"One-hot labels: pass {name}.argmax(axis=1).{words.order}"
        )
    if labels.shape[0] != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {words.predictions} has {n} rows, {name} has "
            f"{labels.shape[0]}."
        )
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} holds complex numbers, which cannot be sorted.")
    if (row := first_true(missing_labels(labels))) is not None:
        missing = labels[row].item() if labels.dtype.kind == "f" else labels[row]
        raise ValueError(
            f"Input {name} contains NaN, infinity or a missing label: {missing!r} at row {first_row + row}."
        )
    if labels.dtype.kind == "f":
        _check_whole(labels, words, first_row)
    elif labels.dtype.kind == "O":
        labels = _of_one_type(labels, words)
    return labels, None if categories is None else to_numpy(categories)


def missing_labels(labels: AnyArray) -> NDArray[np.bool_]:
    """Which labels are missing: NaN, infinity, NaT, None and all that does not equal itself."""
    if labels.dtype.kind == "f":
        return ~np.isfinite(labels)
    if labels.dtype.kind in "mM":
        return np.isnat(labels)
    if labels.dtype.kind == "O":
        return np.array([_is_missing(label) for label in _plain(labels)], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _is_missing(label: Label) -> bool:
    """A missing value equals nothing: it compares as false, as missing, or not at all, but never as true."""
    same = label == label
    return label is None or not (isinstance(same, (bool, np.bool_)) and same)


def _check_whole(labels: AnyArray, words: Words, first_row: int = 0) -> None:
    """Floating-point labels must be whole numbers, small enough to be exact."""
    if (row := first_true(labels != np.floor(labels))) is not None:
        raise ValueError(
            f"Unknown label type: continuous. {words.labels} holds {labels[row]!r} at row {first_row + row}; "
            "labels are classes, not measurements. Convert them to integers or strings if they are meant as classes."
            + words.order
        )
    if (row := first_true(np.abs(labels) >= 2.0 ** (np.finfo(labels.dtype).nmant + 1))) is not None:
        raise ValueError(
            f"Unknown label type: {words.labels} holds {labels[row]!r} at row {first_row + row}, a floating-point "
            "number too large to be distinguished from its neighbours. Pass labels as strings, or as an array of "
            "integers."
        )


def _plain(labels: AnyArray) -> list[Label]:
    """Labels as Python objects; NumPy's dates, which it would turn into numbers, as they are."""
    if labels.dtype.kind in "mM":
        return list(labels)
    numpy_only = (np.datetime64, np.timedelta64)
    return [
        label.item() if isinstance(label, np.generic) and not isinstance(label, numpy_only) else label
        for label in labels.tolist()
    ]


def _of_one_type(labels: AnyArray, words: Words) -> AnyArray:
    """Objects of one plain type as an array of that type; other objects of one type that can be put in order."""
    plain = _plain(labels)
    types = {type(label) for label in plain}
    if len(types) > 1:
        found = ", ".join(sorted(kind.__name__ for kind in types))
        raise ValueError(
            f"Unknown label type: {words.labels} mixes labels of the types {found}, which cannot be sorted. Make them "
            f"all of one type, such as str.{words.order}"
        )
    if types <= {bool, int, float, np.datetime64, np.timedelta64}:
        array = np.array(plain)
        # Integers beyond 64 bits stay objects: as floating-point numbers they would merge.
        if array.dtype.kind == "O" or (array.dtype.kind == "f" and types == {int}):
            return np.array(plain, dtype=object)
        if array.dtype.kind == "f":
            _check_whole(array, words)
        return array
    try:
        in_order(set(plain))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Unknown label type: {words.labels} holds {plain[0]!r} of type {type(plain[0]).__name__}; such labels "
            f"cannot be sorted or told apart ({error}). Pass strings or integers.{words.order}"
        ) from None
    return labels


def in_order(labels: Iterable[Any]) -> list[Label]:
    """Labels sorted; members of an enumeration that do not compare, in the order of their definition."""
    labels = list(labels)
    try:
        return sorted(labels)
    except TypeError:
        if not isinstance(labels[0], Enum):
            raise
        return sorted(labels, key=list(type(labels[0])).index)


def column_numbers(y: object, n_rows: int, n_classes: int, words: Words = CALIBRATOR) -> NDArray[np.int64]:
    """Labels that are the column numbers 0..k-1 of the classes, as int64."""
    labels = to_numpy(y, words.labels)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (n_rows,):
        raise ValueError(f"{words.labels} has shape {labels.shape}, expected ({n_rows},): one label per row.")
    if labels.dtype.kind not in "iubf":
        raise ValueError(f"{words.labels}: expected the column numbers of the classes, found {labels.dtype}.")
    inside = (labels >= 0) & (labels < n_classes) & (labels == np.floor(labels))  # false for NaN
    if (row := first_true(~inside)) is not None:
        raise ValueError(f"{words.labels} holds {labels[row]!s} at row {row}, which is not in 0..{n_classes - 1}.")
    return labels.astype(np.int64)


def name_columns(
    labels: AnyArray,
    n_columns: int,
    *,
    classes: Labels | None = None,
    names: Sequence[Label] | None = None,
    categories: AnyArray | None = None,
    words: Words = CALIBRATOR,
) -> tuple[AnyArray, NDArray[np.intp] | None]:
    """The label of each class, and the column of the input that holds it (`None`: in the same order).

    A single column, of one name, is that of the second of two classes: of the class it is named after, if any.
    """
    seen = distinct(labels)
    if classes is not None:
        columns = to_numpy(classes, "classes")
        if labels.dtype.kind in "mM":  # the same unit of time
            columns = columns.astype(labels.dtype)
        elif columns.ndim == 1 and columns.dtype.kind == "f" and labels.dtype.kind == "O":
            columns = np.array(list(classes), dtype=object)  # integers beyond 64 bits, which NumPy made inexact
        named = {label for label in _plain(columns) if not _is_missing(label)} if columns.ndim == 1 else ()
        if columns.shape != (n_columns,) or len(named) != n_columns:
            raise ValueError(
                f"classes={classes!r:.200} must name each of the {n_columns} columns of {words.predictions} once."
            )
        unknown = [label for label in _plain(seen) if label not in named]
        if unknown:
            raise ValueError(
                f"{words.labels} holds the label {unknown[0]!r}, which classes= does not name: {_plain(columns)}."
            )
        return columns, None if names is None else order_of_names(columns, names)
    found = None if names is None else _read_names(seen, names, words)
    if found is not None and len(found) == n_columns:
        array = _as_array(found, seen)
        if len(names or ()) == 1:
            return array, None
        ordered = distinct(array)
        order = np.array([found.index(label) for label in _plain(ordered)], dtype=np.intp)
        return ordered, None if np.array_equal(order, np.arange(n_columns)) else order
    if categories is not None and len(categories) == n_columns and set(_plain(seen)) <= set(_plain(categories)):
        return distinct(categories), None
    return _classes_from_labels(seen, n_columns, words), None


def order_of_names(classes: AnyArray, names: Sequence[Label]) -> NDArray[np.intp] | None:
    """The column of each class by its name; `None` if names are positions, tell nothing, or are in order already."""
    order = columns_of_classes(classes, names)
    return None if order is None or np.array_equal(order, np.arange(len(order))) else order


def are_positions(names: Sequence[Label]) -> bool:
    """Whether these are the default names of a data frame's columns: 0, 1, 2 and so on."""
    return names == list(range(len(names)))


def tell_classes(names: Sequence[Label], classes: AnyArray) -> bool:
    """Whether the names of columns tell which class each stands for.

    Numbers and truth values have a second one by convention, so that the name of a single column need not tell it,
    unless it refers to an event, as `p_ok` does. A number at its end may be that of a class or of the column itself.
    """
    texts, known = [str(name) for name in names], _plain(classes)
    if len(texts) > 1:
        return not number_positions(texts) and classes_of_names(texts, known) is not None
    named = class_of_single(texts[0], known)
    if isinstance(known[0], str):
        return named is not None
    return not speaks_of_an_event(texts[0]) if named is None else not texts[0][-1].isdigit()


def _read_names(seen: AnyArray, names: Sequence[Label], words: Words) -> list[Label] | None:
    """The label of each column by its name, of a single column both labels; `None` if the names say nothing."""
    if are_positions(names):
        return None
    texts, known = [str(name) for name in names], _plain(seen)
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ValueError(f"{words.predictions} has more than one column called {twice!r}: one per class is expected.")
    if len(texts) == 1:
        named = class_of_single(texts[0], known) if len(known) == 2 else None
        return None if named is None else [next(label for label in known if label != named), named]
    try:
        found = classes_of_names(texts, known)
    except UnknownLabelError as error:
        if number_positions(texts) and not texts[0].isdigit():  # p_0, p_1 and p_2 of the labels 1, 2 and 3
            return None
        raise ValueError(
            f"No column of {words.predictions} stands for the label {error.label!r}; the columns are "
            f"{list_names(texts)}. Rename the columns, or pass the predictions as an array together with classes=[...]."
        ) from None
    except RequestError:
        return None
    if found is None and are_numbered(texts, known) is False:
        raise ValueError(
            f"Cannot tell which label each column of {words.predictions} stands for: the columns are "
            f"{list_names(texts)}, the labels {list_names(known)}. Rename the columns, or pass the predictions as an "
            "array together with classes=[...]."
        )
    return found


def _as_array(found: Sequence[Label], seen: AnyArray) -> AnyArray:
    """Labels as an array of the type of those seen; texts may be longer than these."""
    if seen.dtype.kind == "O" and not isinstance(found[0], str):
        return np.fromiter(found, dtype=object, count=len(found))
    return np.array(found) if isinstance(found[0], str) else np.array(found).astype(seen.dtype)


def warn_of_order(classes: AnyArray) -> None:
    """Warn if classes are not in sorted order, which metrics assume."""
    ordered = distinct(classes)
    if _plain(ordered) != _plain(classes):
        warnings.warn(
            f"predict_proba returns the classes in the order {list_names(_plain(classes), 5)}. Metrics assume sorted "
            f"order ({list_names(_plain(ordered), 5)}) unless you pass them classes=calibrator.classes_.",
            ClassOrderWarning,
            stacklevel=5,
        )


def _classes_from_labels(seen: AnyArray, n_columns: int, words: Words) -> AnyArray:
    if len(seen) == n_columns:
        return seen
    if len(seen) > n_columns:
        raise ValueError(
            f"{words.labels} holds {len(seen)} labels but {words.predictions} has {n_columns} columns: no column "
            f"stands for the label {_plain(seen)[n_columns]!r}."
        )
    if seen.dtype.kind == "b" and n_columns == 2:
        return np.array([False, True])
    if seen.dtype.kind in "iuf" and np.all(seen == np.floor(seen)) and seen[0] >= 0 and seen[-1] < n_columns:
        if seen[0] != 0 and n_columns > 2:
            warnings.warn(
                f"{words.labels} lacks the label 0 and {n_columns - len(seen)} of {n_columns} classes: its labels are "
                "read as column numbers counted from 0. If they count from 1, pass classes=.",
                CalibrationWarning,
                stacklevel=5,
            )
        return np.arange(n_columns).astype(seen.dtype)
    known = list_names(_plain(seen), 10)
    if seen.dtype.kind in "iu" and seen[-1] >= n_columns:
        hint = f"no column stands for the label {seen.tolist()[-1]!r}"
    else:
        hint = "cannot infer their columns"
    raise ValueError(
        f"{words.labels} holds {len(seen)} of {n_columns} classes ({known}): {hint}. Pass classes=[...] with each "
        "column's label."
    )


def distinct(labels: AnyArray) -> AnyArray:
    """Sorted distinct labels; small integers are counted, which is faster than sorting or hashing them."""
    if labels.dtype.kind in "iu" and labels.size:
        low, high = int(labels.min()), int(labels.max())
        if high - low < len(labels) and high < 2**63:
            return (np.flatnonzero(np.bincount(labels.astype(np.int64) - low)) + low).astype(labels.dtype)
    if labels.dtype.kind == "O":
        found = in_order(set(labels.tolist()))
        return np.fromiter(found, dtype=object, count=len(found))
    return np.unique(labels)


def encode(labels: AnyArray, classes: AnyArray) -> NDArray[np.int64]:
    """Position of each label in `classes`, which need not be sorted."""
    if labels.dtype.kind in "iu" and classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        return labels.astype(np.int64)
    if labels.dtype.kind == "O":
        position = {label: i for i, label in enumerate(_plain(classes))}
        return np.array([position[label] for label in _plain(labels)], dtype=np.int64)
    order = np.argsort(classes, kind="stable")
    return np.asarray(order[np.searchsorted(classes[order], labels)], dtype=np.int64)
