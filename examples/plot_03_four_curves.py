"""
Four kinds of reliability curve
===============================

The same predictions, drawn in four ways: without bins, smoothed by a kernel, as a belt that tests the
diagonal, and in bins.
"""

import matplotlib.pyplot as plt

from calibrant.bench import load_embedded
from calibrant.plots import ReliabilityDisplay

data = load_embedded("health_insurance", "RF")
p, y = data.probas_cal, data.labels_cal

figure, axes = plt.subplots(2, 2, figsize=(9, 9), layout="constrained")
for curve, ax in zip(("corp", "kernel", "belt", "bins"), axes.flat):
    ReliabilityDisplay.from_predictions(y[:1000], p[:1000], curve=curve, name=curve, ax=ax)
