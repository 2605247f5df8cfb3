"""
Maps of two classes
===================

Six methods learn from the same 300 predictions of a spam filter how to correct a probability. Steps, lines
and smooth curves agree where there are data.
"""

import matplotlib.pyplot as plt

from calibrant import get_calibrator
from calibrant.bench import load_embedded
from calibrant.metrics import calibration_map

data = load_embedded("spam7", "RF")
p, y = data.probas_cal, data.labels_cal

figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linestyle=":")
styles = {"platt": "-", "beta": "--", "logistic": "-.", "isotonic": "-", "venn-abers": "--", "auto": "-"}
for name, style in styles.items():
    curve = calibration_map(get_calibrator(name).fit(p[:300], y[:300]))
    ax.plot(curve.before[:, 1], curve.after[:, 1], style, label=name)
ax.set(xlabel="predicted", ylabel="calibrated", aspect="equal", title="300 rows, six methods")
_ = ax.legend()

# %%
# **What to see.** Isotonic regression and Venn-Abers follow every step of 300 rows; the logistic maps are smooth,
# and the default lies between. All agree that predictions below 0.4 are too low. Steps that end at 0 or 1 are
# what makes isotonic regression risky with few rows.
