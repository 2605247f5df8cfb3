"""
Exact zeros
===========

A forest says 0% when no tree votes for a class. As logarithms such zeros rule every logistic method, and a
label that was impossible costs a fortune. A learned mixture of the input takes their weight away.
"""

import matplotlib.pyplot as plt

from calibrant import AutoCalibrator, SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.metrics import log_loss

data = load_embedded("gss_occupation", "RF")
p, y = data.probas_cal, data.labels_cal

print(f"{(p == 0).mean():.0%} of the predictions are exactly zero")
fits = {
    "SMS": SMSCalibrator().fit(p[:1000], y[:1000]),
    "SMS, mixed input": SMSCalibrator(input_smoothing="auto").fit(p[:1000], y[:1000]),
    "auto": AutoCalibrator().fit(p[:1000], y[:1000]),
}
losses = {"as it is": log_loss(y[1000:], p[1000:])}
losses |= {name: log_loss(y[1000:], fit.predict_proba(p[1000:])) for name, fit in fits.items()}

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
bars = ax.barh(list(losses), list(losses.values()))
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlabel="test log loss", title="A forest, eleven occupations", xlim=(0, 1.15 * max(losses.values())))
_ = ax.invert_yaxis()

# %%
# **What to see.** One prediction in four is exactly zero. The label is there all the same now and then, and costs
# as much as the bound of the loss allows: 3.14 on average. Any smoothing helps; learning how much helps most.
