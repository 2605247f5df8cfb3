"""
How many bins?
==============

The binned calibration error depends on the number of bins and grows with noise. Smooth ECE has no bins, and
the corrected estimate takes away what chance contributes. Here the predictions of a calibrated forest look
worse with every bin.
"""

import matplotlib.pyplot as plt

from calibrant import AutoCalibrator
from calibrant.bench import load_embedded
from calibrant.metrics import expected_calibration_error, smooth_ece

data = load_embedded("credit", "RF")
p, y = data.probas_cal, data.labels_cal

calibrated = AutoCalibrator().fit(p[:2000], y[:2000]).predict_proba(p[2000:])
truth = y[2000:]

bins = [2, 5, 10, 15, 20, 30, 50, 75, 100]
plain = [expected_calibration_error(truth, calibrated, n_bins=b, strategy="quantile") for b in bins]
corrected = [expected_calibration_error(truth, calibrated, n_bins=b, strategy="quantile", debias=True) for b in bins]

figure, ax = plt.subplots(layout="constrained")
ax.plot(bins, plain, "o-", label="binned")
ax.plot(bins, corrected, "s--", label="binned, corrected for chance")
ax.axhline(smooth_ece(truth, calibrated), color="0.4", linestyle=":", label="smooth ECE")
ax.set(
    xlabel="number of bins", ylabel="calibration error", title="One set of predictions, many answers", ylim=(0, None)
)
_ = ax.legend()

# %%
# **What to see.** With two bins the model looks perfect, with a hundred bins three times worse than smooth ECE
# says. Quote a number without bins, or the corrected one, and say which.
