"""Dense outputs: predictions with the classes on any axis, such as segmentations (images, classes, height, width).

Every place is a row. Rows are laid out for the rest of the package, which knows matrices only, and probabilities get
back the shape that the predictions had. Arrays and torch tensors are treated alike.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from calibrant.inputs.predictions import is_dask, is_tensor, to_numpy
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.typing import Label


def to_rows(X: object, axis: int, words: Words = CALIBRATOR) -> Any:
    """Predictions with the classes on `axis`, as a matrix with one row per place."""
    array: Any = X if is_tensor(X) or is_dask(X) else to_numpy(X, words.predictions)
    if array.ndim < 2 or not -array.ndim <= axis < array.ndim:
        raise ValueError(
            f"axis={axis} does not name the classes of {words.predictions}, which has shape {tuple(array.shape)}."
        )
    last = array.movedim(axis, -1) if is_tensor(array) else np.moveaxis(array, axis, -1)
    return last.reshape(-1, last.shape[-1])


def from_rows(p: Any, X: Any, axis: int) -> Any:
    """What was computed for each row, as one number or one per class, in the shape of the predictions `X`."""
    shape = list(np.shape(X))
    k = shape.pop(axis)
    if p.ndim == 1:
        return p.reshape(shape)
    p = p.reshape(*shape, p.shape[1] if k == 1 else k)
    return p.movedim(-1, axis) if is_tensor(p) else np.moveaxis(p, -1, axis)


def labelled_rows(
    X: object,
    y: Any,
    axis: int | None,
    ignore_index: Label,
    words: Words = CALIBRATOR,
    *,
    may_be_empty: bool = False,
    **beside: Any,
) -> tuple[Any, ...]:
    """Predictions, labels and what is `beside` them with one row per place, without those labelled `ignore_index`.

    Weights and groups have the shape of the labels; `None`, and one number for all rows, stay as they are. Unless rows
    `may_be_empty`, as those of some of many batches may, it is an error if no place is left.
    """
    places = list(np.shape(cast(Any, X if axis is not None else y)))
    if axis is not None:
        rows = to_rows(X, axis, words)
        del places[axis]
        X, y = rows, _flat(y, places, words.labels)
    for name, values in beside.items():
        if np.ndim(values) > 0 and not (axis is None and is_dask(values)):
            beside[name] = _flat(values, places, name)
    if ignore_index is None:
        return X, y, *beside.values()
    labels = y if is_dask(y) else to_numpy(y, words.labels)
    kept = labels != ignore_index
    if not may_be_empty and not is_dask(kept) and not kept.any():
        raise ValueError(f"{words.labels} holds nothing but ignore_index={ignore_index!r}.")
    some = (part if np.ndim(part) == 0 else _some(part, kept) for part in beside.values())
    return _some(X, kept), labels[kept], *some


def _flat(values: Any, places: list[int], name: str) -> Any:
    """One value for each row, from an array with one for each place."""
    array = values if is_tensor(values) or is_dask(values) else to_numpy(values, name)
    if list(array.shape) != places:
        raise ValueError(
            f"{name} has shape {tuple(array.shape)}, expected {tuple(places)}: one for every place, the shape of the "
            "predictions without the axis of the classes."
        )
    return array.reshape(-1)


def _some(X: Any, kept: Any) -> Any:
    """The rows of an array, tensor or data frame that a mask keeps."""
    if is_tensor(X):
        import torch

        return X[torch.as_tensor(kept, device=X.device)]
    if hasattr(X, "loc"):
        return X.loc[kept]
    if hasattr(X, "filter"):  # frames of polars and Arrow
        return X.filter(kept.tolist())
    return X[kept] if hasattr(X, "shape") else np.asarray(X)[kept]
