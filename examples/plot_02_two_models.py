"""
Two models in one diagram
=========================

A forest and boosted trees filter spam. Both curves have no bins: they are isotonic regressions of the
outcome, and the grey band shows where the curve of calibrated predictions would lie.
"""

from calibrant.bench.data.embedded import embedded_predictions
from calibrant.files.predictions.source import select
from calibrant.plots import ReliabilityDisplay

source = embedded_predictions()
forest, boosted = (source.load(*select(source.experiments(), ["spam7"], [name])) for name in ("RF", "LGBM"))

first = ReliabilityDisplay.from_predictions(forest.labels_cal, forest.probas_cal, name="forest")
ReliabilityDisplay.from_predictions(boosted.labels_cal, boosted.probas_cal, name="boosted trees", ax=first.ax_)
