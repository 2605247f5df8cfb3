"""
Every class by itself
=====================

A forest grades diamonds. Over all classes it looks fair; single grades are predicted too timidly.
"""

from calibrant.bench import load_embedded
from calibrant.plots import ClasswiseReliabilityDisplay

data = load_embedded("diamonds", "RF")
p, y = data.probas_cal, data.labels_cal

_ = ClasswiseReliabilityDisplay.from_predictions(y, p)
