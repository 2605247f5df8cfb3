"""Votes in tables: one column per class instead of one of labels, for rows whose label is not certain.

A row is there once for each class that has votes, with their number as its weight, as `inputs.soft_labels` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.numeric import to_numbers
from calibrant.text_table import list_names


@dataclass(frozen=True)
class Votes:
    """The votes (n, k) of some rows, columns in the order of the classes, and the text of cells that are no number."""

    names: tuple[str, ...]
    values: NDArray[np.float64]
    unreadable: dict[tuple[int, int], str]

    @classmethod
    def read(cls, data: Any, names: tuple[str, ...], decimal: str) -> Votes:
        """The votes in an Arrow record batch."""
        cells = [to_numbers(data.column(name), decimal) for name in names]
        unreadable = {(row, j): text for j, cell in enumerate(cells) for row, text in cell.unreadable.items()}
        return cls(names, np.column_stack([cell.values for cell in cells]).astype(np.float64), unreadable)

    @cached_property
    def bad(self) -> NDArray[np.bool_]:
        """Rows that cannot be used."""
        usable = np.isfinite(self.values) & (self.values >= 0.0)
        return np.asarray(~usable.all(axis=1) | ~self.values.any(axis=1))

    def reason(self, row: int) -> str:
        """What is wrong with a row."""
        votes = self.values[row]
        wrong = np.flatnonzero(~(np.isfinite(votes) & (votes >= 0.0)))
        if not len(wrong):
            return f"there are no votes: {list_names(self.names, 5)} are all 0"
        name, text = self.names[wrong[0]], self.unreadable.get((row, int(wrong[0])), "")
        if text:
            return f"{name!r} is {text!r}, not a number"
        value = votes[wrong[0]]
        return (
            f"{name!r} is missing" if np.isnan(value) else f"{name!r} is {value:g}; votes are finite and not negative"
        )
