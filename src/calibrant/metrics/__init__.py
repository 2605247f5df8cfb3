"""Measures of probabilistic predictions: pure functions of labels and probabilities that return numbers or tables.

Arguments follow scikit-learn: labels first, then probabilities. Every scalar metric takes `sample_weight`, is known
to `evaluate` and `confidence_interval` by the name of its function, and has a bootstrap interval on request.
"""

from types import ModuleType as _Module

from calibrant.metrics.belt import calibration_belt as calibration_belt
from calibrant.metrics.binned import calibration_curve as calibration_curve
from calibrant.metrics.binned import classwise_reliability_tables as classwise_reliability_tables
from calibrant.metrics.binned import ece as ece
from calibrant.metrics.binned import expected_calibration_error as expected_calibration_error
from calibrant.metrics.binned import maximum_calibration_error as maximum_calibration_error
from calibrant.metrics.binned import reliability_table as reliability_table
from calibrant.metrics.binned import rms_calibration_error as rms_calibration_error
from calibrant.metrics.corp import classwise_corp_curves as classwise_corp_curves
from calibrant.metrics.corp import corp_curve as corp_curve
from calibrant.metrics.evaluation import evaluate as evaluate
from calibrant.metrics.frequencies import ClassFrequencies as ClassFrequencies
from calibrant.metrics.frequencies import calibration_in_the_large as calibration_in_the_large
from calibrant.metrics.frequencies import positive_gap as positive_gap
from calibrant.metrics.hypothesis import calibration_test as calibration_test
from calibrant.metrics.intervals import confidence_interval as confidence_interval
from calibrant.metrics.intervals import list_metrics as list_metrics
from calibrant.metrics.losses import accuracy as accuracy
from calibrant.metrics.losses import brier as brier
from calibrant.metrics.losses import brier_skill_score as brier_skill_score
from calibrant.metrics.losses import confidence_gap as confidence_gap
from calibrant.metrics.losses import log_loss as log_loss
from calibrant.metrics.losses import ranked_probability_score as ranked_probability_score
from calibrant.metrics.losses import scaled_brier as scaled_brier
from calibrant.metrics.maps import CalibrationMap as CalibrationMap
from calibrant.metrics.maps import CorrectionMatrix as CorrectionMatrix
from calibrant.metrics.maps import calibration_map as calibration_map
from calibrant.metrics.maps import correction_matrix as correction_matrix
from calibrant.metrics.murphy import MurphyDiagram as MurphyDiagram
from calibrant.metrics.murphy import murphy_diagram as murphy_diagram
from calibrant.metrics.named_tests import CoxCalibration as CoxCalibration
from calibrant.metrics.named_tests import cox_calibration as cox_calibration
from calibrant.metrics.named_tests import expected_observed_ratio as expected_observed_ratio
from calibrant.metrics.named_tests import hosmer_lemeshow as hosmer_lemeshow
from calibrant.metrics.named_tests import spiegelhalter as spiegelhalter
from calibrant.metrics.named_tests import split_likelihood_ratio as split_likelihood_ratio
from calibrant.metrics.part_metrics import LabelMetrics as LabelMetrics
from calibrant.metrics.part_metrics import SegmentCalibration as SegmentCalibration
from calibrant.metrics.part_metrics import multilabel_metrics as multilabel_metrics
from calibrant.metrics.part_metrics import segment_calibration as segment_calibration
from calibrant.metrics.recalibration import Decomposition as Decomposition
from calibrant.metrics.recalibration import calibration_loss as calibration_loss
from calibrant.metrics.recalibration import decompose as decompose
from calibrant.metrics.recalibration import lp_calibration_error as lp_calibration_error
from calibrant.metrics.recalibration import post_hoc_improvement as post_hoc_improvement
from calibrant.metrics.recalibration import refinement_loss as refinement_loss
from calibrant.metrics.result_types import CalibrationTest as CalibrationTest
from calibrant.metrics.result_types import Estimate as Estimate
from calibrant.metrics.result_types import ReliabilityCurve as ReliabilityCurve
from calibrant.metrics.result_types import ScoreParts as ScoreParts
from calibrant.metrics.running import Running as Running
from calibrant.metrics.running import RunningMetrics as RunningMetrics
from calibrant.metrics.slope import Miscalibration as Miscalibration
from calibrant.metrics.slope import calibration_slope as calibration_slope
from calibrant.metrics.slope import miscalibration as miscalibration
from calibrant.metrics.smooth import integrated_calibration_index as integrated_calibration_index
from calibrant.metrics.smooth import smooth_curve as smooth_curve
from calibrant.metrics.smooth import smooth_ece as smooth_ece
from calibrant.metrics.sorted_scores import auroc as auroc
from calibrant.metrics.sorted_scores import gini as gini
from calibrant.metrics.sorted_scores import kolmogorov_smirnov as kolmogorov_smirnov
from calibrant.metrics.sorted_scores import ks_separation as ks_separation
from calibrant.metrics.sorted_scores import kuiper as kuiper
from calibrant.metrics.sorted_scores import two_bin_calibration_error as two_bin_calibration_error
from calibrant.metrics.validation import ValidationTable as ValidationTable
from calibrant.metrics.validation import validation_table as validation_table

__all__ = sorted(name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module))
