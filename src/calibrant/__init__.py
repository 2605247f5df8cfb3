"""Post-hoc probability calibration of classifiers.

The public names of the package; each is imported from its module on first use, so that `import calibrant` stays
as light as scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.lazy import attach

__version__ = "1.0.0rc1"

if TYPE_CHECKING:
    from calibrant.calibrators.auto.calibrator import AutoCalibrator as AutoCalibrator
    from calibrant.calibrators.auto.sqs import SQSCalibrator as SQSCalibrator
    from calibrant.calibrators.identity import NoCalibrator as NoCalibrator
    from calibrant.calibrators.lifting import OneVsOneCalibrator as OneVsOneCalibrator
    from calibrant.calibrators.lifting import OneVsRestCalibrator as OneVsRestCalibrator
    from calibrant.calibrators.multilabel import MultilabelCalibrator as MultilabelCalibrator
    from calibrant.calibrators.registry import CalibratorInfo as CalibratorInfo
    from calibrant.calibrators.registry import calibrator_info as calibrator_info
    from calibrant.calibrators.registry import get_calibrator as get_calibrator
    from calibrant.calibrators.registry import list_calibrators as list_calibrators
    from calibrant.calibrators.registry import register_calibrator as register_calibrator
    from calibrant.calibrators.scaling.binary_logistic import BinaryLogisticCalibrator as BinaryLogisticCalibrator
    from calibrant.calibrators.scaling.logistic import LogisticCalibrator as LogisticCalibrator
    from calibrant.calibrators.scaling.option_calibrator import OptionCalibrator as OptionCalibrator
    from calibrant.calibrators.scaling.structured import SMSCalibrator as SMSCalibrator
    from calibrant.calibrators.scaling.structured import SVSCalibrator as SVSCalibrator
    from calibrant.calibrators.scaling.temperature import TemperatureScalingCalibrator as TemperatureScalingCalibrator
    from calibrant.classifier import CalibratedClassifier as CalibratedClassifier
    from calibrant.decisions.cost_sensitive import CostSensitiveClassifier as CostSensitiveClassifier
    from calibrant.decisions.rule import DecisionRule as DecisionRule
    from calibrant.deployment.adaptation import adapt as adapt
    from calibrant.deployment.monitoring.monitor import CalibrationMonitor as CalibrationMonitor
    from calibrant.deployment.segments.segmented import SegmentedCalibrator as SegmentedCalibrator
    from calibrant.files.stored.audit import record_fit as record_fit
    from calibrant.files.stored.persistence import load as load
    from calibrant.files.stored.persistence import save as save
    from calibrant.files.tables.answer_files import read_answers as read_answers
    from calibrant.files.tables.table_rows import open_batches as open_batches
    from calibrant.grades.master_scale import MasterScale as MasterScale
    from calibrant.inputs.answers import Answers as Answers
    from calibrant.inputs.observations import effective_counts as effective_counts
    from calibrant.inputs.top_k import TopK as TopK
    from calibrant.inputs.words import CalibrationWarning as CalibrationWarning
    from calibrant.report.calibration_report import CalibrationReport as CalibrationReport
    from calibrant.report.document_formats import ValidationDocument as ValidationDocument
    from calibrant.report.validation_document import document as document
    from calibrant.writers.exporting import export as export

_HOMES = {
    "Answers": ".inputs.answers",
    "AutoCalibrator": ".calibrators.auto.calibrator",
    "BinaryLogisticCalibrator": ".calibrators.scaling.binary_logistic",
    "CalibratedClassifier": ".classifier",
    "CalibrationMonitor": ".deployment.monitoring.monitor",
    "CalibrationReport": ".report.calibration_report",
    "CalibrationWarning": ".inputs.words",
    "CalibratorInfo": ".calibrators.registry",
    "CostSensitiveClassifier": ".decisions.cost_sensitive",
    "DecisionRule": ".decisions.rule",
    "LogisticCalibrator": ".calibrators.scaling.logistic",
    "MasterScale": ".grades.master_scale",
    "MultilabelCalibrator": ".calibrators.multilabel",
    "NoCalibrator": ".calibrators.identity",
    "OneVsOneCalibrator": ".calibrators.lifting",
    "OneVsRestCalibrator": ".calibrators.lifting",
    "OptionCalibrator": ".calibrators.scaling.option_calibrator",
    "SMSCalibrator": ".calibrators.scaling.structured",
    "SQSCalibrator": ".calibrators.auto.sqs",
    "SVSCalibrator": ".calibrators.scaling.structured",
    "SegmentedCalibrator": ".deployment.segments.segmented",
    "TemperatureScalingCalibrator": ".calibrators.scaling.temperature",
    "TopK": ".inputs.top_k",
    "ValidationDocument": ".report.document_formats",
    "adapt": ".deployment.adaptation",
    "bench": ".",
    "calibrator_info": ".calibrators.registry",
    "calibrators": ".",
    "decisions": ".",
    "document": ".report.validation_document",
    "effective_counts": ".inputs.observations",
    "export": ".writers.exporting",
    "get_calibrator": ".calibrators.registry",
    "grades": ".",
    "list_calibrators": ".calibrators.registry",
    "load": ".files.stored.persistence",
    "metrics": ".",
    "open_batches": ".files.tables.table_rows",
    "plots": ".",
    "read_answers": ".files.tables.answer_files",
    "record_fit": ".files.stored.audit",
    "register_calibrator": ".calibrators.registry",
    "runtime": ".",
    "save": ".files.stored.persistence",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
__all__ += ["__version__"]
