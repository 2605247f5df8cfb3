"""
Two models in one diagram
=========================

A forest and boosted trees filter spam. Both curves have no bins: they are isotonic regressions of the
outcome, and the grey band shows where the curve of calibrated predictions would lie.
"""

from calibrant.bench import load_embedded
from calibrant.plots import ReliabilityDisplay

forest, boosted = (load_embedded("spam7", name) for name in ("RF", "LGBM"))

first = ReliabilityDisplay.from_predictions(forest.labels_cal, forest.probas_cal, name="forest")
ReliabilityDisplay.from_predictions(boosted.labels_cal, boosted.probas_cal, name="boosted trees", ax=first.ax_)
