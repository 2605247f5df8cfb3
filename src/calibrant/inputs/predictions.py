"""The input contract for predictions: any array or data frame becomes validated probabilities or their logarithms.

Every error says what was found, where (row, column) and what to do, in the words of the caller's arguments. Nothing
here knows a calibration method.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from enum import Enum
from numbers import Real
from typing import Any, Literal

import numpy as np

from calibrant.inputs.rows import (
    LEAST_ROWS,
    ROUNDING,
    SHORT,
    are_percentages,
    complete,
    examine,
    find_fault,
    first_true,
    may_be_probabilities,
    saturate,
    total_of_one,
    whole_of_probabilities,
)
from calibrant.inputs.words import CALIBRATOR, CalibrationWarning, Words
from calibrant.simplex import FLOOR, LOG_FLOOR, log_in_place, log_softmax
from calibrant.text_table import list_names
from calibrant.typing import AnyArray, AnyFloatArray, FloatArray, Label


def as_matrix(X: Any, words: Words = CALIBRATOR) -> tuple[AnyArray, list[Label] | None]:
    """A real array of one or two dimensions from a tensor, frame, series or nested list, and a frame's column names."""
    plain = type(X) is np.ndarray and X.dtype.kind == "f"  # what services pass row by row: asked first, it is fast
    names = None if plain else _names(X)
    array = X if plain else to_numpy(X, words.predictions)
    if array.dtype.kind not in "fiub":
        _raise_not_numbers(array, words.predictions, names)
    if array.ndim not in (1, 2):
        raise ValueError(
            f"Expected predictions of shape (n, k), or (n,) for two classes, found {array.ndim} dimensions. "
            "Reshape your data."
        )
    if array.size == 0:
        what = "sample" if len(array) == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array, names


def _names(X: object) -> list[Label] | None:
    """The column names of a data frame; of a series its own, if it has one."""
    if isinstance(names := getattr(X, "column_names", None), list):  # of Arrow, whose `columns` are the data
        return names
    if not hasattr(X, "to_numpy"):
        return None
    if hasattr(X, "columns"):
        return list(X.columns)
    name = getattr(X, "name", None)
    return [name] if isinstance(name, str) and name else None


def to_numpy(X: object, name: str = "X") -> AnyArray:
    """`X`, which errors call `name`, as an array of its numbers' type, with NaN for a data frame's missing values."""
    if isinstance(X, np.ndarray):
        if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
            place = _place(np.argwhere(np.ma.getmaskarray(X))[0])
            raise ValueError(f"Input {name} contains NaN: a masked value at {place}. Remove or repair such rows.")
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
    if array.ndim == 1 and (array.dtype.kind == "O" or (array.dtype.kind == "U" and not hasattr(X, "dtype"))):
        array = _plain_texts(X, array)
    return array.astype(np.float32) if array.dtype.kind == "V" and array.dtype.name in _NARROW else array


def _plain_texts(X: Any, array: AnyArray) -> AnyArray:
    """`array`, made of `X`, with the texts themselves for members of an enumeration of texts.

    NumPy takes as many letters of "Class.MEMBER" as the text has, and a set finds the text and the member different.
    """
    items = X if array.dtype.kind == "U" else array
    if not any(isinstance(item, str) and isinstance(item, Enum) for item in items):
        return array
    return np.array([str.__str__(item) if isinstance(item, str) else item for item in items])


_SPARSE = (
    "Sparse data was passed, but dense data is required: a row of probabilities has no zeros to leave out. "
    "Use '.toarray()' to convert."
)
_NARROW = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}


def is_tensor(X: object) -> bool:
    """Whether `X` is a torch tensor, told without importing torch."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(X).__mro__)


def is_dask(X: object) -> bool:
    """Whether `X` is a Dask array, data frame or series, told without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def _tensor_to_numpy(X: Any) -> AnyArray:
    if str(X.layout) != "torch.strided":
        raise TypeError(_SPARSE.replace(".toarray()", ".to_dense()"))
    X = X.detach().cpu().resolve_conj().resolve_neg()
    # NumPy knows neither bfloat16 nor the 8-bit types.
    return np.asarray((X.float() if X.is_floating_point() and X.element_size() < 4 else X).numpy())


def _nullable_to_numpy(X: Any, array: AnyArray) -> AnyArray:
    """Columns of pandas' nullable or Arrow numbers, which `to_numpy` turns into objects."""
    dtypes = list(X.dtypes) if hasattr(X, "columns") else [X.dtype]
    if not all(getattr(dtype, "kind", "O") in "fiub" for dtype in dtypes):
        return array
    common = np.result_type(*(getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes))
    if common.kind != "f":
        missing = np.asarray(X.isna()).any()
        return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan) if missing else X.to_numpy(dtype=common))
    return np.asarray(X.to_numpy(dtype=common, na_value=np.nan))


def rounding_of(X: object) -> float:
    """How far from one the sums of the rows of `X` may be by rounding: more for types of 8 bits."""
    if type(X) is np.ndarray:
        return ROUNDING
    name = str(X.dtype).removeprefix("torch.") if hasattr(X, "dtype") and not isinstance(X, np.ndarray) else ""
    return 2.0**-3 if name.startswith("float8") else ROUNDING


def _raise_not_numbers(array: AnyArray, name: str, columns: Sequence[Label] | None) -> None:
    """Say what stands where a real number should, and where."""
    if array.dtype.kind == "c":
        index = tuple(np.argwhere(array.imag != 0)[0]) if array.size and array.imag.any() else (0,) * array.ndim
        cell = f"{name} holds {array[index]} at {_place(index)}" if array.size else f"{name} is empty"
        raise ValueError(f"Complex data not supported: {cell}, but probabilities and logits are real numbers.")
    for index in np.ndindex(array.shape):
        if not isinstance(array[index], (Real, np.bool_)):
            found = array[index].item() if isinstance(array[index], np.generic) else array[index]
            if columns is not None and array.ndim == 2 and len(columns) > 1:
                raise TypeError(
                    f"{name} holds {found!r} in row {index[0]} of the column {columns[index[1]]!r}: predictions are "
                    "real numbers, not a string or another object. Leave such columns out, or name the columns of "
                    "predictions: in `fit` with probs= or label=."
                )
            raise TypeError(
                f"{name} holds {found!r} at {_place(index)}, of type {type(found).__name__}: the "
                "argument must be a real number, not a string or another object; one column per class."
            )
    first = f"; the first, at {_place((0,) * array.ndim)}, is {array.flat[0]!r}" if array.size else ""
    raise TypeError(f"{name} holds objects (dtype={array.dtype}{first}), not numbers. Convert with .astype(float).")


def _place(index: Sequence[int] | AnyArray) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column", "plane"), index)) or "the only place"


def output_dtype(array: AnyArray) -> type[np.floating[Any]]:
    """float32 for float32 and narrower floating input, else float64."""
    return np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64


def to_probabilities(
    array: AnyArray, *, rounding: float = ROUNDING, words: Words = CALIBRATOR, tolerance: float | None = None
) -> AnyFloatArray:
    """Validated probabilities (rows × classes) of predictions; float32 stays float32, and copies are avoided.

    Rows that miss one by no more than `tolerance` (by default the square root of the precision: as exact as the type
    allows) are left as given.
    """
    single = array.ndim == 1 or array.shape[1] == 1
    values = array if array.dtype == np.float32 and not single else array.astype(np.float64, copy=False)
    values = values.reshape(-1, 1) if single else values
    sums = _check(values, 0, words, rounding=rounding)
    tolerance = float(np.sqrt(np.finfo(values.dtype).eps)) if tolerance is None else tolerance
    return complete(values, sums=sums, tolerance=tolerance)


def to_log_probabilities(
    block: AnyArray,
    *,
    logits: bool,
    renormalize: bool,
    first_row: int = 0,
    rounding: float = ROUNDING,
    words: Words = CALIBRATOR,
    log: Callable[[FloatArray], FloatArray] | None = log_in_place,
    order: Literal["C", "F"] = "C",
    scale: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Validated log-probabilities (rows × classes) of predictions; `first_row` is what errors count from.

    A single column is the probability (or the log-odds) of the second class. The result for a row does not depend on
    the rows beside it, to the last bit, unless it does with `log`, which replaces probabilities by logarithms; with
    `None` they stay. `order` is that of the result in memory, which does not change its numbers. `scale` makes
    logits of scores, in place.
    """
    values = np.array(block, dtype=np.float64, order=order)
    if values.ndim == 1:
        values = values.reshape(-1, 1)
    if len(values) == 1 < values.shape[1] <= SHORT and log is None and not logits and not renormalize:
        total = total_of_one(values, rounding)
        if total is not None:
            x = values if total == 1.0 else np.divide(values, total, out=values)
            return np.maximum(x, FLOOR, out=x)
    sums = _check(values, first_row, words, logits=logits, renormalize=renormalize, rounding=rounding)
    if logits:
        if values.shape[1] == 1:
            values = np.hstack([np.zeros_like(values), values])
        values = values if scale is None else scale(values)
        with np.errstate(over="ignore"):  # logits of ±1e308 in one row: the difference is -inf, an impossible class
            x = log_softmax(values)
        return np.maximum(x, LOG_FLOOR, out=x)
    x = complete(values, sums=sums, out=values)
    return np.maximum(x, FLOOR, out=x) if log is None else log(x)


def label_predictions(
    X: object, *, logits: bool = False, words: Words = CALIBRATOR
) -> tuple[FloatArray, FloatArray, list[Label] | None]:
    """Probabilities that labels are not, and are, true, each at least `FLOOR`, and the names of the columns.

    A list of arrays (n, 2), one for each label, is what forests of scikit-learn give.
    """
    name = words.predictions
    if isinstance(X, list) and X and all(getattr(part, "ndim", 0) == 2 for part in X):
        shapes = sorted({part.shape for part in X})
        if len(shapes) > 1 or shapes[0][1] != 2:
            raise ValueError(
                f"{name} is a list of arrays of the shapes {list_names(shapes, 3)}; one array of shape (n, 2) per "
                "label is expected, with the probabilities that it is false and that it is true."
            )
        X = np.column_stack([part[:, 1] for part in X])
    array, names = as_matrix(X, words)
    if array.ndim == 1:
        raise ValueError(f"{name} has one dimension; a matrix is expected with one column per label.")
    values = array.astype(np.float64)
    least, most = (-np.inf, np.inf) if logits else (0.0, 1.0 + ROUNDING)
    wrong = ~((values >= least) & (values <= most))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        where = f"{values[row, column]:.6g} at {_place((row, column))}"
        if np.isnan(values[row, column]):
            raise ValueError(f"Input {name} contains NaN: {where}. Remove or repair such rows.")
        scaled = np.nanmin(values) >= 0.0 and all(are_percentages(values[:, [j]]) for j in range(values.shape[1]))
        advice = "These look like percentages: divide them by 100." if scaled else words.logits
        raise ValueError(f"{name} holds {where}: probabilities lie between 0 and 1. {advice}")
    if logits:
        small = np.exp(-np.abs(values))
        lesser, greater = small / (1.0 + small), 1.0 / (1.0 + small)
        on, off = np.where(values >= 0.0, greater, lesser), np.where(values >= 0.0, lesser, greater)
    else:
        on = np.minimum(values, 1.0)
        off = 1.0 - on
    return np.maximum(off, FLOOR), np.maximum(on, FLOOR), names


#: Rows that tell whether supposed logits are probabilities; more would cost time and say the same.
LOOKED_AT = 1000


def check_logits(array: AnyArray, words: Words = CALIBRATOR) -> None:
    """Refuse supposed logits that are surely probabilities; warn of a single column that may be."""
    values = array[:LOOKED_AT].reshape(min(len(array), LOOKED_AT), -1)
    if len(values) < LEAST_ROWS:
        return
    whole = whole_of_probabilities(values)
    if whole:
        scaled = "" if whole == 1.0 else " and divide by 100"
        raise ValueError(
            f"The rows of {words.predictions} sum to {whole:g} and none holds a negative number: these are "
            f"probabilities, not logits. Leave out input='logits'{scaled}."
        )
    if saturate(values):
        raise ValueError(
            f"As logits, the numbers in {words.predictions} are so large that nearly every row would be certain, and "
            "rows could not be told apart. Pass input='scores', which finds the scale and the direction of any "
            "numbers."
        )
    if may_be_probabilities(values):
        warnings.warn(
            f"{words.predictions} holds no negative number: these may be probabilities, not logits. In that case leave "
            "out input='logits'.",
            CalibrationWarning,
            stacklevel=4,
        )


def check_scores(array: AnyArray) -> FloatArray:
    """Scores (n, columns) as float64; an error if one of them is not finite."""
    values = array.astype(np.float64).reshape(len(array), -1)
    if not np.isfinite(values).all():
        place = tuple(np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"Input X contains NaN or infinity: {values[place]} at {_place(place)}. Scores are finite numbers."
        )
    return values


def _check(
    values: AnyFloatArray,
    first_row: int,
    words: Words,
    *,
    logits: bool = False,
    renormalize: bool = False,
    rounding: float = ROUNDING,
) -> AnyFloatArray | None:
    """The sums of the rows, if all rows can be used; else an error about the first that cannot."""
    wrong, sums = examine(values, logits=logits, renormalize=renormalize, rounding=rounding)
    if (row := first_true(wrong)) is None:
        return sums
    name = words.predictions
    kind, column, value = find_fault(values[row], logits=logits, renormalize=renormalize, rounding=rounding)
    place = _place((first_row + row, *(() if column is None else (column,))))
    if kind == "impossible":
        raise ValueError(f"All logits of {place} are -inf: at least one class must be possible.")
    if kind in ("missing", "infinite"):
        advice = (
            "Logits are finite numbers, or -inf for an impossible class." if logits else "Remove or repair such rows."
        )
        raise ValueError(f"Input {name} contains NaN or infinity: {value} at {place}. {advice}")
    if kind == "range":
        advice = words.scores if saturate(values) else words.logits
        advice = "These look like percentages: divide them by 100." if are_percentages(values) else advice
        raise ValueError(f"{name} holds {value:.6g} at {place}: probabilities lie between 0 and 1. {advice}")
    advice = "It cannot be rescaled to probabilities." if renormalize else words.rescale
    raise ValueError(f"Row {first_row + row} of {name} sums to {value:.6g}, not to 1. {advice}")
