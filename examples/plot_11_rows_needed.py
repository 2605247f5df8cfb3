"""
How many rows?
==============

The same methods with 30 to 2000 calibration rows, tested on the remaining ones, averaged over five draws.
Methods with many parameters need rows; the default does no harm with few.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import get_calibrator
from calibrant.bench import load_embedded
from calibrant.metrics import log_loss

data = load_embedded("hpc", "LR")
p, y = data.probas_cal, data.labels_cal

sizes = [30, 100, 300, 1000, 2000]
draws = [np.random.default_rng(seed).permutation(len(y)) for seed in range(5)]
figure, ax = plt.subplots(layout="constrained")
for name, style in {"ts": "o-", "ms": "^:", "sms": "s--", "auto-fast": "D-"}.items():
    losses = []
    for size in sizes:
        fits = [(get_calibrator(name).fit(p[rows[:size]], y[rows[:size]]), rows[2000:]) for rows in draws]
        losses.append(np.mean([log_loss(y[test], fit.predict_proba(p[test])) for fit, test in fits]))
    ax.semilogx(sizes, losses, style, label=name)
ax.axhline(log_loss(y, p), color="0.4", linestyle=":", label="as it is")
ax.set(xlabel="calibration rows", ylabel="test log loss", title="Logistic regression, four classes", ylim=(0.63, 0.8))
_ = ax.legend()

# %%
# **What to see.** Matrix scaling without a penalty needs a thousand rows before it helps. Temperature scaling and
# structured matrix scaling need two or three hundred. The default is below the dotted line, that of no
# calibration, with 30 rows already.
