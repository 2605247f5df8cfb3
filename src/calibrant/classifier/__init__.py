"""`CalibratedClassifier`: any scikit-learn classifier with calibrated probabilities."""

from calibrant.classifier.estimator import CalibratedClassifier

__all__ = ["CalibratedClassifier"]
