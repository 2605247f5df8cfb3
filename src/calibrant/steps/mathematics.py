"""A fitted map as lines of mathematics with its numbers, for people: `x₂ = 0.57 · x₁`, from the probabilities p to q.

Numbers have six digits; lists too long to read are given by their size and range, and the file holds them all. A map of
two classes whose log-odds are a straight line of the predicted ones is also one line: `logit q = 0.1 + 0.8 · logit p`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant.steps.lines import Spline, StepFunction
from calibrant.steps.step import Step, Steps, run
from calibrant.text_table import list_names
from calibrant.typing import FloatArray

#: Numbers of a list, rows and columns of a matrix, points of a curve, and parts of one-vs-rest that are written out.
_LISTED, _SQUARE, _POINTS, _PARTS = 10, 4, 12, 2
_LOWER = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def formula(steps: Steps, width: int) -> list[str]:
    """The lines of a map of `width` probabilities p; the last line is q.

    >>> from calibrant.steps import Log, Scale, Softmax
    >>> formula([Log(), Scale(0.5, np.array([0.0, 0.1])), Softmax()], 2)
    ['x₁ = log p', 'x₂ = 0.5 · x₁ + (0, 0.1)', 'q = softmax(x₂)']
    """
    lines = _Lines()
    lines.run(steps, "p", width)
    return [*lines.text[:-1], f"q = {lines.text[-1].partition(' = ')[2]}"] if lines.text else ["q = p"]


def number(value: float) -> str:
    """A number with six digits and a true minus sign."""
    return f"{value + 0.0:.6g}".replace("-", "−")


def numbers(values: object) -> str:
    """One number, a list, a matrix by its rows, or how large and where they are."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        return number(float(array))
    if array.ndim == 1 and len(array) <= _LISTED:
        return f"({', '.join(map(number, array))})"
    if array.ndim == 2 and max(array.shape) <= _SQUARE:
        return f"[{'; '.join(' '.join(map(number, row)) for row in array)}]"
    size = " × ".join(map(str, array.shape))
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        off = array[~np.eye(len(array), dtype=bool)]
        return f"[{size} numbers: {_range(np.diag(array))} on the diagonal, {_range(off)} elsewhere]"
    return f"({size} numbers {_range(array)})"


def _range(array: FloatArray) -> str:
    return f"from {number(float(array.min()))} to {number(float(array.max()))}"


def _signs(text: str) -> str:
    return text.replace("+ −", "− ")


class _Lines:
    """Lines so far; rows are numbered in their order."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._count = 0

    def add(self, value: str) -> str:
        """A new line; returns the name of its row."""
        self._count += 1
        name = f"x{str(self._count).translate(_LOWER)}"
        self.text.append(f"{name} = {_signs(value)}")
        return name

    def run(self, steps: Steps, x: str, width: int) -> str:
        """Lines of a list of steps on the row `x`; returns the name of the last."""
        for step in steps:
            parts = getattr(step, "parts", None)
            form = _FORMS[step.kind] if parts is None else self._of_parts
            x = self.add(form(step, x, width))
            width = step.check(width)
        return x

    def _of_parts(self, step: Any, x: str, width: int) -> str:
        kind, parts = step.kind, step.parts
        if kind in ("sum", "join", "keep-top"):
            names = [self.run(part, x, width) for part in parts]
            if kind == "keep-top":
                return f"{x} + t · ({names[0]} − {x}), with the largest t ≤ 1 that keeps the largest column of {x}"
            return " + ".join(names) if kind == "sum" else f"join({', '.join(names)})"
        rest, names = kind == "one-vs-rest", []
        for j, part in enumerate(parts[:_PARTS], 1):
            pair = f"(1 − {x}[{j}], {x}[{j}])" if rest else f"the two columns of pair {j} of {x} over their sum"
            names.append(self.run(part, self.add(pair), 2))
        if len(parts) > _PARTS:
            self.text.append(f"... and {len(parts) - _PARTS} more likewise, with numbers of their own")
        if rest:
            return f"({', '.join([f'{name}[2]' for name in names] + ['...'] * (len(parts) > _PARTS))})"
        return f"1 / (Σ 1/r − {width - 2}) for each class, r being its column in each of its pairs"


def _shift(step: Any) -> str:
    return f" + {numbers(step.shift)}" if np.any(step.shift) else ""


def _terms(coefficients: FloatArray, factors: Sequence[str]) -> str:
    """A sum of terms, without those of zeros."""
    return " + ".join([numbers(c) + factor for c, factor in zip(coefficients, factors) if np.any(c)]) or "0"


def _points(step: Any, x: str, width: int) -> str:
    many = len(step.values) > _POINTS
    if isinstance(step, StepFunction):
        ends = [f"{number(v)} up to {number(e)}" for v, e in zip(step.values, step.edges)]
        listed = f"steps({x}; {', '.join([*ends, f'{number(step.values[-1])} above'])})"
        return f"a step function of {x} with {len(step.values)} values {_range(step.values)}" if many else listed
    kind, short = ("a natural cubic spline", "spline") if isinstance(step, Spline) else ("straight lines", "line")
    if many:
        where = f"{_range(step.knots)}, with values {_range(step.values)}"
        return f"{kind} of {x} through {len(step.knots)} points, {where}"
    points = ", ".join(f"{number(a)} → {number(b)}" for a, b in zip(step.knots, step.values))
    return f"{short}({x}; {points}; {'continued' if step.extend else 'constant'} beyond)"


_FORMS: dict[str, Callable[[Any, str, int], str]] = {
    "log": lambda step, x, width: f"log {x}",
    "exp": lambda step, x, width: f"exp({x})",
    "clip": lambda step, x, width: f"min(max({x}, {number(step.low)}), {number(step.high)})",
    "mix": lambda step, x, width: f"{number(1 - step.weight)} · {x} + {number(step.weight)} / {width}",
    "scale": lambda step, x, width: f"{numbers(step.factor)} · {x}{_shift(step)}",
    "linear": lambda step, x, width: f"{x} × {numbers(step.matrix)}{_shift(step)}",
    "softmax": lambda step, x, width: f"softmax({x})",
    "normalize": lambda step, x, width: f"{x} / sum({x})",
    "log-odds": lambda step, x, width: f"{x}[2] − {x}[1]",
    "lead": lambda step, x, width: f"(largest of {x}, its lead before the second largest)",
    "sigmoid": lambda step, x, width: f"(1 / (1 + exp({x})), 1 / (1 + exp(−{x})))",
    "complement": lambda step, x, width: f"(1 − {x}, {x})",
    "columns": lambda step, x, width: f"{x}[{list_names(step.index + 1, _LISTED, str)}]",
    "polynomial": lambda step, x, width: _terms(
        step.coefficients, ["", *(f" · {x}" + f"^{d}" * (d > 1) for d in range(1, len(step.coefficients)))]
    ),
    "curves": lambda step, x, width: _terms(
        step.coefficients, [f" · {x}^2 / 5", f" · max(log(1 − exp({x})), −20)", f" · exp({x})"]
    ),
    "kernel": lambda step, x, width: (
        f"exp(−d² / {number(step.bandwidth)}), d being the distances of (({x} − mean {x}) / {number(step.spread)}, "
        f"{number(step.weight)} · exp({x})) from {len(step.landmarks)} landmarks"
    ),
    "trees": lambda step, x, width: (
        f"the sum of {len(step.features)} trees of depth {step.features.shape[1]}, which compare numbers of {x} or "
        f"their differences with thresholds; a tree adds {_range(step.values)}"
    ),
    "levels": lambda step, x, width: (
        f"a[s] + b[s] · {x} for the level s in the last column of {x}, 0 for any other; a = {numbers(step.intercept)}, "
        f"b = {numbers(step.slope)}"
    ),
    "step-function": _points,
    "line": _points,
    "spline": _points,
}


def log_odds_line(steps: Steps) -> str:
    """The map of two classes as one line of log-odds; nothing if it is no straight line, or for more classes."""
    inner = [step for step in steps[1:-1] if step.kind != "clip"]
    ends = steps and steps[0].kind == "log" and steps[-1].kind in ("softmax", "sigmoid")
    if not ends or not all(map(_is_straight, inner)):
        return ""
    at = run(inner, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    z = at[:, -1] - (at[:, 0] if at.shape[1] == 2 else 0.0)
    start, first, second = float(z[0]), float(z[1] - z[0]), float(z[2] - z[0])
    lead = f"{number(start)} + " if start else ""
    if abs(first + second) < 1e-9 * max(abs(first), 1.0):
        return _signs(f"logit q[2] = {lead}{number(second)} · logit p[2]")
    return _signs(f"logit q[2] = {lead}{number(second)} · log p[2] + {number(first)} · log p[1]")


def _is_straight(step: Step) -> bool:
    line = step.kind == "polynomial" and not np.any(getattr(step, "coefficients", np.ones(3))[2:])
    return line or step.kind in ("log-odds", "scale") or (step.kind == "linear" and step.width <= 2)
