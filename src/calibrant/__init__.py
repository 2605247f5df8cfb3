"""Post-hoc probability calibration of classifiers."""

__version__ = "0.1.0"
