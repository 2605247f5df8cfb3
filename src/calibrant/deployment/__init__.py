"""Life after fitting: calibrators adapted to new class frequencies, watched, and repaired.

Every public name can be imported from here; each is loaded on first use.
"""

from calibrant.lazy import attach

_HOMES = {
    ".adaptation": "adapt",
    ".adapted": "AdaptedCalibrator",
    ".chain": "ChainedCalibrator",
    ".monitoring.monitor": "CalibrationMonitor",
    ".segments.segmented": "SegmentedCalibrator",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES.items())
