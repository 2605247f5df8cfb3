"""
Ridge, lasso and MCP
====================

Structured matrix scaling pays for every departure from temperature scaling. A ridge makes all of them small;
lasso and MCP set most of them to zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import SMSCalibrator
from calibrant.bench.data.embedded import embedded_predictions
from calibrant.files.predictions.source import select
from calibrant.metrics import correction_matrix

source = embedded_predictions()
data = source.load(*select(source.experiments(), ["storms"], ["LR"]))
p, y = data.probas_cal, data.labels_cal

matrices = {
    name: correction_matrix(SMSCalibrator(penalty=name).fit(p[:1000], y[:1000])).matrix
    for name in ("ridge", "lasso", "mcp")
}
largest = max(np.abs(matrix).max() for matrix in matrices.values())
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for ax, (name, matrix) in zip(axes, matrices.items()):
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.set(title=f"{name}: {np.mean(np.abs(matrix) < 1e-8):.0%} zeros", xlabel="evidence for", ylabel="score of")
_ = figure.colorbar(image, ax=axes)
