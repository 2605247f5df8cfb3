"""Strengths of a penalty that a calibrator chooses from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.calibrators.base import Calibrator


def strengths_to_try(calibrator: Calibrator, name: str, default: ArrayLike) -> list[float]:
    """The numbers of a parameter that holds several strengths, or `default`, strongest first."""
    given = getattr(calibrator, name)
    strengths = np.array(default if given is None else given, dtype=np.float64).ravel()
    if not strengths.size or not bool(np.all((strengths >= 0.0) & np.isfinite(strengths))):
        raise ValueError(f"{name} must be one or more finite numbers of at least 0, got {given!r}.")
    return [float(strength) for strength in np.sort(strengths)[::-1]]
