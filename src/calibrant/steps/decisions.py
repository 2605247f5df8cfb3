"""Which maps decide: a rounded number may then be on the other side of where the result changes."""

from __future__ import annotations

from calibrant.steps.features import Trees
from calibrant.steps.lines import Line, Spline, StepFunction
from calibrant.steps.step import Step, Steps, branches_of


def holds(steps: Steps, *kinds: type[Step]) -> bool:
    """Whether one of the steps, or of those inside them, is of one of these kinds."""
    return any(isinstance(step, kinds) or any(holds(part, *kinds) for part in branches_of(step)) for step in steps)


def decides(steps: Steps) -> bool:
    """Whether a step asks on which side of a number a value lies, so that a rounded value may get another answer."""
    return holds(steps, Trees, StepFunction, Line, Spline)
