"""Matrices with column names, and the columns of frames of any package that have certain names.

This needs NumPy alone, so that a map without its calibrator can take frames as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NamedColumns:
    """A matrix with column names, as much of a data frame as calibrators look at."""

    columns: list[Any]
    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def to_numpy(self) -> NDArray[Any]:
        """The numbers alone."""
        return self.values

    def __len__(self) -> int:
        return len(self.values)


def column_names(frame: Any) -> list[Any] | None:
    """The names of the columns of a data frame or an Arrow table; `None` of anything else."""
    names = getattr(frame, "column_names", None)  # of Arrow, whose `columns` are the data
    if names is None and hasattr(frame, "__getitem__") and not isinstance(frame, dict):
        names = getattr(frame, "columns", None)
    return None if names is None else list(names)


def select(frame: Any, names: Sequence[Any]) -> Any:
    """Some columns of a frame, as a frame."""
    if hasattr(frame, "column_names"):
        return NamedColumns(list(names), np.column_stack([column(frame, name) for name in names]))
    return frame[list(names)]


def column(frame: Any, name: Any) -> Any:
    """One column of a frame."""
    if hasattr(frame, "column_names"):
        return frame.column(name).to_numpy(zero_copy_only=False)
    return frame[name]


def fitted_columns(X: Any, fitted: Sequence[Any] | None) -> Any:
    """Of a data frame with further columns, such as an id, those that `fit` saw."""
    if fitted is None or type(X) is np.ndarray or (names := column_names(X)) is None:
        return X
    more = len(names) > len(fitted) or hasattr(X, "column_names")
    return select(X, fitted) if more and set(names) >= set(fitted) else X
