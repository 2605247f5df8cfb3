"""
Four kinds of reliability curve
===============================

The same predictions, drawn in four ways: without bins, smoothed by a kernel, as a belt that tests the
diagonal, and in bins.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.bench import load_embedded
from calibrant.plots import ReliabilityDisplay

data = load_embedded("health_insurance", "RF")
p, y = data.probas_cal, np.array(["insured: no", "insured: yes"])[data.labels_cal]

figure, axes = plt.subplots(2, 2, figsize=(9, 9), layout="constrained")
for curve, ax in zip(("corp", "kernel", "belt", "bins"), axes.flat):
    ReliabilityDisplay.from_predictions(y[:1000], p[:1000], curve=curve, name=curve, ax=ax)

# %%
# **What to see.** All four show the same fault: people with low predicted probability are insured more often than
# predicted. The belt says that it is no chance (p < 0.001). Bins show it, too, but with noise that depends on
# where they are cut.
