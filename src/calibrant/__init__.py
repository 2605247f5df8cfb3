"""Post-hoc probability calibration of classifiers.

The public names of the package; each is imported from its module on first use, so that `import calibrant` stays
as light as scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .calibrators.auto import AutoCalibrator as AutoCalibrator
    from .calibrators.binary import BinaryLogisticCalibrator as BinaryLogisticCalibrator
    from .calibrators.identity import NoCalibrator as NoCalibrator
    from .calibrators.labels import CalibrationWarning as CalibrationWarning
    from .calibrators.lifting import OneVsOneCalibrator as OneVsOneCalibrator
    from .calibrators.lifting import OneVsRestCalibrator as OneVsRestCalibrator
    from .calibrators.logistic import LogisticCalibrator as LogisticCalibrator
    from .calibrators.registry import CalibratorInfo as CalibratorInfo
    from .calibrators.registry import get_calibrator as get_calibrator
    from .calibrators.registry import list_calibrators as list_calibrators
    from .calibrators.registry import register_calibrator as register_calibrator
    from .calibrators.sqs import SQSCalibrator as SQSCalibrator
    from .calibrators.structured import SMSCalibrator as SMSCalibrator
    from .calibrators.structured import SVSCalibrator as SVSCalibrator
    from .calibrators.temperature import TemperatureScalingCalibrator as TemperatureScalingCalibrator
    from .classifier import CalibratedClassifier as CalibratedClassifier
    from .io.persistence import load as load
    from .io.persistence import save as save

_HOME = {
    "AutoCalibrator": ".calibrators.auto",
    "BinaryLogisticCalibrator": ".calibrators.binary",
    "CalibratedClassifier": ".classifier",
    "CalibrationWarning": ".calibrators.labels",
    "CalibratorInfo": ".calibrators.registry",
    "LogisticCalibrator": ".calibrators.logistic",
    "NoCalibrator": ".calibrators.identity",
    "OneVsOneCalibrator": ".calibrators.lifting",
    "OneVsRestCalibrator": ".calibrators.lifting",
    "SMSCalibrator": ".calibrators.structured",
    "SQSCalibrator": ".calibrators.sqs",
    "SVSCalibrator": ".calibrators.structured",
    "TemperatureScalingCalibrator": ".calibrators.temperature",
    "get_calibrator": ".calibrators.registry",
    "list_calibrators": ".calibrators.registry",
    "load": ".io.persistence",
    "register_calibrator": ".calibrators.registry",
    "save": ".io.persistence",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
