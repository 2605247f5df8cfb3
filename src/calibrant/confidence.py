"""Levels of confidence: what they may be, intervals of frequencies, and how far few observations stretch intervals.

Wilson's interval holds the frequencies `o` from which the observed one `f` is no further than `z` standard deviations
away, `|f - o| ≤ z sqrt(o (1 - o) / n)`. It stays inside [0, 1] and keeps its level for few trials and for frequencies
of 0 and 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtrit

from calibrant.typing import AnyFloatArray


def check_level(level: object) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return float(level)


def student_stretch(level: float, units: float) -> float:
    """How much longer the interval of a mean of so many observations is than a resampling of them tells."""
    if np.isinf(units):
        return 1.0
    freedom = max(units - 1.0, 1.0)
    return float(stdtrit(freedom, (1 + level) / 2) / ndtri((1 + level) / 2) * np.sqrt(1 + 2 / freedom))


def wilson_interval(
    frequency: AnyFloatArray, count: AnyFloatArray, level: float
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Wilson's interval of a frequency observed in `count` trials."""
    check_level(level)
    z2 = float(ndtri((1 + level) / 2)) ** 2
    centre = (frequency + z2 / (2 * count)) / (1 + z2 / count)
    spread = frequency * (1 - frequency) / count + z2 / (4 * count**2)
    half = np.sqrt(z2 * np.clip(spread, 0, None)) / (1 + z2 / count)
    return np.clip(centre - half, 0, frequency), np.clip(centre + half, frequency, 1)


#: With fewer groups than this in a bin, nothing is assumed of how much their rows depend on each other.
FEWEST_GROUPS = 10


def independent_trials(frequency: AnyFloatArray, count: AnyFloatArray, products: AnyFloatArray) -> AnyFloatArray:
    """How many independent trials `count` observations of groups are worth.

    That is `n = f (1 - f) / V` with the variance `V = Σ_g (H_g - f N_g)² / N²` of the frequency over groups, between
    `N² / Σ N_g²` (rows of a group are all alike) and `N`. `products` are `Σ N_g²`, `Σ N_g H_g` and `Σ H_g²` over
    groups; where there are none, over observations, and the number is `N`.
    """
    alike = count**2 / products[0]
    variance = products[2] - 2 * frequency * products[1] + frequency**2 * products[0]
    inflated = variance * alike / np.maximum(alike - 1, 1e-9)
    found = frequency * (1 - frequency) * count**2 / np.maximum(inflated, 1e-300)
    few = (alike < FEWEST_GROUPS) | (frequency <= 0) | (frequency >= 1)
    return np.where(few, alike, np.clip(found, alike, count))
