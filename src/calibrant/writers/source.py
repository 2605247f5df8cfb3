"""Source code of a fitted map: one readable file without dependencies, in Python, JavaScript or C99.

Each list of steps becomes a function that calls one small function per step; only functions that are used are written.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import __version__
from calibrant.inputs.rows import ROUNDING
from calibrant.runtime import Map
from calibrant.simplex import FLOOR, LOG_FLOOR
from calibrant.steps import Steps
from calibrant.writers.calls import Call, calls

#: The columns of segments of some rows, by name.
Segments = Mapping[str, NDArray[Any]]


class SourceWriter(ABC):
    """Collects the constants and functions of one map; a language spells them.

    Attributes
    ----------
    functions : dict from str to str
        Source of the function of each call, `prepare` and `FUNCTIONS_THEY_NEED`.
    """

    functions: dict[str, str]

    def __init__(self, fitted: Map, notes: Iterable[str] = ()) -> None:
        self.map = fitted
        self.notes = list(notes)
        self.constants: list[str] = []
        self.maps: list[str] = []
        self.used: dict[str, None] = {}
        self.widest = fitted.k
        self._names: dict[tuple[Any, ...], str] = {}
        self.main = self.function(fitted.steps, fitted.k + len(fitted.segments))

    def text(self) -> str:
        """The file."""
        helpers = [self.functions[name] for name in self.functions if name in self.used]
        parts = [self.head(), *helpers, "\n".join(self.constants), *self.maps, self.tail()]
        return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"

    def function(self, steps: Steps, width: int) -> str:
        """The name of a function that runs `steps` on rows of `width` columns."""
        found = calls(steps, width)
        lines = []
        for call in found:
            self.used[call.name] = None
            self.widest = max(self.widest, call.before, call.after)
            arguments = [self._argument(value) for value in call.arguments]
            if call.parts:
                inner = 2 if call.name.startswith("one_vs") else call.before
                arguments += [self.function_list([self.function(part, inner) for part in call.parts])]
                arguments += [str(len(call.parts))]
            lines.append((call, arguments))
        name = f"map_{len(self.maps)}"
        self.maps.append(self.body(name, width, lines))
        return name

    def _argument(self, value: Any) -> str:
        if not isinstance(value, np.ndarray):
            return str(value) if isinstance(value, int) else repr(float(value))
        flat = np.ascontiguousarray(value).ravel()
        key = (flat.dtype.kind, flat.tobytes())
        if key not in self._names:
            self._names[key] = f"DATA_{len(self._names)}"
            numbers = [str(int(v)) if flat.dtype.kind in "iu" else repr(float(v)) for v in flat]
            self.constants.append(self.constant(self._names[key], numbers, integer=flat.dtype.kind in "iu"))
        return self._names[key]

    @abstractmethod
    def head(self) -> str:
        """How the file starts: what it is, its classes, and how a row is prepared."""

    @abstractmethod
    def tail(self) -> str:
        """How the file ends: the function to call."""

    @abstractmethod
    def constant(self, name: str, numbers: list[str], *, integer: bool) -> str:
        """An array; an empty one is never looked at."""

    @abstractmethod
    def function_list(self, names: list[str]) -> str:
        """An expression for a list of functions."""

    @abstractmethod
    def body(self, name: str, width: int, lines: list[tuple[Call, list[str]]]) -> str:
        """A function that makes these calls with these arguments, one after the other."""


def wrapped(numbers: list[str], indent: str = "    ", width: int = 110) -> str:
    """Numbers on lines of no more than `width` characters."""
    lines, line = [], ""
    for number in numbers:
        if len(line) + len(number) + 2 > width:
            lines.append(line.rstrip())
            line = ""
        line += f"{number}, "
    return "\n".join(indent + item for item in [*lines, line.rstrip()])


def facts(fitted: Map, notes: Iterable[str]) -> dict[str, str]:
    """What a file that is no source code says about itself, in its metadata."""
    columns = [{"name": name, "levels": levels} for name, levels in fitted.segments.items()]
    return {
        **({"segments": json.dumps(columns)} if columns else {}),
        "classes": json.dumps(fitted.classes),
        "method": fitted.method,
        "version": f"calibrant {__version__}",
        "input": "logits" if fitted.logits else "probabilities",
        "parity": " ".join(notes),
    }


def row_by_row(frame: Segments) -> list[dict[str, Any]]:
    """The values of each row of a frame, by column.

    Examples
    --------
    >>> row_by_row({"region": np.array(["north"]), "age": np.array([40.0])})
    [{'region': 'north', 'age': 40.0}]
    """
    return [dict(zip(frame, values)) for values in zip(*(column.tolist() for column in frame.values()))]


def title(fitted: Map) -> str:
    """One line about a map, made of words of this package only: no name of a user's class can end a comment."""
    what = "logits" if fitted.logits else "probabilities"
    return f"A calibration map of {what} of {fitted.k} classes, fitted by calibrant."


LOG_FLOOR_TEXT, FLOOR_TEXT = repr(LOG_FLOOR), repr(FLOOR)
#: The largest probability, up to rounding.
MOST_TEXT = repr(1.0 + ROUNDING)
