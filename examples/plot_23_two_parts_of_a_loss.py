"""
What calibration can and cannot remove
======================================

A loss is the sum of two parts: what a recalibration could take away, and what only a better model could. Four
models on the same rows.
"""

import matplotlib.pyplot as plt

from calibrant.bench import embedded_predictions, select_experiments
from calibrant.metrics import decompose

source = embedded_predictions()
experiments = select_experiments(source.experiments(), ["storms"])
parts = {}
for experiment in experiments:
    data = source.load(experiment)
    parts[experiment.model] = decompose(data.labels_cal, data.probas_cal, "log_loss")

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
refinement = [part.refinement for part in parts.values()]
ax.barh(list(parts), refinement, label="refinement")
ax.barh(list(parts), [part.calibration for part in parts.values()], left=refinement, label="calibration")
ax.set(xlabel="log loss", title="Nine kinds of storms")
ax.invert_yaxis()
_ = ax.legend()

# %%
# **What to see.** The orange part is what calibration can take away: most from the forest, hardly anything from
# the network. The blue part is left to better models. The forest is as good as the boosted trees once it is
# calibrated.
