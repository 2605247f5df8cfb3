"""
What a wrong probability costs
==============================

A digit that the machine is not sure of goes to a person. The more a wrong digit costs, the surer the machine
must be. Without calibration it does worse than no machine.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant import AutoCalibrator

X, y = load_digits(return_X_y=True)
folds = StratifiedKFold(5, shuffle=True, random_state=0)
p = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")
q = cross_val_predict(AutoCalibrator(), p, y, cv=folds, method="predict_proba")


def cost(p, price):
    sure = p.max(axis=1) > 1 - 1 / price
    return np.mean(np.where(sure, price * (p.argmax(axis=1) != y), 1))


prices = np.geomspace(2, 50, 40)
figure, ax = plt.subplots(layout="constrained")
ax.plot(prices, [cost(p, price) for price in prices], label="as it is")
ax.plot(prices, [cost(q, price) for price in prices], label="calibrated")
ax.axhline(1, color="0.4", linestyle=":", label="a person reads everything")
ax.set(xlabel="price of a wrong digit", ylabel="cost per digit", title="A person costs 1", ylim=(0, 4))
_ = ax.legend()

# %%
# **What to see.** Without calibration the machine trusts itself too much: as soon as a wrong digit costs as much
# as eight people, reading everything by hand is cheaper. Calibrated, it hands over what it is not sure of and
# stays below the price of a person up to the right edge.
