"""The steps of a fitted calibrator, made once and kept until one of its attributes changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from calibrant.steps import Step


class KeptSteps:
    """What calibrators inherit so that setting or deleting an attribute forgets their steps."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        _forget(self)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _forget(self)


class _Made(NamedTuple):
    """The steps of a fitted calibrator, and the calibrators that are made of it and have steps, too."""

    steps: list[Step]
    owners: WeakSet[KeptSteps]


#: Kept beside the calibrators, so that steps are neither copied nor pickled nor stored with them.
_MADE: WeakKeyDictionary[KeptSteps, _Made] = WeakKeyDictionary()


def kept_steps(calibrator: KeptSteps, make: Callable[[object], list[Step]]) -> list[Step]:
    """What `make` gives for a fitted calibrator, asked for again only after an attribute was set or deleted."""
    made = _MADE.get(calibrator)
    if made is None:
        made = _MADE[calibrator] = _Made(make(calibrator), WeakSet())
        for part in _parts(calibrator):
            kept_steps(part, make)
            _MADE[part].owners.add(calibrator)
    return made.steps


def _forget(calibrator: KeptSteps) -> None:
    made = _MADE.pop(calibrator, None) if _MADE else None
    for owner in made.owners if made else ():
        _forget(owner)


def _parts(calibrator: KeptSteps) -> list[KeptSteps]:
    """The calibrators that a calibrator holds."""
    values = vars(calibrator).values()
    inner = [item for value in values for item in (value if isinstance(value, (list, tuple)) else (value,))]
    return [item for item in inner if isinstance(item, KeptSteps) and "classes_" in vars(item)]
