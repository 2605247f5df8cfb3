"""Pictures of calibration, in the manner of scikit-learn's displays; they need the extra `plots`.

Each display draws a table made by `calibrant.metrics`; `from_predictions` and `from_estimator` make the table too.
"""

from calibrant.plots.decision_displays import DecisionCurveDisplay, GradeDisplay, MurphyDisplay, RiskCoverageDisplay
from calibrant.plots.map_displays import CalibrationMapDisplay, CorrectionMatrixDisplay
from calibrant.plots.panels import BeforeAfterDisplay, ClasswiseReliabilityDisplay
from calibrant.plots.reliability_displays import ReliabilityDisplay

__all__ = [
    "BeforeAfterDisplay",
    "CalibrationMapDisplay",
    "ClasswiseReliabilityDisplay",
    "CorrectionMatrixDisplay",
    "DecisionCurveDisplay",
    "GradeDisplay",
    "MurphyDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
