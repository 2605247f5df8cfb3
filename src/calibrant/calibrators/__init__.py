"""Calibrators: scikit-learn estimators that map predicted probabilities to calibrated ones, one family a file."""
