"""
A map of three classes
======================

Where structured matrix scaling sends the predictions of a model that says how happy people are: arrows on
the triangle of probabilities.
"""

from calibrant import SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.plots import CalibrationMapDisplay

data = load_embedded("happiness", "LR")
p, y = data.probas_cal, data.labels_cal

_ = CalibrationMapDisplay.from_estimator(SMSCalibrator().fit(p, y))
