"""Life after fitting: calibrators adapted to new class frequencies, watched, and repaired.

Every public name can be imported from here; each is loaded on first use.
"""

from calibrant.lazy import attach

_HOMES = {
    "AdaptedCalibrator": ".adapted",
    "CalibrationMonitor": ".monitoring.monitor",
    "ChainedCalibrator": ".chain",
    "SegmentedCalibrator": ".segments.segmented",
    "adapt": ".adaptation",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
