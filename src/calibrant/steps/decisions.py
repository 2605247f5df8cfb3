"""Which maps decide: a rounded number may then be on the other side of where the result changes."""

from __future__ import annotations

from calibrant.steps.features import Trees
from calibrant.steps.lines import Line, Spline, StepFunction
from calibrant.steps.step import Steps, branches_of


def decides(steps: Steps) -> bool:
    """Whether a step asks on which side of a number a value lies, so that a rounded value may get another answer."""
    return any(
        isinstance(step, (Trees, StepFunction, Line, Spline)) or any(map(decides, branches_of(step))) for step in steps
    )
