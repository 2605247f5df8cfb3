"""Life after fitting: calibrators adapted to new class frequencies.

Every public name can be imported from here; each is loaded on first use.
"""

from calibrant.lazy import attach

_HOMES = {
    "AdaptedCalibrator": ".adaptation",
    "adapt": ".adaptation",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
