"""
Two models in one diagram
=========================

A forest and boosted trees filter spam. Both curves have no bins: they are isotonic regressions of the
outcome, and the grey band shows where the curve of calibrated predictions would lie.
"""

import numpy as np

from calibrant.bench import load_embedded
from calibrant.plots import ReliabilityDisplay

forest, boosted = (load_embedded("spam7", name) for name in ("RF", "LGBM"))

y = np.array(["mail", "spam"])[forest.labels_cal]  # the same mails for both
first = ReliabilityDisplay.from_predictions(y, forest.probas_cal, name="forest")
_ = ReliabilityDisplay.from_predictions(y, boosted.probas_cal, name="boosted trees", ax=first.ax_)

# %%
# **What to see.** The forest leaves the band below the diagonal in the middle: where it says 60 %, about 40 % are
# spam. The boosted trees stay inside. MCB, the miscalibration, says the same in one number; DSC, the
# discrimination, is nearly equal, so that calibrating the forest would close most of the gap.
