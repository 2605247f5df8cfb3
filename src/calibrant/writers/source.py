"""Source code of a fitted map: one readable file without dependencies, in Python, JavaScript or C99.

Each list of steps becomes a function that calls one small function per step; only functions that are used are written.
A language says how it spells a function, an array, a call, and what it gives the user to call.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant import __version__
from calibrant import steps as s
from calibrant.inputs.rows import ROUNDING
from calibrant.runtime import Map
from calibrant.simplex import FLOOR, LOG_FLOOR
from calibrant.steps.actions import TIE, CostTable
from calibrant.steps.lines import pieces
from calibrant.steps.step import NotSupportedError

#: The columns of segments, or of amounts, of some rows, by name.
Segments = Mapping[str, NDArray[Any]]


def _full(value: Any, width: int) -> Any:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (width,))


def _piecewise(step: Any, width: int) -> list[Any]:
    edges, origins, coefficients = pieces(step)
    return [edges, len(edges), origins, coefficients, coefficients.shape[1]]


def _none(step: s.Step, width: int) -> list[Any]:
    return []


#: The function of each step in `row_functions`, and the arguments that follow the row: numbers and arrays.
CALLS: dict[str, tuple[str, Callable[[Any, int], list[Any]]]] = {
    "exp": ("exp_all", _none),
    "log": ("log_all", _none),
    "clip": ("clip", lambda step, width: [step.low, step.high]),
    "mix": ("mix", lambda step, width: [step.weight]),
    "scale": ("scale", lambda step, width: [_full(step.factor, width), _full(step.shift, width)]),
    "polynomial": ("polynomial", lambda step, width: [step.coefficients, len(step.coefficients)]),
    "softmax": ("softmax", _none),
    "normalize": ("normalize", _none),
    "columns": ("columns", lambda step, width: [step.index, len(step.index)]),
    "log-odds": ("log_odds", _none),
    "lead": ("lead", _none),
    "sigmoid": ("sigmoid", _none),
    "complement": ("complement", _none),
    "linear": ("linear", lambda step, width: [step.matrix, _full(step.shift, step.width), step.width]),
    "curves": ("curves", lambda step, width: [step.coefficients]),
    "kernel": (
        "kernel",
        lambda step, width: [step.landmarks, len(step.landmarks), step.spread, step.weight, step.bandwidth],
    ),
    "trees": (
        "trees",
        lambda step, width: [
            *(step.features, step.subtracted, step.thresholds, step.values),
            *(*step.features.shape, step.width),
        ],
    ),
    "levels": ("levels", lambda step, width: [step.intercept, step.slope, len(step.intercept)]),
    "step-function": ("piecewise", _piecewise),
    "line": ("piecewise", _piecewise),
    "spline": ("piecewise", _piecewise),
    "sum": ("add", _none),
    "join": ("join", lambda step, width: [np.array([s.check_steps(part, width) for part in step.parts])]),
    "keep-top": ("keep_top", _none),
    "one-vs-rest": ("one_vs_rest", _none),
    "one-vs-one": ("one_vs_one", _none),
}


class SourceWriter(ABC):
    """Collects the constants and functions of one map; a language spells them.

    Attributes
    ----------
    opening, closing, room : str
        The first and last line of a function of a row, and the line that makes room for numbers.
    end : str
        What ends a statement.
    """

    opening: ClassVar[str]
    closing: ClassVar[str]
    room: ClassVar[str]
    end: ClassVar[str] = ";"
    indent: ClassVar[str] = "    "

    def __init__(self, fitted: Map, notes: Iterable[str] = ()) -> None:
        self.map = fitted
        self.notes = list(notes)
        self.constants: list[str] = []
        self.maps: list[str] = []
        self.used: dict[str, None] = {}
        self.widest = fitted.k
        self._names: dict[tuple[Any, ...], str] = {}
        self.main = self._function_of(fitted.steps, fitted.k + len(fitted.segments))
        self.order = None if fitted.columns is None else self._argument(fitted.columns)
        self.prepare = self._prepare()
        self.cheapest = self._cheapest()

    def text(self) -> str:
        """The file."""
        helpers = [self.function(name) for name in self.used]
        parts = [self.head(), *helpers, "\n".join(self.constants), *self.maps, self.tail()]
        return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"

    def _function_of(self, steps: s.Steps, width: int) -> str:
        """The name of a function that runs `steps` on rows of `width` columns."""
        calls: list[tuple[str, list[str], int]] = [] if steps else [self._call("copy", width, [], width)]
        for step in steps:
            if step.kind not in CALLS:
                kind = step.kind or "function"
                raise NotSupportedError(f"A step of the kind {kind!r} cannot be written as source code.")
            name, arguments_of = CALLS[step.kind]
            after = step.check(width)
            arguments = [self._argument(value) for value in arguments_of(step, width)]
            if parts := getattr(step, "parts", ()):
                inner = 2 if name.startswith("one_vs") else width
                functions = self.function_list([self._function_of(part, inner) for part in parts])
                arguments += [functions, str(len(parts)), str(after)]
            calls.append(self._call(name, width, arguments, after))
            width = after
        name = f"map_{len(self.maps)}"
        lines, given = [self.opening.format(name)], "x"
        for number, (function, arguments, after) in enumerate(calls):
            result = "y" if number == len(calls) - 1 else f"v{number}"
            if result != "y":
                lines.append(self.indent + self.room.format(result, after))
            lines.append(f"{self.indent}{function}({', '.join([given, result, *arguments])}){self.end}")
            given = result
        self.maps.append("\n".join([*lines, self.closing]))
        return name

    def _call(self, name: str, before: int, arguments: list[str], after: int) -> tuple[str, list[str], int]:
        self.used[name] = None
        self.widest = max(self.widest, before, after)
        return name, [str(before), *arguments], after

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

    def _prepare(self) -> str:
        """The call that checks the row `row` and prepares it as `x`: it gives 1 if the row is not a prediction."""
        name, largest = "prepare_probabilities", repr(sys.float_info.max)
        limits = [largest, largest] if self.map.renormalize else [MOST_TEXT, repr(ROUNDING)]
        if self.map.logits:
            name, limits = "prepare_logits", [largest]
        if self.map.scaling is not None:
            scaling = self.map.scaling
            limits += [self._argument(_full(part, self.map.k)) for part in (scaling.factor, scaling.shift)]
            name = "prepare_scores"
            self.used["prepare_logits"] = self.used["scale"] = None
        self.used[name] = None
        return f"{name}(row, x, {', '.join([str(self.map.k), *limits])})"

    def _cheapest(self) -> str:
        """The call that gives the number of the cheapest action for probabilities `p` and `amounts`, if any."""
        rule = self.map.rule
        if rule is None:
            return ""
        self.used["cheapest"] = None
        places = np.array(list(rule.amounts.values())) if rule.amounts else np.empty(0)
        tables = [self._argument(rule.numbers), str(len(rule.numbers)), self._argument(places)]
        return f"cheapest(p, {', '.join([str(self.map.k), *tables, 'amounts', str(len(rule.amounts)), repr(TIE)])})"

    @abstractmethod
    def function(self, name: str) -> str:
        """The source of a function of `row_functions`."""

    @abstractmethod
    def head(self) -> str:
        """How the file starts: what it is, its classes and columns, and constants."""

    @abstractmethod
    def tail(self) -> str:
        """How the file ends: the function to call."""

    @abstractmethod
    def constant(self, name: str, numbers: list[str], *, integer: bool) -> str:
        """An array; an empty one is never looked at."""

    @abstractmethod
    def function_list(self, names: list[str]) -> str:
        """An expression for a list of functions."""


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
    """What a file that is not source code says about itself, in its metadata."""
    columns = [{"name": name, "levels": levels} for name, levels in fitted.segments.items()]
    return {
        **({"segments": json.dumps(columns)} if columns else {}),
        **({} if fitted.rule is None else {"actions": json.dumps(fitted.rule.to_json()["actions"])}),
        **({"amounts": json.dumps(list(fitted.rule.amounts))} if fitted.rule and fitted.rule.amounts else {}),
        "classes": json.dumps(fitted.classes),
        "columns": json.dumps(names_of_all(fitted)),
        "method": fitted.method,
        "version": f"calibrant {__version__}",
        "input": fitted.input,
        "parity": " ".join(notes),
    }


def names_of_all(fitted: Map) -> list[str]:
    """The name of each column, for targets that take one column per class: a single name is none of both."""
    return fitted.column_names if len(fitted.column_names) == fitted.k else [str(label) for label in fitted.classes]


def row_by_row(frame: Segments) -> list[dict[str, Any]]:
    """The values of each row of a frame, by column.

    Examples
    --------
    >>> row_by_row({"region": np.array(["north"]), "age": np.array([40.0])})
    [{'region': 'north', 'age': 40.0}]
    """
    return [dict(zip(frame, values)) for values in zip(*(column.tolist() for column in frame.values()))]


def amounts_of(rule: CostTable, amounts: Segments | None, n: int) -> NDArray[Any]:
    """The amounts of some rows as an array (n, amounts), in the order of the rule."""
    return np.column_stack([np.empty((n, 0)), *(() if amounts is None else (amounts[name] for name in rule.amounts))])


def title(fitted: Map) -> str:
    """One line about a map, made of words of this package only: no name of a user's class can end a comment."""
    kind = "independent labels" if fitted.independent else "classes"
    return f"A calibration map of {fitted.input} of {fitted.k} {kind}, fitted by calibrant."


LOG_FLOOR_TEXT, FLOOR_TEXT = repr(LOG_FLOOR), repr(FLOOR)
#: The largest probability, up to rounding.
MOST_TEXT = repr(1.0 + ROUNDING)
