"""Arrays that a fitted calibrator and its map both hold, stored once: those of trees are most of a large file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Shorter arrays are stored twice: they take little space, and the file is easier to read.
_LEAST = 64
_Path = list[str | int]


def share(content: Any, maps: Any) -> bool:
    """Replace the numbers of encoded arrays in `content` that `maps` has, too, by where these stand; whether any was.

    >>> numbers = [float(i) for i in range(100)]
    >>> content = {"coef_": {"$": "array", "dtype": "<f8", "shape": [100], "data": numbers}}
    >>> share(content, {"steps": [{"matrix": [numbers[:50], numbers[50:]]}]})
    True
    >>> content["coef_"]["in_map"]
    ['steps', 0, 'matrix']
    """
    found = {_key(numbers): path for path, numbers in _arrays(maps, []) if len(numbers) >= _LEAST}
    shared = False
    for array in _encoded(content):
        path = found.pop(_key(array["data"]), None) if len(array["data"]) >= _LEAST else None
        if path is not None:
            del array["data"]
            array["in_map"] = path
            shared = True
    return shared


def restore(content: Any, maps: Any) -> None:
    """Undo `share`.

    Each array of the map is taken once, so that a small file cannot claim much memory.
    """
    taken = set()
    for array in _encoded(content):
        path = array.pop("in_map", None)
        if path is None:
            continue
        if str(path) in taken:
            raise ValueError(f"the array at {path!r:.60} of the map is taken twice")
        taken.add(str(path))
        value = maps
        for key in path:
            value = value[key]
        array["data"] = _flat(value)


def _encoded(value: Any) -> Iterator[dict[str, Any]]:
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


def _arrays(value: Any, path: _Path) -> Iterator[tuple[_Path, list[Any]]]:
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


def _flat(value: Any) -> list[Any]:
    return [number for item in value for number in _flat(item)] if isinstance(value, list) else [value]


def _key(numbers: list[Any]) -> tuple[Any, ...]:
    # 1 and 1.0, 0.0 and -0.0 are equal in Python and different in a file.
    return tuple(map(repr, numbers))
