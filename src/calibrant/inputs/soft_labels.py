"""Labels that are not certain: a matrix of probabilities or votes, one column per class, instead of one label per row.

A row counts as if it were there once for each class, with that class's number as its weight: votes 3, 1, 1 count as
five observations, probabilities as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.weights import row_weights
from calibrant.inputs.words import CALIBRATOR, Words
from calibrant.typing import FloatArray, IntArray


def repeated_rows(
    y: Any,
    n: int,
    k: int,
    sample_weight: Any = None,
    classes: Any = None,
    words: Words = CALIBRATOR,
    *,
    first_row: int = 0,
) -> tuple[IntArray, NDArray[Any], FloatArray]:
    """The row, the label and the count of each entry of the matrix `y` (n, k) that is positive.

    Columns are those of the predictions, in their order; they are named by `classes`, by the columns of a data frame
    `y`, or by their numbers. Errors count rows from `first_row`.

    >>> [part.tolist() for part in repeated_rows([[3, 1, 0], [0, 0, 1]], 2, 3)]
    [[0, 0, 1], [0, 1, 2], [3.0, 1.0, 1.0]]
    """
    name = words.labels
    votes = to_numpy(y, name)
    if votes.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} is a matrix of {votes.dtype}: numbers are expected, the share or votes of each class."
        )
    if votes.shape != (n, k):
        raise ValueError(
            f"{name} has shape {votes.shape}, expected ({n}, {k}): one row per prediction and one column per class. "
            f"Labels themselves have one dimension.{words.order}"
        )
    votes = votes.astype(np.float64)
    bad = ~(np.isfinite(votes) & (votes >= 0.0))
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} holds {votes[row, column]:g} at row {first_row + row}, column {column}: shares and votes are "
            "finite and not negative."
        )
    if sample_weight is not None:
        with np.errstate(over="ignore"):  # their sum is checked
            votes *= row_weights(sample_weight, n, first_row, words.weights)[:, None]
    if classes is None:
        classes = list(y.columns) if hasattr(y, "columns") else range(k)
    rows, columns = np.nonzero(votes)
    return rows, np.asarray(list(classes))[columns], votes[rows, columns]
