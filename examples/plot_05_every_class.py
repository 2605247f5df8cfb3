"""
Every class by itself
=====================

A forest grades diamonds. Over all classes it looks fair; but one grade gets probabilities that are too low.
"""

import numpy as np

from calibrant.bench import load_embedded
from calibrant.plots import ClasswiseReliabilityDisplay

data = load_embedded("diamonds", "RF")
cuts = np.array(["Fair", "Good", "Ideal", "Premium", "Very Good"])
p, y = data.probas_cal, cuts[data.labels_cal]

_ = ClasswiseReliabilityDisplay.from_predictions(y, p)

# %%
# **What to see.** Each panel is one cut against the rest. *Fair*, the rarest, gets probabilities that are too
# low: where the forest says 30 %, most diamonds are *Fair*. The other four stay close to their bands.
