"""
A map of three classes
======================

Where structured matrix scaling sends the predictions of a model that says how happy people are: arrows on
the triangle of probabilities.
"""

import numpy as np

from calibrant import SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.plots import CalibrationMapDisplay

data = load_embedded("happiness", "LR")
answers = np.array(["not too happy", "pretty happy", "very happy"])
p, y = data.probas_cal, answers[data.labels_cal]

_ = CalibrationMapDisplay.from_estimator(SMSCalibrator().fit(p, y))

# %%
# **What to see.** Each arrow starts at a prediction and ends at what it becomes. On the left all point to the
# right: the model was too sure of *not too happy*, and most people are *pretty happy*. Near the right edge arrows
# are short: predictions there were nearly right.
