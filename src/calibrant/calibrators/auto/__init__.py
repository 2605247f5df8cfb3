"""The flagship: members from temperature scaling to boosted trees, cross-fitted and blended by likelihood."""

from calibrant.calibrators.auto.calibrator import AutoCalibrator

__all__ = ["AutoCalibrator"]
