"""Fitted calibrators as plain JSON values and back: parameters, arrays, nested calibrators, and nothing that could run.

A value JSON does not have is an object with the key ``"$"``: a number that is not finite, a NumPy array or scalar, a
tuple, a dictionary, a calibrator. Python writes the shortest decimal that reads back as the same float, so every
number returns bit for bit. Reading makes objects of this package's own classes only. Arrays that a calibrator and its
map both hold are stored once: those of trees are most of a large file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.lifting import OneVsOneCalibrator, OneVsRestCalibrator
from calibrant.calibrators.multilabel import MultilabelCalibrator
from calibrant.calibrators.registry import list_calibrators
from calibrant.calibrators.scaling.option_calibrator import OptionCalibrator
from calibrant.deployment.adapted import AdaptedCalibrator
from calibrant.deployment.chain import ChainedCalibrator
from calibrant.deployment.segments.segmented import SegmentedCalibrator
from calibrant.typing import AnyArray

#: Sizes that a file may claim without holding as many values: empty arrays, and texts shorter than their type.
_MOST_UNFILLED = 1_000_000
_NOT_FINITE = ("nan", "inf", "-inf")
#: What versions 0.1 and 0.2 called parameters and fitted attributes that have other names today, by class.
_RENAMED: dict[str, dict[str, str]] = {
    "AutoCalibrator": {"chosen_": "member_weights_"},
    "BinaryLogisticCalibrator": {"type": "function", "opt": "solver"},
    "DirichletCalibrator": {"lam": "lambda_coef", "mu": "lambda_intercept"},
    "DirichletCVCalibrator": {
        "lams": "lambdas_coef",
        "mus": "lambdas_intercept",
        "lam_": "lambda_coef_",
        "mu_": "lambda_intercept_",
    },
    "LogisticCalibrator": {"binary_type": "binary_method", "multiclass_type": "multiclass_method"},
    "OneVsOneCalibrator": {"calibrator": "method"},
    "OneVsRestCalibrator": {"calibrator": "method"},
    "SMSCalibrator": {"opt": "solver"},
    "SVSCalibrator": {"opt": "solver"},
    "SegmentedCalibrator": {"calibrator": "method"},
}


#: Calibrators that can be stored and are not methods of the registry.
_WRAPPERS: tuple[type[object], ...] = (
    OneVsRestCalibrator,
    OneVsOneCalibrator,
    AdaptedCalibrator,
    ChainedCalibrator,
    SegmentedCalibrator,
    OptionCalibrator,
    MultilabelCalibrator,
)
#: What a file may hold.
STORED = (Calibrator, MultilabelCalibrator)


class CalibratorFileError(ValueError):
    """A file that does not hold a calibrator, or a calibrator that cannot be stored."""


def encode(value: object, where: str = "it") -> Any:
    """`value` as a JSON value; `where` names it in errors."""
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
    if isinstance(value, (list, range)):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$": "tuple", "items": [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
    if type(value) is dict:
        pairs = [[encode(key, where), encode(item, f"{where}[{key!r}]")] for key, item in value.items()]
        return {"$": "dict", "items": pairs}
    if isinstance(value, STORED) and _find_class(type(value).__name__) is type(value):
        return _encode_object(value, where)
    if hasattr(value, "to_numpy"):
        return _encode_array(np.asarray(value.to_numpy()), where)
    raise CalibratorFileError(
        f"This calibrator cannot be stored as JSON: {where} is of type "
        f"{type(value).__module__}.{type(value).__qualname__}. Store calibrators that hold models of other packages, "
        "such as trees, with pickle, joblib or skops."
    )


def _encode_array(array: AnyArray, where: str) -> dict[str, object]:
    kind = array.dtype.kind
    flat = array.ravel()
    data: list[Any]
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


def _encode_object(value: Any, where: str) -> dict[str, object]:
    parameters = value.get_params(deep=False)
    # The audit record and the decision rule stand beside the calibrator, for everyone to read.
    beside = {*parameters, "audit_", "rule_"}
    state = {name: item for name, item in vars(value).items() if name not in beside}
    name = f"{where}.{{}}" if where != "it" else "{}"
    return {
        "$": "calibrator",
        "class": type(value).__name__,
        "parameters": {key: encode(item, name.format(key)) for key, item in parameters.items()},
        "state": {key: encode(item, name.format(key)) for key, item in state.items()},
    }


def decode(value: object) -> Any:
    """The value that `encode` was given."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind == "float":
        return _float(value["value"])
    if kind == "array":
        return _decode_array(value)
    if kind == "scalar":
        return _decode_array(value["array"])[()]
    if kind == "tuple":
        return tuple(decode(item) for item in _expect(value["items"], list))
    if kind == "dict":
        return {decode(key): decode(item) for key, item in _expect(value["items"], list)}
    if kind == "calibrator":
        return _decode_object(value)
    raise CalibratorFileError(f"This file holds a value of the unknown kind {kind!r:.40}.")


def _expect(value: object, kind: type) -> Any:
    if not isinstance(value, kind):
        raise CalibratorFileError(f"This file is damaged: {value!r:.40} found where a {kind.__name__} should be.")
    return value


def _float(item: Any) -> float:
    if item not in _NOT_FINITE and type(item) not in (int, float):
        raise CalibratorFileError(f"This file is damaged: {item!r:.40} found where a number should be.")
    return float(item)


def _decode_array(value: Mapping[str, object]) -> AnyArray:
    spelling = _expect(value["dtype"], str)
    if not re.fullmatch(r"[<|]([fiub][1248]|U\d{1,9}|[mM]8(\[\d{0,9}\w{1,2}\])?|O)", spelling, re.ASCII):
        raise CalibratorFileError(f"This file is damaged: it holds an array of the type {spelling!r:.40}.")
    dtype = np.dtype(spelling)
    shape = tuple(_expect(size, int) for size in _expect(value["shape"], list))
    data = _expect(value["data"], list)
    if min(shape, default=1) < 0 or max(shape, default=0) > max(len(data), _MOST_UNFILLED) or len(shape) > 8:
        raise CalibratorFileError(f"This file is damaged: it holds an array of shape {shape!r:.60}.")
    if math.prod(shape) != len(data):
        raise CalibratorFileError(f"This file is damaged: an array of shape {shape} has {len(data)} numbers.")
    if dtype.kind == "O":
        array = np.empty(len(data), dtype=object)
        array[:] = [decode(item) for item in data]
    elif dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = np.array([_float(item) for item in data], dtype=dtype)
    else:
        exact = {"U": str, "b": bool}.get(dtype.kind, int)
        if any(type(item) is not exact for item in data):
            raise CalibratorFileError(f"This file is damaged: an array of the type {spelling} holds other values.")
        filled = sum(map(len, data)) if exact is str else 0
        if exact is str and dtype.itemsize // 4 * len(data) > 100 * filled + _MOST_UNFILLED:
            raise CalibratorFileError(f"This file is damaged: it holds texts of the type {spelling}.")
        array = np.array(data, dtype=np.int64).view(dtype) if dtype.kind in "mM" else np.array(data, dtype=dtype)
    return array.reshape(shape)


def _decode_object(value: Mapping[str, object]) -> Any:
    # Version 0.1.0 wrote module:Class; where a class lives is nothing that a file can know.
    name = _expect(value["class"], str).rpartition(":")[2]
    cls = _find_class(name)
    if cls is None:
        raise CalibratorFileError(
            f"This file names the class {name!r:.80}, which is not a calibrator of this version of calibrant."
        )
    today = _RENAMED.get(name, {})
    parameters, state = (
        {today.get(key, key): decode(item) for key, item in _expect(value[part], dict).items()}
        for part in ("parameters", "state")
    )
    if unknown := sorted(set(parameters) - set(cls._get_param_names())):
        raise CalibratorFileError(
            f"This file's {name} has the parameters {', '.join(unknown)!r:.80}, which this version of calibrant does "
            "not know: it was written by another version."
        )
    calibrator = cls(**parameters)
    if state:
        calibrator.__dict__.update(state)
        calibrator.check_state()
    return calibrator


def _find_class(name: str) -> Any:
    """The storable calibrator of this name: those of registered methods that can be stored, and the wrappers."""
    for cls in _WRAPPERS:
        if cls.__name__ == name:
            return cls
    for info in list_calibrators():
        spelling = info.factory if isinstance(info.factory, str) else getattr(info.factory, "__name__", "")
        if info.stores and spelling.rpartition(":")[2] == name:
            cls = type(info.make())
            return cls if issubclass(cls, Calibrator) and cls.__name__ == name else None
    return None


#: Shorter arrays are stored twice: they take little space, and the file is easier to read.
_LEAST = 64
_Path = list[str | int]


def share(content: object, maps: object) -> bool:
    """Replace the numbers of arrays in `content` that `maps` also has by their place there; whether there were any."""
    found = {_key(numbers): path for path, numbers in _arrays(maps, []) if len(numbers) >= _LEAST}
    shared = False
    for array in _encoded(content):
        path = found.pop(_key(array["data"]), None) if len(array["data"]) >= _LEAST else None
        if path is not None:
            del array["data"]
            array["in_map"] = path
            shared = True
    return shared


def restore(content: object, maps: Any) -> None:
    """Undo `share`; each array of the map is taken once, so that a small file cannot claim much memory."""
    taken = set()
    for array in _encoded(content):
        path = array.pop("in_map", None)
        if path is None:
            continue
        if str(path) in taken:
            raise ValueError(f"the array at {path!r:.60} of the map is used twice")
        taken.add(str(path))
        value = maps
        for key in path:
            value = value[key]
        array["data"] = _flat(value)


def _encoded(value: object) -> Iterator[dict[str, Any]]:
    """Encoded arrays of numbers within a value, outermost first."""
    if isinstance(value, list):
        for item in value:
            yield from _encoded(item)
    elif isinstance(value, dict):
        if value.get("$") == "array":
            if str(value.get("dtype"))[1:2] in {"f", "i"}:
                yield value
            return
        for item in value.values():
            yield from _encoded(item)


def _arrays(value: object, path: _Path) -> Iterator[tuple[_Path, list[object]]]:
    """Lists of numbers, nested or not, within a map, with where they stand."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _arrays(item, [*path, key])
    elif isinstance(value, list):
        numbers = _flat(value)
        if all(type(number) in (int, float) for number in numbers):
            yield path, numbers
        else:
            for i, item in enumerate(value):
                yield from _arrays(item, [*path, i])


def _flat(value: object) -> list[object]:
    return [number for item in value for number in _flat(item)] if isinstance(value, list) else [value]


def _key(numbers: Sequence[object]) -> tuple[Any, ...]:
    # 1 and 1.0, 0.0 and -0.0 are equal in Python and different in a file.
    return tuple(map(repr, numbers))
