"""
What temperature scaling minimises
==================================

The log loss as a function of the inverse temperature is convex. Temperature scaling finds its minimum.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant import TemperatureScalingCalibrator
from calibrant.metrics import log_loss

X, y = load_digits(return_X_y=True)
p = cross_val_predict(GaussianNB(), X, y, cv=5, method="predict_proba")
ts = TemperatureScalingCalibrator().fit(p, y)
x = np.log(np.maximum(p, np.finfo(np.float32).tiny))  # exact zeros, as every calibrator reads them


def scaled(inverse_temperature):
    powers = np.exp(inverse_temperature * (x - x.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True)


grid = np.geomspace(0.01, 1, 60)
figure, ax = plt.subplots(layout="constrained")
ax.semilogx(grid, [log_loss(y, scaled(value)) for value in grid])
ax.axvline(ts.inverse_temperature_, color="0.4", linestyle=":", label=f"found: {ts.inverse_temperature_:.3f}")
ax.set(xlabel="inverse temperature", ylabel="log loss", title="Naive Bayes on digits")
_ = ax.legend()

# %%
# **What to see.** The minimum is at 0.06: the log-probabilities of naive Bayes should be sixteen times smaller.
# The loss there is a fraction of what it is at 1, the unchanged predictions.
