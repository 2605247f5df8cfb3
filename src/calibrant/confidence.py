"""Levels of confidence: what they may be, and how far intervals stretch where observations are few."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit


def check_level(level: Any) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


def student_stretch(level: float, units: float) -> float:
    """How much longer the interval of a mean of so many observations is than a resampling of them tells.

    Examples
    --------
    >>> round(student_stretch(0.95, 5), 2), round(student_stretch(0.95, 1e6), 4)
    (1.73, 1.0)
    """
    if np.isinf(units):
        return 1.0
    freedom = max(units - 1.0, 1.0)
    return float(stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2) * np.sqrt(1 + 2 / freedom))
