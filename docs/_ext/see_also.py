"""What belongs together: adds "See also" to the page of a name, and to a calibrator's page where it was published."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from calibrant.calibrators.registry import list_calibrators

#: Each name points to the others of its group; names without a dot are those of `import calibrant`.
GROUPS = (
    "AutoCalibrator SQSCalibrator SMSCalibrator SVSCalibrator TemperatureScalingCalibrator LogisticCalibrator",
    "BinaryLogisticCalibrator LogisticCalibrator",
    "get_calibrator list_calibrators calibrator_info CalibratorInfo register_calibrator",
    "CalibratedClassifier AutoCalibrator",
    "OneVsRestCalibrator OneVsOneCalibrator BinaryLogisticCalibrator",
    "NoCalibrator AutoCalibrator",
    "CalibrationReport metrics.evaluate metrics.miscalibration plots.ReliabilityDisplay",
    "save load runtime.load runtime.Map export",
    "open_batches TopK",
    "CalibrationMonitor SegmentedCalibrator adapt deployment.AdaptedCalibrator deployment.ChainedCalibrator",
    "metrics.log_loss metrics.brier metrics.accuracy metrics.auroc metrics.evaluate",
    "metrics.evaluate metrics.confidence_interval metrics.list_metrics metrics.RunningMetrics metrics.Running "
    "metrics.Estimate",
    "metrics.ece metrics.expected_calibration_error metrics.maximum_calibration_error metrics.rms_calibration_error "
    "metrics.smooth_ece metrics.lp_calibration_error metrics.kuiper metrics.kolmogorov_smirnov",
    "metrics.calibration_test metrics.CalibrationTest metrics.kuiper",
    "metrics.confidence_gap metrics.positive_gap metrics.calibration_slope metrics.calibration_in_the_large "
    "metrics.ClassFrequencies",
    "metrics.miscalibration metrics.Miscalibration metrics.calibration_slope metrics.calibration_in_the_large",
    "metrics.decompose metrics.Decomposition metrics.calibration_loss metrics.refinement_loss "
    "metrics.post_hoc_improvement",
    "metrics.ReliabilityCurve metrics.corp_curve metrics.ScoreParts metrics.classwise_corp_curves "
    "metrics.smooth_curve metrics.calibration_belt plots.ReliabilityDisplay",
    "metrics.reliability_table metrics.ReliabilityCurve metrics.classwise_reliability_tables "
    "metrics.calibration_curve plots.ReliabilityDisplay",
    "metrics.calibration_map metrics.CalibrationMap plots.CalibrationMapDisplay",
    "metrics.correction_matrix metrics.CorrectionMatrix plots.CorrectionMatrixDisplay",
    "plots.ReliabilityDisplay plots.BeforeAfterDisplay plots.ClasswiseReliabilityDisplay",
)


def _found(name: str) -> Any:
    module, _, attribute = f"calibrant.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)  # a name that is gone stops the build


def _neighbours() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for group in map(str.split, GROUPS):
        for name in group:
            known = table.setdefault(f"calibrant.{name}", [])
            known += [other for other in group if other != name and other not in known]
    return table


def _add(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    neighbours = app.calibrant_neighbours.get(name)
    if neighbours and "See Also" not in lines:
        lines += ["", "See Also", "--------"]
        for other in neighbours:
            summary = (inspect.getdoc(_found(other)) or "").split("\n\n")[0].replace("\n", " ")
            lines.append(f"calibrant.{other} : {summary}")
    if inspect.isclass(obj) and "References" not in lines:
        published = {i.reference for i in list_calibrators() if i.reference and i.factory.endswith(f":{obj.__name__}")}
        if published:
            lines += ["", "References", "----------", "; ".join(sorted(published)), ""]


def setup(app: Any) -> dict[str, bool]:
    app.calibrant_neighbours = _neighbours()
    app.connect("autodoc-process-docstring", _add, priority=100)  # before numpydoc reads the sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
