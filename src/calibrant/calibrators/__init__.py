"""Calibrators: scikit-learn estimators that map predicted probabilities to calibrated ones.

Every class can be imported from here; each is loaded on first use.
"""

from calibrant.lazy import attach

_HOMES = {
    "AutoCalibrator": ".auto.calibrator",
    "BBQCalibrator": ".binary.bbq",
    "BetaCalibrator": ".binary.beta",
    "BinaryLogisticCalibrator": ".scaling.binary_logistic",
    "CDFSplineCalibrator": ".binary.cdf_spline",
    "Calibrator": ".base",
    "CatBoostCalibrator": ".boosting",
    "CenteredIsotonicCalibrator": ".binary.isotonic",
    "DirichletCVCalibrator": ".scaling.dirichlet",
    "DirichletCalibrator": ".scaling.dirichlet",
    "ETSCalibrator": ".scaling.ets",
    "GuoTemperatureScalingCalibrator": ".scaling.guo",
    "HistogramCalibrator": ".binary.binning",
    "IsotonicCalibrator": ".binary.isotonic",
    "KernelCalibrator": ".kernel",
    "LightGBMCalibrator": ".boosting",
    "LogisticCalibrator": ".scaling.logistic",
    "NoCalibrator": ".identity",
    "OneVsOneCalibrator": ".lifting",
    "OneVsRestCalibrator": ".lifting",
    "PlattCalibrator": ".binary.platt",
    "SMSCalibrator": ".scaling.structured",
    "SQSCalibrator": ".auto.sqs",
    "SVSCalibrator": ".scaling.structured",
    "ScalingBinningCalibrator": ".binary.scaling_binning",
    "SplineCalibrator": ".binary.spline",
    "TemperatureScalingCalibrator": ".scaling.temperature",
    "VennAbersCalibrator": ".binary.venn_abers",
    "XGBoostCalibrator": ".boosting",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
