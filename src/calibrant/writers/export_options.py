"""Values of the options of an export, and how exact a computation in single precision has to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant import steps as s
from calibrant.steps.decisions import decides
from calibrant.steps.step import branches_of


class OptionError(ValueError):
    """An option has a value that cannot be used.

    Attributes
    ----------
    option, value : its name in Python, and what it was set to; `None`: nothing.
    reason : what is wrong with it, and what to do.

    Examples
    --------
    >>> str(OptionError("dialect", "oracle", "is unknown"))
    "dialect='oracle' is unknown"
    """

    def __init__(self, option: str, value: Any, reason: str) -> None:
        super().__init__(f"{option}={value!r} {reason}")
        self.option, self.value, self.reason = option, value, reason


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
            raise ValueError(f'{given!r} is not a precision: take "float64" or "float32".')
    if inside is None:
        inside = np.float64 if decides(steps) or mixes(steps) else dtype
    return np.dtype(dtype), np.dtype(inside)
