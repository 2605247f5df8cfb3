"""
Which classes were confused
===========================

Logistic regression tells kinds of storms apart. The matrix of structured matrix scaling, minus the identity,
shows what the score of each class gains from the evidence for the others.
"""

from calibrant import SMSCalibrator
from calibrant.bench.data.embedded import embedded_predictions
from calibrant.files.predictions.source import select
from calibrant.plots import CorrectionMatrixDisplay

source = embedded_predictions()
data = source.load(*select(source.experiments(), ["storms"], ["LR"]))
p, y = data.probas_cal, data.labels_cal

_ = CorrectionMatrixDisplay.from_estimator(SMSCalibrator().fit(p, y))
