"""Pickled pairs of logits and labels, read without unpickling: no name in the file is looked up, no function called.

NN_calibration publishes files of `((logits_val, labels_val), (logits_test, labels_test))`, named
`probs_{model}_{dataset}_logits.p`. Unpickling them would run any code that a file names.

A pickle is a program for a small stack machine. Only the instructions that tuples and lists of numbers and arrays are
written with are let through (protocols 0 to 5, NumPy 1 and 2), and each of the few names among them means a stand-in of
this module. What the file says of an array is reduced to a numeric type from a closed list, a shape and bytes that must
fit each other. NumPy's own reconstruction is never used: it believes a file that calls eight bytes a pointer to an
object.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.prediction_sets.experiments import MemorySource, PredictionFileError, SplitPredictions
from calibrant.simplex import softmax
from calibrant.typing import AnyArray

#: Far more than four arrays or a list of labels need; a file of nothing but instructions is refused early.
MAX_INSTRUCTIONS = 5_000_000

_INSTRUCTIONS = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}
_ARRAY_CLASS = "the class of arrays"


class PickledArrayError(ValueError):
    """A pickle that holds something else than tuples and lists of numeric arrays and numbers."""


class _Type:
    """Stands for a NumPy type. Of its state only the order of bytes is used: sizes and flags are what the name says."""

    def __init__(self, spelling: object, *_: object) -> None:
        self._spelling, self._order = _spelling(spelling), ""

    def __setstate__(self, state: object) -> None:
        _, order, subtype, names, fields, *_ = _expect(state, tuple)
        if subtype is not None or names is not None or fields is not None:
            raise PickledArrayError("an array of structures")
        self._order = {"|": "", "=": "", "<": "<", ">": ">"}[order]

    def make(self) -> np.dtype[Any]:
        return np.dtype(self._order + self._spelling)


class _Array:
    """Stands for an array, before and after its contents are known."""

    def __init__(self, reader: _Reader, value: AnyArray | None = None) -> None:
        self._reader, self.value = reader, value

    def __setstate__(self, state: object) -> None:
        shape, kind, fortran, data = _expect(state, tuple)[-4:]
        self.value = self._reader.array(kind, shape, data, "F" if fortran is True or fortran == 1 else "C")


class _Reader(pickle.Unpickler):
    """Python's reader of pickles, which finds stand-ins for the names of pickled arrays and nothing else."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._left = len(data)

    def find_class(self, module: str, name: str) -> object:
        known = {
            "numpy.ndarray": _ARRAY_CLASS,
            "numpy.dtype": _Type,
            "numpy.core.multiarray._reconstruct": self._empty,
            "numpy.core.multiarray.scalar": lambda kind, data: self.array(kind, (), data)[()],
            "numpy.core.numeric._frombuffer": self._of_buffer,
            "_codecs.encode": self._encoded,
        }
        found = known.get(f"{module}.{name}".replace("numpy._core.", "numpy.core."))
        if found is None:
            raise PickledArrayError(f"{f'{module}.{name}':.80} is not part of a NumPy array")
        return found

    def array(self, kind: object, shape: object, data: object, order: Any = "C") -> AnyArray:
        """An array of these bytes."""
        dtype = _expect(kind, _Type).make()
        sizes = [_expect(size, int) for size in _expect(shape, tuple)]
        data = self._encoded(data) if isinstance(data, str) else _expect(data, (bytes, bytearray))
        if min(sizes, default=0) < 0 or math.prod(sizes) * dtype.itemsize != len(data) or len(sizes) > 8:
            raise PickledArrayError(f"{len(data)} bytes for an array of shape {tuple(sizes)!r:.60} and type {dtype}")
        # Bytes other than 0 and 1 are no booleans.
        flat = np.frombuffer(data, np.uint8) != 0 if dtype == np.bool_ else np.frombuffer(data, dtype)
        return flat.reshape(sizes, order=order)

    def _empty(self, kind: object, *_: object) -> _Array:
        if kind is not _ARRAY_CLASS:
            raise PickledArrayError("the pickle is damaged")
        return _Array(self)

    def _of_buffer(self, data: object, kind: object, shape: object, order: object, *axes: object) -> _Array:
        if axes or order not in ("C", "F"):
            raise PickledArrayError("an array with its axes in an unusual order")
        return _Array(self, self.array(kind, shape, data, order))

    def _encoded(self, text: object, encoding: object = "latin1") -> bytes:
        """Bytes written as text. Each is in the file once, so a file that uses one text again and again is refused."""
        characters = _expect(text, str)
        self._left -= len(characters)
        if self._left < 0 or encoding not in ("latin1", "latin-1"):
            raise PickledArrayError("the pickle is damaged")
        return characters.encode("latin1")


def open_pickle(path: Path) -> MemorySource:
    """One pickled experiment of logits and labels; the name of the file gives model and dataset."""
    try:
        cal, test = map(_pair, _pair(read_pickled_arrays(path.read_bytes())))
        with np.errstate(invalid="ignore"):  # logits that are not finite are named below
            arrays = [a for part in (cal, test) for a in (softmax(_numbers(part[0], 2)), _numbers(part[1], 1))]
    except ValueError as error:
        raise PredictionFileError(
            f"{path}: expected pickled arrays ((logits, labels), (logits, labels)): {error}"
        ) from error
    model, _, dataset = path.stem.removeprefix("probs_").removesuffix("_logits").rpartition("_")
    predictions = SplitPredictions.checked(*arrays, where=path.name)
    return MemorySource({(dataset, model or "model", 0): predictions}, path.stem, path)


def _pair(value: object) -> tuple[object, object]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise PredictionFileError("found something other than a pair")
    return value[0], value[1]


def _numbers(value: object, n_dimensions: int) -> AnyArray:
    """An array, or a plain list of numbers: nested lists could refer to each other and fill the memory."""
    if isinstance(value, list) and all(isinstance(item, (bool, int, float, np.generic)) for item in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or not n_dimensions <= value.ndim <= 2 or not value.size:
        raise PredictionFileError("expected an array of logits and an array of labels in each pair")
    return value


def read_pickled_arrays(data: bytes) -> object:
    """Tuples and lists of arrays and numbers in a pickle; a `PickledArrayError` for anything else."""
    try:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if instruction.name not in _INSTRUCTIONS:
                raise PickledArrayError(f"the instruction {instruction.name} is not part of a NumPy array")
            # Python reserves memory up to the largest memo index; honest files count them from zero.
            if number > MAX_INSTRUCTIONS or ("PUT" in instruction.name and int(argument or 0) > number):
                raise PickledArrayError("the pickle is damaged")
        return _finished(_Reader(data).load(), {})
    except PickledArrayError:
        raise
    except Exception as error:
        raise PickledArrayError(f"the pickle is damaged ({error})") from None


def _finished(value: object, seen: dict[int, object]) -> object:
    """`value` with arrays for stand-ins. Shared parts are visited once; a list that contains itself is refused."""
    if isinstance(value, _Array):
        value = value.value
        if value is None:
            raise PickledArrayError("an array without contents")
    elif isinstance(value, (tuple, list)):
        if id(value) not in seen:
            seen[id(value)] = None
            seen[id(value)] = type(value)([_finished(item, seen) for item in value])
        value = seen[id(value)]
        if value is None:
            raise PickledArrayError("a list that contains itself")
    elif not isinstance(value, (bool, int, float, np.generic)):
        raise PickledArrayError(f"a {type(value).__name__.strip('_').lower()} is not part of a NumPy array")
    return value


def _expect(value: object, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise PickledArrayError("the pickle is damaged")
    return value


def _spelling(text: object) -> str:
    spelling = text.decode("latin1") if isinstance(text, bytes) else _expect(text, str)
    if not re.fullmatch(r"b1|[iu][1248]|f[248]", spelling):
        what = "Python objects" if spelling.startswith("O") else f"the type {spelling!r:.20}"
        raise PickledArrayError(f"an array of {what}; numbers are expected")
    return spelling
