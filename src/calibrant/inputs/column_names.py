"""Which column of a data frame belongs to which class, by the names of the columns.

This needs NumPy alone, so that a map without its calibrator matches names as well.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.text_table import list_names


def order_of_columns(names: list[Any], fitted: list[Any], order: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
    """The column of each class in a data frame with the columns of `fit`, called `fitted`, in any order.

    `order` is the column of each class in `fit`; `None` means that columns are in the order of the classes.

    Examples
    --------
    >>> order_of_columns(["p_yes", "p_no"], ["p_no", "p_yes"], None)
    array([1, 0])
    """
    if names == fitted:
        return order
    absent = [name for name in fitted if name not in names]
    if absent:
        raise ValueError(
            f"The feature names should match those that were passed during fit: X lacks "
            f"{list_names(absent)}, has {list_names(names)}."
        )
    position = np.array([names.index(name) for name in fitted], dtype=np.intp)
    return position if order is None else position[order]


def columns_of_classes(classes: NDArray[Any], names: list[Any]) -> NDArray[np.intp] | None:
    """The column that each class's name stands in, or `None` if names are positions or say nothing.

    Examples
    --------
    >>> columns_of_classes(np.array(["no", "yes"]), ["p_yes", "p_no"])
    array([1, 0])
    """
    wanted = texts_of_labels(classes)
    for rest in without_prefix([str(name) for name in names]):
        if set(rest) == set(wanted) and not is_enumeration(rest):
            return np.array([rest.index(text) for text in wanted], dtype=np.intp)
    return None


def texts_of_labels(labels: NDArray[Any]) -> list[str]:
    """Labels as column names spell them: whole numbers without a decimal point."""
    whole = labels.astype(np.int64) if labels.dtype.kind == "f" and np.all(np.abs(labels) < 2**53) else labels
    return [str(label) for label in whole.tolist()]


def without_prefix(texts: list[str]) -> list[list[str]]:
    """The names without their common prefix, longest first.

    The longest common prefix may eat the beginning of the labels themselves ("p_cat", "p_cow"): hence all its cuts.
    """
    prefix = os.path.commonprefix(texts) if len(texts) > 1 else ""
    return [[text[cut:] for text in texts] for cut in range(len(prefix), -1, -1)]


def is_enumeration(texts: list[str]) -> bool:
    """Whether texts are the numbers 0, 1, ... in this order."""
    return texts == [str(i) for i in range(len(texts))]
