"""
Which classes were confused
===========================

Logistic regression tells kinds of storms apart. The matrix of structured matrix scaling, minus the identity,
shows what the score of each class gains from the evidence for the others.
"""

import numpy as np

from calibrant import SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.plots import CorrectionMatrixDisplay

data = load_embedded("storms", "LR")
kinds = np.array(
    [
        *("disturbance", "extratropical", "hurricane", "other low", "subtropical depression"),
        *("subtropical storm", "tropical depression", "tropical storm", "tropical wave"),
    ]
)
p, y = data.probas_cal, kinds[data.labels_cal]

_ = CorrectionMatrixDisplay.from_estimator(SMSCalibrator().fit(p, y))

# %%
# **What to see.** Read a row from left to right. The score of *tropical storm* gains 0.8 times the evidence for
# *tropical storm* itself: the model gave it too little. *Extratropical* loses 0.4: it gave that too much. Off the
# diagonal, evidence for a *hurricane* lowers the score of *tropical depression* more than the model knew.
