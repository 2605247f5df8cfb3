"""Measures of probabilistic predictions: pure functions of labels and probabilities that return numbers or tables.

Arguments follow scikit-learn: labels first, then probabilities. Every scalar metric takes `sample_weight`, is known
to `evaluate` and `confidence_interval` by the name of its function, and has a bootstrap interval on request.
"""

from calibrant.metrics.belt import calibration_belt
from calibrant.metrics.binned import (
    calibration_curve,
    classwise_reliability_tables,
    ece,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_table,
    rms_calibration_error,
)
from calibrant.metrics.corp import classwise_corp_curves, corp_curve
from calibrant.metrics.evaluation import evaluate
from calibrant.metrics.frequencies import ClassFrequencies, calibration_in_the_large, positive_gap
from calibrant.metrics.hypothesis import calibration_test
from calibrant.metrics.intervals import confidence_interval, list_metrics
from calibrant.metrics.losses import (
    accuracy,
    brier,
    brier_skill_score,
    confidence_gap,
    log_loss,
    ranked_probability_score,
    scaled_brier,
)
from calibrant.metrics.maps import CalibrationMap, CorrectionMatrix, calibration_map, correction_matrix
from calibrant.metrics.murphy import MurphyDiagram, murphy_diagram
from calibrant.metrics.named_tests import (
    CoxCalibration,
    cox_calibration,
    expected_observed_ratio,
    hosmer_lemeshow,
    spiegelhalter,
    split_likelihood_ratio,
)
from calibrant.metrics.part_metrics import LabelMetrics, SegmentCalibration, multilabel_metrics, segment_calibration
from calibrant.metrics.recalibration import (
    Decomposition,
    calibration_loss,
    decompose,
    lp_calibration_error,
    post_hoc_improvement,
    refinement_loss,
)
from calibrant.metrics.result_types import CalibrationTest, Estimate, ReliabilityCurve, ScoreParts
from calibrant.metrics.running import Running, RunningMetrics
from calibrant.metrics.slope import Miscalibration, calibration_slope, miscalibration
from calibrant.metrics.smooth import integrated_calibration_index, smooth_curve, smooth_ece
from calibrant.metrics.sorted_scores import (
    auroc,
    gini,
    kolmogorov_smirnov,
    ks_separation,
    kuiper,
    two_bin_calibration_error,
)
from calibrant.metrics.validation import ValidationTable, validation_table

__all__ = [
    "CalibrationMap",
    "CalibrationTest",
    "ClassFrequencies",
    "CorrectionMatrix",
    "CoxCalibration",
    "Decomposition",
    "Estimate",
    "LabelMetrics",
    "Miscalibration",
    "MurphyDiagram",
    "ReliabilityCurve",
    "Running",
    "RunningMetrics",
    "ScoreParts",
    "SegmentCalibration",
    "ValidationTable",
    "accuracy",
    "auroc",
    "brier",
    "brier_skill_score",
    "calibration_belt",
    "calibration_curve",
    "calibration_in_the_large",
    "calibration_loss",
    "calibration_map",
    "calibration_slope",
    "calibration_test",
    "classwise_corp_curves",
    "classwise_reliability_tables",
    "confidence_gap",
    "confidence_interval",
    "corp_curve",
    "correction_matrix",
    "cox_calibration",
    "decompose",
    "ece",
    "evaluate",
    "expected_calibration_error",
    "expected_observed_ratio",
    "gini",
    "hosmer_lemeshow",
    "integrated_calibration_index",
    "kolmogorov_smirnov",
    "ks_separation",
    "kuiper",
    "list_metrics",
    "log_loss",
    "lp_calibration_error",
    "maximum_calibration_error",
    "miscalibration",
    "multilabel_metrics",
    "murphy_diagram",
    "positive_gap",
    "post_hoc_improvement",
    "ranked_probability_score",
    "refinement_loss",
    "reliability_table",
    "rms_calibration_error",
    "scaled_brier",
    "segment_calibration",
    "smooth_curve",
    "smooth_ece",
    "spiegelhalter",
    "split_likelihood_ratio",
    "two_bin_calibration_error",
    "validation_table",
]
