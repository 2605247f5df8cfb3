"""Calibrators: scikit-learn estimators that map predicted probabilities to calibrated ones.

Every class can be imported from here; each is loaded on first use. The classes are those of the registry, and a few
that are not methods by themselves.
"""

from calibrant.calibrators.registry import list_calibrators
from calibrant.lazy import attach

_HOMES = [
    (".base", "Calibrator"),
    (".lifting", "OneVsOneCalibrator OneVsRestCalibrator"),
    (".scaling.option_calibrator", "OptionCalibrator"),
    *((module, name) for module, _, name in (str(info.factory).partition(":") for info in list_calibrators())),
]

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
