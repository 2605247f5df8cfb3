"""
Every class by itself
=====================

A forest grades diamonds. Over all classes it looks fair; single grades are predicted too timidly.
"""

from calibrant.bench.data.embedded import embedded_predictions
from calibrant.files.predictions.source import select
from calibrant.plots import ClasswiseReliabilityDisplay

source = embedded_predictions()
data = source.load(*select(source.experiments(), ["diamonds"], ["RF"]))
p, y = data.probas_cal, data.labels_cal

_ = ClasswiseReliabilityDisplay.from_predictions(y, p)
