"""NumPy arrays out of a pickle without unpickling it: no name in the file is looked up, nothing is called.

A pickle is a program for a small stack machine. This module runs the few instructions that tuples and lists of
numbers and arrays are written with (protocols 0 to 5, NumPy 1 and 2) on stand-ins of its own. What the file says of
an array is reduced to a numeric type from a closed list, a shape and bytes that must fit each other. NumPy's own
reconstruction is never used: it believes a file that calls eight bytes a pointer to an object.
"""

from __future__ import annotations

import math
import pickletools
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Far more than four arrays or a list of labels need; a file of nothing but instructions is refused early.
MAX_INSTRUCTIONS = 5_000_000

_PUSH = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NAMES = {
    "numpy ndarray": "array class",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "empty array",
    "numpy.core.multiarray scalar": "scalar",
    "numpy.core.numeric _frombuffer": "array of buffer",
    "_codecs encode": "encode",
}


class PickledArrayError(ValueError):
    """A pickle that holds something else than tuples and lists of numeric arrays and numbers."""


@dataclass(frozen=True)
class _Name:
    meaning: str


@dataclass
class _Type:
    spelling: str
    order: str = "="

    def make(self) -> np.dtype[Any]:
        return np.dtype({"|": "", "=": "", "<": "<", ">": ">"}[self.order] + self.spelling)


@dataclass
class _Array:
    """An array before its contents are known."""

    value: NDArray[Any] | None = None


@dataclass
class _Machine:
    size: int
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    encoded: int = 0

    def run(self, name: str, argument: Any) -> None:
        """Carry out one instruction."""
        if name in _PUSH:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif name in _TUPLES:
            self.stack.append(tuple(self._pop(_TUPLES[name])))
        elif name in ("TUPLE", "LIST"):
            items = self._since_mark()
            self.stack.append(tuple(items) if name == "TUPLE" else items)
        elif name == "EMPTY_LIST":
            self.stack.append([])
        elif name in ("APPEND", "APPENDS"):
            items = self._since_mark() if name == "APPENDS" else self._pop(1)
            _expect(self._top(), list).extend(items)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if argument is None else argument] = self._top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self.stack.append(_name(argument if name == "GLOBAL" else " ".join(self._pop(2))))
        elif name == "REDUCE":
            function, arguments = self._pop(2)
            self.stack.append(self._call(_expect(function, _Name).meaning, *_expect(arguments, tuple)))
        elif name == "BUILD":
            target, state = self._top(2), _expect(self._pop(1)[0], tuple)
            if isinstance(target, _Type):
                self._set_order(target, *state)
            else:
                self._fill(_expect(target, _Array), *state[-4:])
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise PickledArrayError(f"the instruction {name} is not part of a NumPy array")

    def _top(self, depth: int = 1) -> Any:
        return self.stack[-depth]

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise PickledArrayError("the pickle is damaged")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _call(self, meaning: str, *arguments: Any) -> Any:
        """What the few functions of a pickled array stand for."""
        if meaning == "encode":
            text, encoding = arguments
            if encoding not in ("latin1", "latin-1"):
                raise PickledArrayError("the pickle is damaged")
            return self._bytes(_expect(text, str))
        if meaning == "dtype":
            return _Type(_spelling(arguments[0]))
        if meaning == "empty array" and arguments[0] == _Name("array class"):
            return _Array()
        if meaning == "scalar":
            kind, data = arguments
            return self._array(kind, (), data)[()]
        if meaning == "array of buffer":
            data, kind, shape, order, *axes = arguments
            if axes or order not in ("C", "F"):
                raise PickledArrayError("an array with its axes in an unusual order")
            return _Array(self._array(kind, shape, data, order))
        raise PickledArrayError("the pickle is damaged")

    def _set_order(self, kind: _Type, version: Any, order: Any, subtype: Any, names: Any, fields: Any, *_: Any) -> None:
        """Of a type's state only the order of bytes is used; sizes and flags are what the name says."""
        if subtype is not None or names is not None or fields is not None:
            raise PickledArrayError("an array of structures")
        if order not in ("<", ">", "|", "="):
            raise PickledArrayError("the pickle is damaged")
        kind.order = order

    def _fill(self, array: _Array, shape: Any, kind: Any, fortran: Any, data: Any) -> None:
        array.value = self._array(kind, shape, data, "F" if fortran is True or fortran == 1 else "C")

    def _array(self, kind: Any, shape: Any, data: Any, order: Any = "C") -> NDArray[Any]:
        dtype = _expect(kind, _Type).make()
        sizes = [_expect(size, int) for size in _expect(shape, tuple)]
        data = self._bytes(data) if isinstance(data, str) else _expect(data, (bytes, bytearray))
        if min(sizes, default=0) < 0 or math.prod(sizes) * dtype.itemsize != len(data) or len(sizes) > 8:
            raise PickledArrayError(f"{len(data)} bytes for an array of shape {tuple(sizes)!r:.60} and type {dtype}")
        # Bytes other than 0 and 1 are no booleans.
        flat = np.frombuffer(data, np.uint8) != 0 if dtype == np.bool_ else np.frombuffer(data, dtype)
        return flat.reshape(sizes, order=order)

    def _bytes(self, text: str) -> bytes:
        """Bytes written as text. Each is in the file once, so that naming one text again and again is refused."""
        self.encoded += len(text)
        if self.encoded > self.size:
            raise PickledArrayError("the pickle is damaged")
        return text.encode("latin1")


def read_pickled_arrays(data: bytes) -> Any:
    """Tuples and lists of arrays and numbers in a pickle.

    Parameters
    ----------
    data : bytes
        The pickle.

    Returns
    -------
    What was pickled: an array, a number, or tuples and lists of them.

    Raises
    ------
    PickledArrayError
        Anything else is in the file. A `ValueError`.

    Examples
    --------
    >>> import pickle
    >>> read_pickled_arrays(pickle.dumps((np.zeros(2), [1])))
    (array([0., 0.]), [1])
    >>> read_pickled_arrays(pickle.dumps(print))
    Traceback (most recent call last):
        ...
    calibrant.files.prediction_sets.pickled_arrays.PickledArrayError: builtins.print is not part of a NumPy array
    """
    machine = _Machine(len(data))
    try:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            machine.run(instruction.name, argument)
            if number > MAX_INSTRUCTIONS:
                raise PickledArrayError(f"more than {MAX_INSTRUCTIONS} instructions")
        if len(machine.stack) != 1:
            raise PickledArrayError("the pickle is damaged")
        return _finished(machine.stack[0], {})
    except PickledArrayError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, RecursionError, AttributeError) as error:
        raise PickledArrayError(f"the pickle is damaged ({error})") from None


def _finished(value: Any, seen: dict[int, Any]) -> Any:
    """`value` with arrays for their stand-ins. Shared parts are visited once; a part of itself is refused."""
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


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise PickledArrayError("the pickle is damaged")
    return value


def _name(spelling: str) -> _Name:
    meaning = _NAMES.get(spelling.replace("numpy._core.", "numpy.core."))
    if meaning is None:
        raise PickledArrayError(f"{spelling.replace(' ', '.'):.80} is not part of a NumPy array")
    return _Name(meaning)


def _spelling(text: Any) -> str:
    spelling = text.decode("latin1") if isinstance(text, bytes) else _expect(text, str)
    if not re.fullmatch(r"b1|[iu][1248]|f[248]", spelling):
        what = "Python objects" if spelling.startswith("O") else f"the type {spelling!r:.20}"
        raise PickledArrayError(f"an array of {what}; numbers are expected")
    return spelling
