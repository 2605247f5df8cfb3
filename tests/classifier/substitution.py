"""A pytest plugin that puts this package's names where scikit-learn's own tests import theirs from."""

from __future__ import annotations

import sklearn.calibration

import calibrant
import calibrant.metrics


def pytest_configure(config):
    sklearn.calibration.CalibratedClassifierCV = calibrant.CalibratedClassifier
    sklearn.calibration.calibration_curve = calibrant.metrics.calibration_curve
