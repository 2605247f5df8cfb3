"""Columns of a data frame by name: predictions, labels, weights and groups that stand in one table.

Frames of pandas, polars, pyarrow and Dask are told by what they can do, so that none of them need be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.class_columns import column, column_names, select
from calibrant.inputs.predictions import is_dask
from calibrant.inputs.probability_columns import find_columns, named_columns
from calibrant.inputs.words import RequestError
from calibrant.text_table import list_names

#: Rows that are looked at to find the predictions among other columns.
_PEEKED = 1000


def take_columns(
    frame: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    *,
    label: Any = None,
    probs: str | Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    probabilities: bool = True,
) -> tuple[Any, Any, Any, Any]:
    """Predictions, labels, weights and groups, of which some are named as columns of `frame`.

    `probs` are names or patterns of the predictions; by default they are found by the labels, or by `classes` if these
    are known, and must hold numbers from 0 to 1 unless `probabilities` is false.
    """
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, which holds no rows yet: pass X.collect().")
    columns = column_names(frame)
    if columns is None:
        raise TypeError(f"label=, probs= and names of columns need a data frame as X, not {type(frame).__name__}.")
    if label is not None and y is not None:
        raise ValueError("The labels are given twice, by y and by label=: give one of them.")
    named = {"sample_weight": sample_weight, "groups": groups}
    reserved = {what: name for what, name in named.items() if isinstance(name, str)}
    reserved |= {} if label is None else {"label": label}
    for what, name in reserved.items():
        if name not in columns:
            raise ValueError(f"{what}={name!r} is not among the columns {list_names(columns)}.")
        _check_single(columns, [name])
    taken = {what: column(frame, name) for what, name in reserved.items()}
    labels = taken.get("label", y)
    texts = [str(name) for name in columns]  # names may be numbers
    names_of = dict(zip(texts, columns))
    others = [str(name) for name in reserved.values()]

    def chosen(found: Sequence[str]) -> list[Any]:
        _check_single(texts, found)
        return [names_of[text] for text in found]

    try:
        if probs is not None:
            wanted = [probs] if isinstance(probs, str) else [str(name) for name in probs]
            found: Sequence[str] = named_columns(wanted, texts, [text for text in texts if text not in others])
        else:
            found = find_columns(
                texts,
                _seen(labels) if classes is None else list(classes),
                peek=lambda names: _peek(frame, chosen(names)),
                reserved=others,
                as_probabilities=probabilities,
            ).names
    except RequestError as error:
        advice = " Name them by probs=, as in probs='p_*' or probs=['a', 'b']." if "probs" in error.hints else ""
        raise ValueError(f"In X, {error}.{advice}") from error
    beside = (taken.get(what, given) for what, given in named.items())
    return select(frame, chosen(found)), labels, *beside


def _check_single(columns: Sequence[Any], names: Sequence[Any]) -> None:
    """Refuse names that several columns have: which of them is meant cannot be known."""
    for name in names:
        if (count := columns.count(name)) > 1:
            raise ValueError(f"X has {count} columns that are called {name!r}: give each a name of its own.")


def _seen(labels: Any) -> list[Any]:
    """The labels that occur, sorted; of a Dask series they are computed."""
    if labels is None:
        raise ValueError("Name the column of the labels by label=, or pass labels as y.")
    if is_dask(labels) and hasattr(labels, "unique"):
        labels = labels.unique().compute()
    values = labels.drop_nulls() if hasattr(labels, "drop_nulls") else labels
    values = values.dropna() if hasattr(values, "dropna") else values
    return list(np.unique(np.asarray(values)).tolist())


def _peek(frame: Any, names: Sequence[Any]) -> NDArray[np.float64] | None:
    """The numbers of some columns in the first rows, `None` if they are no numbers."""
    part = select(frame if is_dask(frame) else frame[:_PEEKED], names)
    if is_dask(part):
        part = part.head(_PEEKED, npartitions=-1)
    try:
        return np.asarray(part.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        return None
