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
    ".": "bench calibrators decisions grades metrics plots runtime",
    ".calibrators.auto.calibrator": "AutoCalibrator",
    ".calibrators.auto.sqs": "SQSCalibrator",
    ".calibrators.identity": "NoCalibrator",
    ".calibrators.lifting": "OneVsOneCalibrator OneVsRestCalibrator",
    ".calibrators.multilabel": "MultilabelCalibrator",
    ".calibrators.registry": "CalibratorInfo calibrator_info get_calibrator list_calibrators register_calibrator",
    ".calibrators.scaling.binary_logistic": "BinaryLogisticCalibrator",
    ".calibrators.scaling.logistic": "LogisticCalibrator",
    ".calibrators.scaling.option_calibrator": "OptionCalibrator",
    ".calibrators.scaling.structured": "SMSCalibrator SVSCalibrator",
    ".calibrators.scaling.temperature": "TemperatureScalingCalibrator",
    ".classifier": "CalibratedClassifier",
    ".decisions.cost_sensitive": "CostSensitiveClassifier",
    ".decisions.rule": "DecisionRule",
    ".deployment.adaptation": "adapt",
    ".deployment.monitoring.monitor": "CalibrationMonitor",
    ".deployment.segments.segmented": "SegmentedCalibrator",
    ".files.stored.audit": "record_fit",
    ".files.stored.persistence": "load save",
    ".files.tables.answer_files": "read_answers",
    ".files.tables.table_rows": "open_batches",
    ".grades.master_scale": "MasterScale",
    ".inputs.answers": "Answers",
    ".inputs.observations": "effective_counts",
    ".inputs.top_k": "TopK",
    ".inputs.words": "CalibrationWarning",
    ".report.calibration_report": "CalibrationReport",
    ".report.document_formats": "ValidationDocument",
    ".report.validation_document": "document",
    ".writers.exporting": "export",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES.items())
__all__ += ["__version__"]
