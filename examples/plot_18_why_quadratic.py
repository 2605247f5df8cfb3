"""
Why the map is quadratic
========================

If the log-odds of each class are Gaussian with different spreads, the right map is quadratic in them. Here
they are those of a spam filter: the spreads differ, and the quadratic map bends, while the linear and the affine
one are nearly the same line.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import BinaryLogisticCalibrator
from calibrant.bench import load_embedded

data = load_embedded("spam7", "LR")
p, y = data.probas_cal, data.labels_cal

inside = (p[:, 1] > 0) & (p[:, 1] < 1)
p, y = p[inside], y[inside]
x = np.log(p[:, 1]) - np.log(p[:, 0])
grid = np.linspace(-6, 8, 200)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for label, name in enumerate(("mail", "spam")):
    left.hist(x[y == label], bins=np.linspace(-6, 8, 50), density=True, alpha=0.6, label=name)
left.set(xlabel="log-odds", title="Log-odds of each class")
left.legend()
for kind, look in {"linear": {"lw": 6, "alpha": 0.4}, "affine": {"ls": "--"}, "quadratic": {}}.items():
    fit = BinaryLogisticCalibrator(kind).fit(p, y)
    q = fit.predict_proba(1 / (1 + np.exp(-grid)))
    right.plot(grid, np.log(q[:, 1]) - np.log(q[:, 0]), label=kind, **look)
right.set(xlabel="log-odds", ylabel="calibrated log-odds", title="Three maps")
_ = right.legend()

# %%
# **What to see.** Left: mail is narrow, spam wide. Right: where both are likely the maps agree; at the ends the
# quadratic one bends towards what the different widths imply, below -2 most of all.
