"""
Is it still right?
==================

A calibrator in use is fed batches with labels. After 1200 rows the model is replaced by another one, and
evidence against the probabilities piles up until the alarm: a false one has a chance of at most 1%, however
long you look.
"""

import matplotlib.pyplot as plt

from calibrant import CalibrationMonitor, get_calibrator
from calibrant.bench import load_embedded

data = load_embedded("pension", "LGBM")
p, y = data.probas_cal, data.labels_cal
replaced = load_embedded("pension", "RF").probas_cal
calibrator = get_calibrator("logistic").fit(p[:1000], y[:1000])
monitor = CalibrationMonitor(calibrator, alpha=0.01)
rows, evidence = [], []
for start in range(1000, 3600, 100):
    predictions = p if start < 2200 else replaced
    monitor.update(predictions[start : start + 100], y[start : start + 100])
    rows.append(start + 100 - 1000)
    evidence.append(monitor.log_evidence_)
print(monitor.change_)

figure, ax = plt.subplots(layout="constrained")
ax.plot(rows, evidence, "o-", markersize=4)
ax.axhline(4.605, color="0.4", linestyle="--", label="alarm")
ax.axvline(1200, color="0.4", linestyle=":", label="another model")
ax.set(xlabel="rows seen", ylabel="log of the evidence", title="A calibrator in use")
_ = ax.legend()

# %%
# **What to see.** For 1200 rows the evidence drifts slightly down, as it does while all is well. After the change
# it rises, and crosses the line 600 rows later. The printed sentence says what is wrong, since when, and by how
# much, which is what a repair needs.
