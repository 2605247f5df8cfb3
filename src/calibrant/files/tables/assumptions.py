"""What is assumed about the numbers of a table from its first rows: percentages and decimal commas are recognised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files.tables.numeric import NumberStyle, find_style, to_numbers
from calibrant.inputs.rows import are_percentages


def measured(
    columns: Sequence[Any], decimal: str | None, *, logits: bool
) -> tuple[NumberStyle, NDArray[np.float64] | None]:
    """How Arrow columns are written, and their numbers as fractions; None if few of the cells are numbers."""
    style = find_style(columns, decimal)
    cells = [to_numbers(column, style.decimal) for column in columns]
    if not cells or any(len(cell.unreadable) > len(cell.values) / 2 for cell in cells):
        return style, None
    values = np.column_stack([cell.values for cell in cells]).astype(np.float64)
    if not logits and not style.percent_sign and are_percentages(values):
        return replace(style, whole=100.0), values / 100
    return style, values
