"""Fitted calibrators as plain JSON values and back: parameters, arrays, nested calibrators, and nothing that could run.

A value JSON does not have is an object with the key ``"$"``: a number that is not finite, a NumPy array or scalar, a
tuple, a dictionary, a calibrator. Python writes the shortest decimal that reads back as the same float, so every
number returns bit for bit. Reading makes objects of this package's own classes only.
"""

from __future__ import annotations

import dataclasses
import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.moved import MOVED

#: Where classes that may be stored live; a file that names others is refused before anything is imported.
_HOMES = ("calibrant.calibrators.", "calibrant.softmax.")
#: Modules of version 0.1.0 whose names are packages now: where their classes went.
_NOW_PACKAGES = {
    "calibrant.calibrators.auto": "calibrant.calibrators.auto.calibrator",
    "calibrant.calibrators.binary": "calibrant.calibrators.scaling.binary_logistic",
}
_PACKAGE = Path(__file__).parents[2]


class CalibratorFileError(ValueError):
    """A file that is not a calibrator, or a calibrator that cannot be a file."""


def encode(value: Any, where: str = "it") -> Any:
    """`value` in terms of JSON; `where` names it in errors.

    Examples
    --------
    >>> encode({"a": (1, float("inf"))})
    {'$': 'dict', 'items': [['a', {'$': 'tuple', 'items': [1, {'$': 'float', 'value': 'inf'}]}]]}
    """
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, np.str_) else value
    if isinstance(value, np.generic):
        return {"$": "scalar", "array": _encode_array(np.asarray(value), where)}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, where)
    if isinstance(value, list):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$": "tuple", "items": [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
    if type(value) is dict:
        pairs = [[encode(key, where), encode(item, f"{where}[{key!r}]")] for key, item in value.items()]
        return {"$": "dict", "items": pairs}
    if _is_ours(type(value)):
        return _encode_object(value, where)
    if hasattr(value, "to_numpy"):
        return _encode_array(np.asarray(value.to_numpy()), where)
    raise CalibratorFileError(
        f"This calibrator cannot be stored as JSON: {where} is of type "
        f"{type(value).__module__}.{type(value).__qualname__}. Calibrators that hold models of other packages, such "
        "as trees, travel with pickle, joblib or skops."
    )


def _encode_array(array: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
    kind = array.dtype.kind
    flat = array.ravel()
    if kind == "f" and array.dtype.itemsize <= 8:
        data = [item if math.isfinite(item) else repr(item) for item in flat.tolist()]
    elif kind in "biuU":
        data = flat.tolist()
    elif kind in "mM":
        data = flat.view(np.int64).tolist()
    elif kind == "O":
        data = [encode(item, f"{where}[{i}]") for i, item in enumerate(flat.tolist())]
    else:
        raise CalibratorFileError(f"This calibrator cannot be stored as JSON: {where} is an array of {array.dtype}.")
    little = array.dtype.newbyteorder("<").str if kind in "fiuUmM" else array.dtype.str
    return {"$": "array", "dtype": little, "shape": list(array.shape), "data": data}


def _encode_object(value: Any, where: str) -> dict[str, Any]:
    cls = type(value)
    if dataclasses.is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kind, parameters = "record", {}
    else:
        parameters = value.get_params(deep=False)
        state = {name: item for name, item in vars(value).items() if name not in parameters}
        kind = "calibrator"
    name = f"{where}.{{}}" if where != "it" else "{}"
    return {
        "$": kind,
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "parameters": {key: encode(item, name.format(key)) for key, item in parameters.items()},
        "state": {key: encode(item, name.format(key)) for key, item in state.items()},
    }


def _is_ours(cls: type) -> bool:
    ours = cls.__module__.startswith(_HOMES) and "." not in cls.__qualname__
    return ours and (issubclass(cls, Calibrator) or dataclasses.is_dataclass(cls))


def decode(value: Any) -> Any:
    """What `encode` was given.

    Examples
    --------
    >>> decode(encode({"a": (1, float("inf"))}))
    {'a': (1, inf)}
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind == "float":
        return float(_expect(value["value"], str))
    if kind == "array":
        return _decode_array(value)
    if kind == "scalar":
        return _decode_array(value["array"])[()]
    if kind == "tuple":
        return tuple(decode(item) for item in _expect(value["items"], list))
    if kind == "dict":
        return {decode(key): decode(item) for key, item in _expect(value["items"], list)}
    if kind in ("calibrator", "record"):
        return _decode_object(value, kind)
    raise CalibratorFileError(f"This file holds a value of the unknown kind {kind!r}.")


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise CalibratorFileError(f"This file is damaged: {value!r:.40} stands where a {kind.__name__} should.")
    return value


def _decode_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    spelling = _expect(value["dtype"], str)
    if not re.fullmatch(r"[<|]([fiub]\d|U\d+|[mM]8(\[\d*\w+\])?|O)", spelling):
        raise CalibratorFileError(f"This file is damaged: it holds an array of the type {spelling!r:.40}.")
    dtype = np.dtype(spelling)
    shape = tuple(_expect(size, int) for size in _expect(value["shape"], list))
    data = _expect(value["data"], list)
    if min(shape, default=1) < 0 or math.prod(shape) != len(data):
        raise CalibratorFileError(f"This file is damaged: an array of shape {shape} has {len(data)} numbers.")
    if dtype.kind == "O":
        array = np.empty(len(data), dtype=object)
        array[:] = [decode(item) for item in data]
    elif dtype.kind in "mM":
        array = np.array(data, dtype=np.int64).view(dtype)
    else:
        array = np.array([float(item) for item in data] if dtype.kind == "f" else data, dtype=dtype)
    return array.reshape(shape)


def _decode_object(value: dict[str, Any], kind: str) -> Any:
    cls = _find_class(_expect(value["class"], str))
    parameters = {name: decode(item) for name, item in _expect(value["parameters"], dict).items()}
    state = {name: decode(item) for name, item in _expect(value["state"], dict).items()}
    if kind == "record":
        if not dataclasses.is_dataclass(cls) or {field.name for field in dataclasses.fields(cls)} != set(state):
            raise CalibratorFileError(f"This file is damaged: it holds a {cls.__name__} of other parts.")
        instance: Any = cls.__new__(cls)
        for name, item in state.items():
            object.__setattr__(instance, name, item)
        return instance
    if not issubclass(cls, Calibrator):
        raise CalibratorFileError(f"This file is damaged: {cls.__name__} is not a calibrator.")
    if set(parameters) != set(cls._get_param_names()):
        raise CalibratorFileError(
            f"This file's {cls.__name__} has the parameters {sorted(parameters)}, but this version of calibrant has "
            f"{sorted(cls._get_param_names())}: it was written by another version."
        )
    if any(callable(getattr(cls, name, None)) or not name.isidentifier() for name in state):
        raise CalibratorFileError(f"This file is damaged: it holds methods of {cls.__name__}.")
    calibrator = cls(**parameters)
    calibrator.__dict__.update(state)
    return calibrator


def _find_class(spelling: str) -> type[Any]:
    """A class of this package by its address; nothing is imported that is not a module of the package."""
    module, _, name = spelling.partition(":")
    module = {**MOVED, **_NOW_PACKAGES}.get(module, module)
    inside = re.fullmatch(r"calibrant(\.[a-z_][a-z0-9_]*)+", module) and module.startswith(_HOMES)
    if inside and _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").is_file():
        cls = getattr(import_module(module), name, None)
        if isinstance(cls, type) and cls.__module__ == module and _is_ours(cls):
            return cls
    raise CalibratorFileError(
        f"This file names the class {spelling!r:.80}, which is not a calibrator of this version of calibrant."
    )
