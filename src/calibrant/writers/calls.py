"""Steps as calls of a few functions that hold plain numbers: what the writers of source code spell in their languages.

A step becomes a function's name and its arguments: numbers, flat arrays, and lists of steps that are functions
themselves. Functions given by points become one: pieces of a polynomial each, found by binary search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.steps.base import NotSupportedError as NotSupportedError
from calibrant.steps.base import branches_of
from calibrant.steps.decisions import decides
from calibrant.steps.lines import pieces as pieces
from calibrant.typing import FloatArray


@dataclass(frozen=True)
class Call:
    """A function of a row of `before` columns that returns a row of `after` columns."""

    name: str
    before: int
    after: int
    arguments: tuple[Any, ...] = ()
    parts: tuple[s.Steps, ...] = ()


def calls(steps: s.Steps, width: int) -> list[Call]:
    """The calls of a list of steps for rows of `width` columns."""
    out = []
    for step in steps:
        name, arguments = spell(step, width)
        after = step.check(width)
        out.append(Call(name, width, after, arguments, tuple(getattr(step, "parts", ()))))
        width = after
    return out


def mixes(steps: s.Steps) -> bool:
    """Whether a step weighs columns against each other."""
    return any(isinstance(step, (s.Linear, s.Kernel)) or any(map(mixes, branches_of(step))) for step in steps)


def check_precision(steps: s.Steps, dtype: Any, inside: Any = None) -> tuple[Any, Any]:
    """The precision of what goes in and comes out, and that of the computation.

    That is double where a step decides, and where columns are mixed: the logarithm of an impossible class is rounded by
    more than other classes' logarithms allow.
    """
    for given in (dtype, inside):
        if given is not None and str(given) not in ("float64", "float32") and given not in (np.float64, np.float32):
            raise ValueError(f'{given!r} is no precision of numbers: take "float64" or "float32".')
    if inside is None:
        inside = np.float64 if decides(steps) or mixes(steps) else dtype
    return np.dtype(dtype), np.dtype(inside)


@singledispatch
def spell(step: s.Step, width: int) -> tuple[str, tuple[Any, ...]]:
    """The function of a step and its arguments."""
    raise NotSupportedError(f"A step of the kind {step.kind or 'function'!r} cannot be written as source code.")


def _plain(name: str) -> Any:
    return lambda step, width: (name, ())


for _kind, _name in (
    (s.Exp, "exp_all"),
    (s.Log, "log_all"),
    (s.Softmax, "softmax"),
    (s.Normalize, "normalize"),
    (s.LogOdds, "log_odds"),
    (s.Lead, "lead"),
    (s.Sigmoid, "sigmoid"),
    (s.Complement, "complement"),
    (s.Sum, "add"),
    (s.KeepTop, "keep_top"),
    (s.OneVsRest, "one_vs_rest"),
    (s.OneVsOne, "one_vs_one"),
):
    spell.register(_kind, _plain(_name))


@spell.register
def _(step: s.Clip, width: int) -> tuple[str, tuple[Any, ...]]:
    return "clip", (step.low, step.high)


@spell.register
def _(step: s.Mix, width: int) -> tuple[str, tuple[Any, ...]]:
    return "mix", (step.weight,)


@spell.register
def _(step: s.Scale, width: int) -> tuple[str, tuple[Any, ...]]:
    return "scale", (_full(step.factor, width), _full(step.shift, width))


@spell.register
def _(step: s.Polynomial, width: int) -> tuple[str, tuple[Any, ...]]:
    return "polynomial", (step.coefficients, len(step.coefficients))


@spell.register
def _(step: s.Columns, width: int) -> tuple[str, tuple[Any, ...]]:
    return "columns", (step.index, len(step.index))


@spell.register
def _(step: s.Linear, width: int) -> tuple[str, tuple[Any, ...]]:
    columns = step.matrix.shape[1]
    return "linear", (step.matrix, _full(step.shift, columns), columns)


@spell.register
def _(step: s.Curves, width: int) -> tuple[str, tuple[Any, ...]]:
    return "curves", (step.coefficients,)


@spell.register
def _(step: s.Kernel, width: int) -> tuple[str, tuple[Any, ...]]:
    return "kernel", (step.landmarks, len(step.landmarks), step.spread, step.weight, step.bandwidth)


@spell.register
def _(step: s.Trees, width: int) -> tuple[str, tuple[Any, ...]]:
    count, depth = step.features.shape
    columns = step.values.shape[2]
    return "trees", (step.features, step.subtracted, step.thresholds, step.values, count, depth, columns)


@spell.register
def _(step: s.Levels, width: int) -> tuple[str, tuple[Any, ...]]:
    return "levels", (step.intercept, step.slope, len(step.intercept))


@spell.register
def _(step: s.Join, width: int) -> tuple[str, tuple[Any, ...]]:
    return "join", (np.array([s.check_steps(part, width) for part in step.parts]),)


@spell.register(s.StepFunction)
@spell.register(s.Line)
@spell.register(s.Spline)
def _(step: Any, width: int) -> tuple[str, tuple[Any, ...]]:
    edges, origins, coefficients = pieces(step)
    return "piecewise", (edges, len(edges), origins, coefficients, coefficients.shape[1])


def _full(value: FloatArray | float, width: int) -> FloatArray:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (width,))
