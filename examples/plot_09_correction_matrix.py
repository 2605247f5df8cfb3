"""
Which classes were confused
===========================

Logistic regression tells kinds of storms apart. The matrix of structured matrix scaling, minus the identity,
shows what the score of each class gains from the evidence for the others.
"""

from calibrant import SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.plots import CorrectionMatrixDisplay

data = load_embedded("storms", "LR")
p, y = data.probas_cal, data.labels_cal

_ = CorrectionMatrixDisplay.from_estimator(SMSCalibrator().fit(p, y))
