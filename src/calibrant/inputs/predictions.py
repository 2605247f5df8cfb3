"""The input contract for predictions: any array or data frame becomes validated log-probabilities.

Every error says what was found, where (row, column) and what to do. Nothing here knows a calibration method.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.rowwise import row_sums
from calibrant.simplex import LOG_FLOOR, log_softmax
from calibrant.threads import limited
from calibrant.typing import FloatArray

#: Rows whose sum is this close to one are renormalised silently: that much is rounding.
ROUNDING = 1e-3


def as_matrix(X: Any) -> tuple[NDArray[Any], list[Any] | None]:
    """A real NumPy array of one or two dimensions, and the column names of a data frame.

    Torch tensors of any device and floating type, pandas and polars frames and series, and nested lists are
    accepted. Torch is recognised by name, so that it need not be installed.
    """
    names = list(X.columns) if hasattr(X, "columns") and hasattr(X, "to_numpy") else None
    array = to_numpy(X)
    if array.dtype.kind not in "fiub":
        _raise_not_numbers(array)
    if array.ndim not in (1, 2):
        raise ValueError(
            f"Expected predictions of shape (n, k), or (n,) for two classes, found {array.ndim} dimensions. "
            "Reshape your data."
        )
    for axis, what in enumerate(("sample", "feature")[: array.ndim]):
        if array.shape[axis] == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array, names


def to_numpy(X: Any) -> NDArray[Any]:
    """`X` as a NumPy array whose type is that of its numbers, with NaN for the missing values of a data frame."""
    if isinstance(X, np.ndarray):
        if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
            place = _place(np.argwhere(np.ma.getmaskarray(X))[0])
            raise ValueError(f"Input X contains NaN: a masked value at {place}. Remove or repair such rows.")
        array = np.asarray(X)
    elif is_tensor(X):
        return _tensor_to_numpy(X)
    elif hasattr(X, "tocsr") or hasattr(X, "todense"):
        raise TypeError(_SPARSE)
    elif hasattr(X, "to_numpy"):
        array = np.asarray(X.to_numpy())
        if array.dtype.kind == "O":
            array = _nullable_to_numpy(X, array)
    else:
        array = np.asarray(X)
    return array.astype(np.float32) if array.dtype.kind == "V" and array.dtype.name in _NARROW else array


_SPARSE = (
    "Sparse data was passed, but dense data is required: a row of probabilities has no zeros to leave out. "
    "Use '.toarray()' to convert."
)
_NARROW = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}


def is_tensor(X: Any) -> bool:
    """Whether `X` is a torch tensor, told without importing torch."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(X).__mro__)


def _tensor_to_numpy(X: Any) -> NDArray[Any]:
    if str(X.layout) != "torch.strided":
        raise TypeError(_SPARSE.replace(".toarray()", ".to_dense()"))
    X = X.detach().cpu().resolve_conj().resolve_neg()
    # NumPy knows neither bfloat16 nor the 8-bit types.
    return np.asarray((X.float() if X.is_floating_point() and X.element_size() < 4 else X).numpy())


def _nullable_to_numpy(X: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Columns of pandas' nullable or Arrow numbers, which `to_numpy` turns into objects."""
    dtypes = list(X.dtypes) if hasattr(X, "columns") else [X.dtype]
    if not all(getattr(dtype, "kind", "O") in "fiub" for dtype in dtypes):
        return array
    common = np.result_type(*(getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes))
    if common.kind != "f":
        missing = np.asarray(X.isna()).any()
        return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan) if missing else X.to_numpy(dtype=common))
    return np.asarray(X.to_numpy(dtype=common, na_value=np.nan))


def rounding_of(X: Any) -> float:
    """How far from one the sums of the rows of `X` may be by rounding: more for the types narrower than float16."""
    name = str(X.dtype).removeprefix("torch.") if hasattr(X, "dtype") and not isinstance(X, np.ndarray) else ""
    if name == "bfloat16":
        return 2.0**-8
    return 2.0**-3 if name.startswith("float8") else ROUNDING


def _raise_not_numbers(array: NDArray[Any]) -> None:
    """Say what stands where a real number should, and where."""
    if array.dtype.kind == "c":
        index = tuple(np.argwhere(array.imag != 0)[0]) if array.size and array.imag.any() else (0,) * array.ndim
        cell = f"X holds {array[index]} at {_place(index)}" if array.size else "X is empty"
        raise ValueError(f"Complex data not supported: {cell}, but probabilities and logits are real numbers.")
    for index in np.ndindex(array.shape):
        if not isinstance(array[index], (Real, np.bool_)):
            raise TypeError(
                f"X holds {array[index]!r} at {_place(index)}, of type {type(array[index]).__name__}: the argument "
                "must be a real number, not a string or another object; one column a class."
            )
    first = f"; the first, at {_place((0,) * array.ndim)}, is {array.flat[0]!r}" if array.size else ""
    raise TypeError(f"X holds objects (dtype={array.dtype}{first}), not numbers. Convert with X.astype(float).")


def _place(index: Sequence[int] | NDArray[Any]) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column", "plane"), index)) or "the only place"


def output_dtype(array: NDArray[Any]) -> type[np.floating[Any]]:
    """float32 for float32 and narrower floating input, else float64."""
    return np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64


@limited
def to_log_probabilities(
    block: NDArray[Any], *, logits: bool, renormalize: bool, first_row: int = 0, rounding: float = ROUNDING
) -> FloatArray:
    """Validated log-probabilities (rows × classes) of predictions; `first_row` is what errors count from.

    A single column is the probability (or the log-odds) of the second class.
    """
    values = np.array(block, dtype=np.float64, order="C")
    if values.ndim == 1:
        values = values.reshape(-1, 1)
    x = _from_logits(values, first_row) if logits else _from_probabilities(values, renormalize, first_row, rounding)
    return np.maximum(x, LOG_FLOOR, out=x)


def _from_logits(z: FloatArray, first_row: int) -> FloatArray:
    single = z.shape[1] == 1
    if single:
        z = np.hstack([np.zeros_like(z), z])
    top = z.max(axis=1)
    if not np.isfinite(top).all():  # NaN, +inf, or a row of nothing but -inf
        row = int(np.flatnonzero(~np.isfinite(top))[0])
        bad = np.flatnonzero(np.isnan(z[row]) | (z[row] == np.inf))
        if bad.size:
            place = _place((first_row + row, 0 if single else int(bad[0])))
            raise ValueError(
                f"Input X contains NaN or infinity: {z[row, bad[0]]} at {place}. Logits are finite numbers, or -inf "
                "for an impossible class."
            )
        raise ValueError(f"All logits of row {first_row + row} are -inf: at least one class must be possible.")
    with np.errstate(over="ignore"):  # logits of ±1e308 in one row: the difference is -inf, an impossible class
        return log_softmax(z)


def _from_probabilities(p: FloatArray, renormalize: bool, first_row: int, rounding: float) -> FloatArray:
    single = p.shape[1] == 1
    low, high = float(p.min()), float(p.max())  # NaN propagates into both
    ceiling = np.finfo(np.float64).max if renormalize and not single else 1.0 + rounding
    if not (low >= 0.0 and high <= ceiling):
        _raise_bad_probability(p, ceiling, first_row)
    if single:
        p = np.minimum(p, 1.0)
        p = np.hstack([1.0 - p, p])
    else:
        if high > 1.0 + rounding:  # only when rescaling is wanted; keeps the sums finite
            top = p.max(axis=1, keepdims=True)
            p /= np.where(top > 1.0 + rounding, top, 1.0)
        sums = row_sums(p)
        off = np.abs(sums - 1.0)
        worst = float(off.max())
        if (worst > rounding and not renormalize) or float(sums.min()) <= 0.0:
            wrong = sums <= 0.0 if renormalize else off > rounding
            row = int(np.flatnonzero(wrong)[0])
            advice = (
                "No rescaling can make it probabilities."
                if renormalize
                else "Probabilities of all classes are expected, one column a class; pass renormalize=True to rescale "
                "such rows, or input='logits' if these are logits."
            )
            raise ValueError(f"Row {first_row + row} of X sums to {sums[row]:.6g}, not to 1. {advice}")
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
