"""The input contract for predictions: any array or data frame becomes validated log-probabilities.

Every error says what was found, where (row, column) and what to do. Nothing here knows a calibration method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..simplex import LOG_FLOOR, FloatArray, log_softmax

#: Rows whose sum is this close to one are renormalised silently: that much is rounding.
ROUNDING = 1e-3


def as_matrix(X: Any) -> tuple[NDArray[Any], list[Any] | None]:
    """A real NumPy array of one or two dimensions, and the column names of a data frame.

    Torch tensors of any device and floating type, pandas and polars frames and series, and nested lists are
    accepted. Torch is recognised by name, so that it need not be installed.
    """
    names: list[Any] | None = None
    if type(X).__module__.partition(".")[0] == "torch":
        X = X.detach().cpu()
        X = (X.float() if X.is_floating_point() and X.element_size() < 4 else X).numpy()
    elif hasattr(X, "tocsr") or hasattr(X, "todense"):
        raise TypeError(
            "Sparse data was passed, but dense data is required: a row of probabilities has no zeros "
            "to leave out. Use '.toarray()' to convert."
        )
    elif hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = list(X.columns)
        X = X.to_numpy()
    array: NDArray[Any] = np.asarray(X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: probabilities and logits are real numbers.")
    if array.dtype.kind not in "fiub":
        array = _numbers(array)
    if array.ndim not in (1, 2):
        raise ValueError(
            f"Expected predictions of shape (n, k), or (n,) for two classes, found {array.ndim} dimensions. "
            "Reshape your data."
        )
    for axis, what in enumerate(("sample", "feature")[: array.ndim]):
        if array.shape[axis] == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array, names


def _numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    """Object or text cells that all hold numbers, as floats; otherwise an error that names the first bad cell."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        for index in np.ndindex(array.shape):
            try:
                float(array[index])
            except (TypeError, ValueError):
                raise TypeError(
                    f"X holds {array[index]!r} at {_place(index)}; argument must be real numbers, one column a class."
                ) from None
        raise


def _place(index: Sequence[int]) -> str:
    return f"row {index[0]}" + (f", column {index[1]}" if len(index) > 1 else "")


def output_dtype(array: NDArray[Any]) -> type[np.floating[Any]]:
    """float32 for float32 and narrower floating input, else float64."""
    return np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64


def to_log_probabilities(block: NDArray[Any], *, logits: bool, renormalize: bool, first_row: int = 0) -> FloatArray:
    """Validated log-probabilities (rows × classes) of predictions; `first_row` is what errors count from.

    A single column is the probability (or the log-odds) of the second class.
    """
    values = np.array(block, dtype=np.float64, order="C")
    if values.ndim == 1:
        values = values.reshape(-1, 1)
    x = _from_logits(values, first_row) if logits else _from_probabilities(values, renormalize, first_row)
    return np.maximum(x, LOG_FLOOR, out=x)


def _from_logits(z: FloatArray, first_row: int) -> FloatArray:
    if z.shape[1] == 1:
        if not np.isfinite(z).all():
            row = int(np.flatnonzero(~np.isfinite(z[:, 0]))[0])
            raise ValueError(f"Input X contains NaN or infinity: {z[row, 0]} at row {first_row + row}.")
        z = np.hstack([np.zeros_like(z), z])
    top = z.max(axis=1)
    if not np.isfinite(top).all():  # NaN, +inf, or a row of nothing but -inf
        row = int(np.flatnonzero(~np.isfinite(top))[0])
        bad = np.flatnonzero(np.isnan(z[row]) | (z[row] == np.inf))
        if bad.size:
            raise ValueError(
                f"Input X contains NaN or infinity: {z[row, bad[0]]} at {_place((first_row + row, int(bad[0])))}. "
                "Logits are finite numbers, or -inf for an impossible class."
            )
        raise ValueError(f"All logits of row {first_row + row} are -inf: at least one class must be possible.")
    return log_softmax(z)


def _from_probabilities(p: FloatArray, renormalize: bool, first_row: int) -> FloatArray:
    single = p.shape[1] == 1
    low, high = float(p.min()), float(p.max())  # NaN propagates into both
    ceiling = np.finfo(np.float64).max if renormalize and not single else 1.0 + ROUNDING
    if not (low >= 0.0 and high <= ceiling):
        _raise_bad_probability(p, ceiling, first_row)
    if single:
        p = np.minimum(p, 1.0)
        p = np.hstack([1.0 - p, p])
    else:
        sums = p.sum(axis=1)
        off = np.abs(sums - 1.0)
        worst = float(off.max())
        if (worst > ROUNDING and not renormalize) or float(sums.min()) <= 0.0:
            wrong = sums <= 0.0 if renormalize else off > ROUNDING
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"Row {first_row + row} of X sums to {sums[row]:.6g}, not to 1. Probabilities of all classes are "
                "expected, one column a class; pass renormalize=True to rescale such rows, or input='logits' "
                "if these are logits."
            )
        if worst > 0.0:
            p /= sums[:, None]
    with np.errstate(divide="ignore"):
        return np.log(p, out=p)


def _raise_bad_probability(p: FloatArray, ceiling: float, first_row: int) -> None:
    bad = ~((p >= 0.0) & (p <= ceiling))
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = p[row, column]
    place = _place((first_row + row, column))
    if not np.isfinite(value):
        raise ValueError(f"Input X contains NaN or infinity: {value} at {place}. Remove or repair such rows.")
    raise ValueError(
        f"X holds {value:.6g} at {place}: probabilities lie between 0 and 1. Negative values in data passed to a "
        "calibrator, or values above 1, may be logits: pass input='logits'."
    )
