"""
Metrics with intervals
======================

Numbers from 400 test rows are uncertain. Each metric before and after calibration, with a 95% interval.
"""

import matplotlib.pyplot as plt

from calibrant import AutoCalibrator
from calibrant.bench import load_embedded
from calibrant.metrics import evaluate

data = load_embedded("hpc", "RF")
p, y = data.probas_cal, data.labels_cal
test = data.probas_test
calibrated = AutoCalibrator().fit(p, y).predict_proba(test)
names = ["log_loss", "brier", "ece", "smooth_ece", "kuiper"]

figure, ax = plt.subplots(layout="constrained")
for shift, (label, prediction) in zip((-0.12, 0.12), {"before": test, "after": calibrated}.items()):
    found = evaluate(data.labels_test, prediction, names, level=0.95).values()
    reach = [[e.value - e.low for e in found], [e.high - e.value for e in found]]
    places = [place + shift for place in range(len(names))]
    ax.errorbar([e.value for e in found], places, xerr=reach, fmt="o", capsize=3, label=label)
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set(title="A forest, four classes, 400 test rows", xlabel="value, with 95% interval", xlim=(0, None))
_ = ax.legend()

# %%
# **What to see.** The calibration errors (ECE, smooth ECE, Kuiper) fall clearly: their intervals do not overlap.
# Log loss and Brier score fall, too, but 400 rows are too few to be sure by their intervals alone; compare row by
# row with `post_hoc_improvement`, which is sharper.
