"""What is assumed about the numbers of a table from its first rows, and checked against them.

Percentages and decimal commas are recognised, probabilities are not taken for logits, and classes in sorted order must
fit the labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from calibrant.files.tables.numeric import NumberStyle, find_style, to_numbers
from calibrant.files.tables.table import RequestError
from calibrant.inputs.rows import ROUNDING
from calibrant.text_table import list_names


def measured(
    columns: Sequence[Any], decimal: str | None, *, logits: bool
) -> tuple[NumberStyle, NDArray[np.float64] | None]:
    """How Arrow columns are written, and their numbers as fractions; None if few of the cells are numbers."""
    style = find_style(columns, decimal)
    cells = [to_numbers(column, style.decimal) for column in columns]
    if not cells or any(len(cell.unreadable) > len(cell.values) / 2 for cell in cells):
        return style, None
    values = np.column_stack([cell.values for cell in cells]).astype(np.float64)
    if not logits and not style.percent_sign and _are_percentages(values):
        return replace(style, whole=100.0), values / 100
    return style, values


def _are_percentages(values: NDArray[np.float64]) -> bool:
    """Whether rows sum to about 100; a single column must lie between 0 and 100 and reach beyond 10."""
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values) or values.min() < 0 or values.max() > 105:
        return False
    if values.shape[1] == 1:
        return bool(10 < values.max() <= 100)
    return float((np.abs(values.sum(axis=1) - 100) <= 5).mean()) >= 0.5


def looks_like_probabilities(values: NDArray[np.float64], names: Sequence[str]) -> bool:
    """Whether one column of supposed logits may well hold probabilities; several that surely do are refused."""
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values) or values.min() < 0:
        return False
    if values.shape[1] == 1:
        return bool(len(values) >= 20 and (values.max() <= 1 or _are_percentages(values)))
    for whole in (1.0, 100.0):
        if float((np.abs(values.sum(axis=1) / whole - 1) <= ROUNDING).mean()) >= 0.99:
            raise RequestError(
                f"the numbers in {list_names(names, 5)} sum to {whole:g} in every row: they are probabilities, not "
                "logits",
                "not_logits",
            )
    return False


def better_order(
    p: NDArray[Any], codes: NDArray[np.int64], weight: NDArray[np.float64] | None = None
) -> list[int] | None:
    """The class of each column under which the labels are far more probable than under the order given, if any."""
    k = p.shape[1]
    weight = np.ones(len(codes)) if weight is None else weight / max(float(weight.mean()), 1e-300)
    total = np.zeros((k, k))
    np.add.at(total, codes, p * weight[:, None])
    _, column_of = linear_sum_assignment(-total)
    row = np.arange(len(codes))
    gain = (p[row, column_of[codes]] - p[row, codes]).astype(np.float64) * weight
    # Beyond chance even for the best of many orders, and not a matter of a few per cent.
    far = len(gain) >= 20 and gain.mean() > max(0.05, 5 * gain.std() / math.sqrt(len(gain)))
    return np.argsort(column_of).tolist() if far else None
