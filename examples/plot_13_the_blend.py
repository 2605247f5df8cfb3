"""
What the default found
======================

`AutoCalibrator` weighs its members by what they predict out of fold. With few rows much of the weight stays with
the unchanged predictions; with more, the members take over.
"""

import matplotlib.pyplot as plt

from calibrant import AutoCalibrator
from calibrant.bench import load_embedded

data = load_embedded("diamonds", "LR")
p, y = data.probas_cal, data.labels_cal

sizes = [50, 200, 1000, 3600]
fits = [AutoCalibrator().fit(p[:size], y[:size]) for size in sizes]
print(fits[-1].summary())

members = list(dict.fromkeys(name for fit in fits for name in fit.member_weights_))
figure, ax = plt.subplots(layout="constrained")
left = [0.0] * len(sizes)
for name in members:
    weights = [fit.member_weights_.get(name, 0.0) for fit in fits]
    ax.barh([f"{size} rows" for size in sizes], weights, left=left, label="as it is" if name == "none" else name)
    left = [a + b for a, b in zip(left, weights)]
ax.set(xlabel="weight", title="Members of the blend")
ax.invert_yaxis()
_ = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=len(members), frameon=False)

# %%
# **What to see.** With 50 rows a third of the weight stays with the unchanged predictions. From 200 rows on
# boosted trees on top of matrix scaling have most of it, because they predict better out of fold, and the summary
# above says what was gained.
