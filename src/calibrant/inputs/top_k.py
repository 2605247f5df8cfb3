"""The best classes of each row, as inference servers return them: a few log-probabilities and the mass of the rest.

The remaining probability is assumed to be spread evenly over the classes that are not listed: a row stands for the
full row in which each of them has ``remaining / (k - m)``. Fits and predictions are those of these full
rows, and exact where the rest is uniform. Full rows are made a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from calibrant.inputs.predictions import to_numpy
from calibrant.inputs.rows import ROUNDING
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Numbers of full rows that are made at a time: 32 MB of them.
_BLOCK_ELEMENTS = 1 << 22


class TopK:
    """The `m` most probable of `k` classes in each row, and the probability of all others together.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, m)
        Natural logarithms of the probabilities of the listed classes; ``-inf`` where fewer than m are listed.
    columns : array-like of shape (n, m)
        The numbers of these classes, from 0 to ``n_classes - 1``, each at most once in a row.
    n_classes : int
        Number of classes, such as the size of a vocabulary.
    remaining : array-like of shape (n,), default=None
        Probability of all other classes together; by default what the listed ones leave.

    Attributes
    ----------
    probabilities : ndarray of shape (n, m)
        Probabilities of the listed classes; they and `remaining` sum to one.
    columns : ndarray of shape (n, m)
    remaining : ndarray of shape (n,)
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import TopK, get_calibrator
    >>> rows = TopK(np.log([[0.7, 0.2], [0.5, 0.1], [0.6, 0.3]]), [[3, 0], [1, 2], [4, 3]], n_classes=5)
    >>> rows.remaining.round(3), rows.full(slice(0, 1)).round(3)
    (array([0.1, 0.4, 0.1]), array([[0.2  , 0.033, 0.033, 0.7  , 0.033]]))
    >>> calibrated = get_calibrator("ts").fit(rows, [3, 4, 3]).predict_proba(rows)
    >>> calibrated.probabilities.shape, calibrated.columns[0].tolist()
    ((3, 2), [3, 0])
    """

    def __init__(
        self, log_probabilities: ArrayLike, columns: ArrayLike, n_classes: int, remaining: ArrayLike | None = None
    ) -> None:
        logs = np.asarray(to_numpy(log_probabilities, "log_probabilities"), dtype=np.float64)
        places = to_numpy(columns, "columns")
        if logs.ndim != 2 or places.shape != logs.shape or places.dtype.kind not in "iu":
            raise ValueError(
                f"log_probabilities of shape {logs.shape} and columns of shape {places.shape} and type {places.dtype}: "
                "both have one row per prediction and one column per listed class, and columns are whole numbers."
            )
        self.n_classes, self.columns = int(n_classes), places.astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite ones do not sum to one
            self.probabilities: FloatArray = np.exp(logs)
            listed = self.probabilities.sum(axis=1)
            rest = 1.0 - listed if remaining is None else np.asarray(to_numpy(remaining, "remaining"), dtype=np.float64)
            self._check(logs, listed, rest)
        if logs.shape[1] == self.n_classes:
            rest = np.zeros_like(rest)
        self.remaining: FloatArray = np.maximum(rest, 0.0)
        total = (listed + self.remaining)[:, None]
        self.probabilities /= total
        self.remaining = self.remaining / total[:, 0]

    def _check(self, logs: FloatArray, listed: FloatArray, rest: FloatArray) -> None:
        m, k = logs.shape[1], self.n_classes
        if not 0 < m <= k:
            raise ValueError(f"{m} classes are listed in each row, of n_classes={k}.")
        if rest.shape != listed.shape:
            raise ValueError(f"remaining has shape {rest.shape}, expected {listed.shape}: one number per row.")
        ordered = np.sort(self.columns, axis=1)
        outside = (ordered[:, 0] < 0) | (ordered[:, -1] >= k)
        twice = (np.diff(ordered, axis=1) == 0).any(axis=1) if m > 1 else np.zeros(len(ordered), dtype=bool)
        off = ~(np.abs(listed + rest - 1.0) <= ROUNDING) | ~(rest >= -ROUNDING) | np.isnan(logs).any(axis=1)
        if m == k:  # nothing remains
            off |= rest > ROUNDING
        for wrong, what in (
            (outside, f"names a class outside 0..{k - 1}"),
            (twice, "names a class twice"),
            (off, "does not hold log-probabilities: the listed ones and the rest should sum to one"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                found = np.array2string(logs[row], precision=4, threshold=6)
                raise ValueError(f"Row {row} {what}: columns {self.columns[row].tolist()[:6]}, logarithms {found}.")

    def __len__(self) -> int:
        return len(self.remaining)

    def __repr__(self) -> str:
        return f"TopK({len(self)} rows, {self.columns.shape[1]} of {self.n_classes} classes)"

    def full(self, rows: slice = slice(None), *, logits: bool = False) -> FloatArray:
        """Probabilities of all classes of some rows (or their logarithms), what remains spread evenly."""
        places = self.columns[rows]
        others = self.n_classes - places.shape[1]
        out = np.empty((len(places), self.n_classes))
        out[:] = (self.remaining[rows] / max(others, 1))[:, None]
        np.put_along_axis(out, places, self.probabilities[rows], axis=1)
        if logits:
            with np.errstate(divide="ignore"):
                np.log(out, out=out)
        return out

    def blocks(self) -> Iterator[slice]:
        """Slices of the rows that are made full at a time."""
        size = max(1, _BLOCK_ELEMENTS // self.n_classes)
        return (slice(start, min(start + size, len(self))) for start in range(0, len(self), size))

    def batches(self, y: object, weight: object = None, *, logits: bool = False) -> Iterator[tuple[object, ...]]:
        """Full rows with their labels and weights, block by block."""
        labels = to_numpy(y, "y")
        if len(labels) != len(self):
            raise ValueError(f"y has {len(labels)} labels, there are {len(self)} rows.")
        for rows in self.blocks():
            yield (self.full(rows, logits=logits), labels[rows], *([] if weight is None else [to_numpy(weight)[rows]]))

    def of_full(self, p: AnyArray, rows: slice) -> FloatArray:
        """The entries of full rows in the listed columns."""
        return np.take_along_axis(np.asarray(p, dtype=np.float64), self.columns[rows], axis=1)

    def with_probabilities(self, probabilities: FloatArray) -> TopK:
        """The same classes with other probabilities."""
        other: TopK = object.__new__(TopK)
        other.n_classes, other.columns = self.n_classes, self.columns
        other.probabilities = probabilities
        other.remaining = np.maximum(1.0 - probabilities.sum(axis=1), 0.0)
        return other

    def argmax(self, axis: int = 1) -> IntArray:
        """The most probable listed class of each row."""
        best = self.probabilities.argmax(axis=axis)
        return np.take_along_axis(self.columns, best[:, None], axis=1)[:, 0]

    def log(self) -> FloatArray:
        """Logarithms of the probabilities of the listed classes."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities)
