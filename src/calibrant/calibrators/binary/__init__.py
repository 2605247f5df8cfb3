"""Calibrators of one probability, lifted to many classes one against the rest."""

from calibrant.lazy import attach

# Pickles of version 0.1.0 look for this class here.
_HOME = "calibrant.calibrators.scaling.binary_logistic"
__getattr__, __dir__, __all__ = attach(__name__, [(_HOME, "BinaryLogisticCalibrator")])
