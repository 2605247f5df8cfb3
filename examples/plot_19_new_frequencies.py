"""
Class frequencies change
========================

Later, two of three positive cases are gone. `adapt` estimates the new frequency from predictions without
labels and corrects the calibrator for it.
"""

import numpy as np

from calibrant import adapt, get_calibrator
from calibrant.bench import load_embedded
from calibrant.plots import BeforeAfterDisplay

data = load_embedded("heart_deaths", "LGBM")
p, y = data.probas_cal, data.labels_cal

calibrator = get_calibrator("logistic").fit(p[:1500], y[:1500])
rng = np.random.default_rng(0)
later = np.flatnonzero((y == 0) | (rng.random(len(y)) < 1 / 3))
later = later[later >= 1500]

adapted = adapt(calibrator, unlabelled=p[later])
print(adapted.summary())
print(f"truth: {y[later].mean():.1%}")
display = BeforeAfterDisplay.from_predictions(
    y[later], calibrator.predict_proba(p[later]), adapted.predict_proba(p[later])
)

# %%
# **What to see.** Before, predictions are too high throughout, because survivors were frequent when the
# calibrator was fitted. The estimated share, made without a label, is within its interval of the truth, and after
# the correction the curve follows the diagonal. Discrimination (DSC) is unchanged: a new frequency moves all rows
# the same way.
