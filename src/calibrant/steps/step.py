"""What a step is: a few arrays, what they do to a block of rows, and how both are stored and checked.

A fitted map is a short list of steps. The first gets probabilities (rows × classes) that sum to one and are at least
`FLOOR`, each next one what the last returned, and the last returns probabilities. A step that needs more than one value
holds lists of steps itself. Everything here needs NumPy alone, and a row's result never depends on the rows beside it.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from calibrant.typing import AnyArray, FloatArray

#: No number in a stored step is larger.
LARGE = 1e100

#: Lists inside of lists: one-vs-rest of a blend of branches needs three.
_DEEPEST = 6

_KINDS: dict[str, type[Step]] = {}


class NotSupportedError(ValueError):
    """A map that a target cannot express."""


class Step(ABC):
    """Base of the steps, which are frozen dataclasses; `kind` is the name in files, that of the class in small letters.

    Calibrators make steps of what they know to be right; `decode` makes and checks those that come from a file.

    Examples
    --------
    >>> from calibrant.steps import Softmax, Step
    >>> isinstance(Softmax(), Step), Softmax.kind
    (True, 'softmax')
    """

    kind: ClassVar[str]
    #: How many columns the step takes, and returns, if that is always the same.
    takes: ClassVar[int] = 0
    gives: ClassVar[int] = 0
    #: Whether the step compares values with thresholds, so that a rounded value may end up on the other side.
    decides: ClassVar[bool] = False
    #: Whether it weighs columns against each other.
    mixes: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls.__base__ is Step and "kind" not in vars(cls):  # a faster twin of a step keeps its kind
            cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
            _KINDS[cls.kind] = cls

    @property
    def width(self) -> int:
        """The number of columns returned, if the step itself determines it; else 0."""
        return 0

    @abstractmethod
    def apply(self, x: FloatArray) -> FloatArray:
        """The step's result for rows `x` (n, width), which may be overwritten."""

    def check(self, width: int) -> int:
        """The number of columns returned for `width` columns; a ValueError if the arrays do not fit them."""
        expected = "one column is" if self.takes == 1 else "two columns are"
        require(self.takes in (0, width), f"{expected} expected, there are {width}")
        return self.gives or width


Steps = Sequence[Step]


@dataclasses.dataclass(frozen=True)
class Function(Step):
    """Any function of rows: what cannot be stored or exported still runs among steps.

    Examples
    --------
    >>> from calibrant.steps import Function, run
    >>> run([Function(np.sqrt)], np.array([[0.25]]))
    array([[0.5]])
    """

    kind: ClassVar[str] = ""
    function: Callable[[FloatArray], object] = dataclasses.field(metadata={"read": None})

    def apply(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.function(x), dtype=np.float64)


def run(steps: Steps, x: FloatArray) -> FloatArray:
    """The last result of `steps` for rows `x`, which may be overwritten.

    Examples
    --------
    >>> from calibrant.steps import Log, Scale, Softmax
    >>> run([Log(), Scale(0.5), Softmax()], np.array([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """
    for step in steps:
        x = step.apply(x)
    return x


def run_from_logs(steps: Steps, x: FloatArray) -> FloatArray:
    """`run` for log-probabilities `x`: a first step that takes logarithms has nothing left to do.

    Examples
    --------
    >>> from calibrant.steps import Log, Scale, Softmax, run_from_logs
    >>> run_from_logs([Log(), Scale(0.5), Softmax()], np.log([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """
    return run(steps[1:], x) if steps and steps[0].kind == "log" else run(steps, np.exp(x, out=x))


def widest(steps: Steps) -> int:
    """The largest number of columns that one of the steps makes by itself, whatever it is given; 0 if none does.

    Examples
    --------
    >>> from calibrant.steps import Linear, Softmax, widest
    >>> widest([Linear(np.ones((2, 7))), Softmax()])
    7
    """
    return max((step.width for step in all_steps(steps)), default=0)


def check_steps(steps: Steps, width: int) -> int:
    """The number of columns that a list returns for `width` columns; a ValueError where a step does not fit.

    Examples
    --------
    >>> from calibrant.steps import Linear, check_steps
    >>> check_steps([Linear(np.ones((2, 7)))], 2)
    7
    """
    for number, step in enumerate(steps):
        try:
            width = step.check(width)
        except ValueError as error:
            raise ValueError(f"step {number} ({step.kind}): {error}") from None
    return width


def branches_of(step: Step) -> Iterable[Steps]:
    """The lists of steps that a step holds."""
    yield from getattr(step, "parts", ())


def all_steps(steps: Steps) -> Iterator[Step]:
    """The steps of a list, each followed by those of the lists that it holds."""
    for step in steps:
        yield step
        for branch in branches_of(step):
            yield from all_steps(branch)


def decides(steps: Steps) -> bool:
    """Whether one of the steps, or of those inside them, decides."""
    return any(step.decides for step in all_steps(steps))


def require(condition: object, what: str) -> None:
    """Raise a ValueError unless `condition` holds."""
    if not condition:
        raise ValueError(what)


def require_increasing(values: AnyArray, name: str) -> None:
    """Refuse an array whose neighbours are not apart."""
    require(np.all(np.diff(values) > 1.0 / LARGE), f"{name} does not increase")


def number(default: object = dataclasses.MISSING, low: float = -LARGE, high: float = LARGE) -> Any:
    """A dataclass field that holds one number."""

    def read(value: Any) -> float:
        require(type(value) in (int, float) and low <= value <= high, f"expected a number in [{low:g}, {high:g}]")
        return float(value)

    return dataclasses.field(default=default, metadata={"read": read})


def flag(default: bool) -> bool:
    """A dataclass field that is true or false."""

    def read(value: object) -> bool:
        require(isinstance(value, bool), "expected true or false")
        return bool(value)

    return dataclasses.field(default=default, metadata={"read": read})


def array(
    *dimensions: int, integer: bool = False, low: float = -LARGE, high: float = LARGE, default: object = None
) -> Any:
    """A dataclass field that holds numbers in an array with one of these numbers of dimensions; 0 allows a number."""

    def read(value: object) -> AnyArray:
        out = np.array(value, dtype=np.int64 if integer else np.float64)
        require((out.dtype != bool and not integer) or np.array_equal(out, np.asarray(value)), "expected whole numbers")
        require(out.ndim in dimensions, f"expected {dimensions[-1]} dimensions, found {out.ndim}")
        require(np.all((out >= low) & (out <= high)), f"expected numbers in [{low:g}, {high:g}]")
        return out

    missing = dataclasses.MISSING if default is None else default
    return dataclasses.field(default=missing, metadata={"read": read})


def branches() -> Any:
    """A dataclass field that holds lists of steps."""
    return dataclasses.field(metadata={"read": _read_branches})


def _read_branches(value: Any, depth: int) -> tuple[Steps, ...]:
    require(isinstance(value, list) and value, "expected lists of steps")
    return tuple(decode(branch, depth + 1) for branch in value)


def encode(steps: Steps) -> list[dict[str, Any]]:
    """Steps in terms of JSON.

    Examples
    --------
    >>> from calibrant.steps import Scale, Softmax
    >>> encode([Scale(0.5), Softmax()])
    [{'step': 'scale', 'factor': 0.5, 'shift': 0.0}, {'step': 'softmax'}]
    """
    if any(not step.kind for step in steps):
        raise ValueError("This map runs code of another package and cannot be written to a file.")
    return [{"step": step.kind, **{f.name: _plain(getattr(step, f.name)) for f in _fields(step)}} for step in steps]


def _fields(step: Step | type[Step]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(step)  # type: ignore[arg-type]


def _plain(value: object) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [encode(branch) for branch in value] if isinstance(value, tuple) else value


def decode(value: Any, depth: int = 0) -> list[Step]:
    """The steps that `encode` was given; each number of it is checked, and nothing is run.

    Examples
    --------
    >>> decode([{"step": "scale", "factor": 0.5, "shift": 0.0}])
    [Scale(factor=array(0.5), shift=array(0.))]
    """
    require(isinstance(value, list) and depth <= _DEEPEST, "expected a list of steps")
    return [_decode_step(item, number, depth) for number, item in enumerate(value)]


def _decode_step(item: Any, place: int, depth: int) -> Step:
    require(isinstance(item, dict), f"step {place} is not an object")
    cls = _KINDS.get(item["step"]) if isinstance(item.get("step"), str) else None
    if cls is None:
        raise ValueError(f"step {place} is of the kind {item.get('step')!r:.40}, which this version does not know")
    fields = {field.name: field.metadata["read"] for field in _fields(cls)}
    require(set(item) == {"step", *fields}, f"step {place} ({cls.kind}) should hold {', '.join(fields) or 'nothing'}")
    out = {}
    for name, read in fields.items():
        nested: Callable[..., object] = read
        try:
            out[name] = nested(item[name], depth) if read is _read_branches else nested(item[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"step {place} ({cls.kind}), {name}: {error!s:.200}") from None
    return cls(**out)
