"""
Keep the ranking
================

Flexible maps may change the order of cases. With `monotone=True` they do not, for a small price in log loss.
"""

import matplotlib.pyplot as plt

from calibrant import AutoCalibrator
from calibrant.bench.data.embedded import embedded_predictions
from calibrant.files.predictions.source import select
from calibrant.metrics import calibration_map

source = embedded_predictions()
data = source.load(*select(source.experiments(), ["arrests"], ["RF"]))
p, y = data.probas_cal, data.labels_cal

figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linestyle=":")
for monotone, style in ((False, "--"), (True, "-")):
    fit = AutoCalibrator(monotone=monotone).fit(p, y)
    curve = calibration_map(fit)
    ax.plot(curve.before[:, 1], curve.after[:, 1], style, label=f"monotone={monotone}")
print(f"increase of the calibration log loss: {fit.monotone_cost_:.5f}")
ax.set(xlabel="predicted", ylabel="calibrated", aspect="equal", title="A forest, two classes")
_ = ax.legend()
